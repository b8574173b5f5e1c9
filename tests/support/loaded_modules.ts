/**
 * Which modules a program loads when it starts: what is imported only when it is needed does not count.
 *
 * @module
 */

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly { readonly isDynamic?: boolean; readonly code?: { readonly specifier: string } }[];
}

/** Specifiers of all modules that importing a module of this checkout loads, itself included. */
export async function modulesLoadedBy(url: URL): Promise<readonly string[]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json", url.href] }).output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { modules: readonly Module[] };
  const pending = [url.href];
  const loaded = new Set<string>();
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (loaded.has(next)) continue;
    loaded.add(next);
    for (const { isDynamic, code } of modules.find(({ specifier }) => specifier === next)?.dependencies ?? []) {
      if (!isDynamic && code !== undefined) pending.push(code.specifier);
    }
  }
  return [...loaded];
}
