/**
 * npm packages of other machines, which the package manager of this one does not install.
 *
 * @module
 */

const PLACE = decodeURIComponent(new URL("../dist/packages", import.meta.url).pathname);

/**
 * Folder of a package, fetched with `npm pack` unless it is there. npm checks the hash the registry names for it.
 *
 * @throws {Error} With npm's words when it cannot be had.
 */
export async function npmPackage(name: string, version: string): Promise<string> {
  const base = `${name.replace("@", "").replace("/", "-")}-${version}`;
  const folder = `${PLACE}/${base}`;
  const found = await Deno.stat(`${folder}/package.json`).catch(() => null);
  if (found !== null) return folder;
  const work = `${PLACE}/.${base}.${crypto.randomUUID()}`;
  await Deno.mkdir(work, { recursive: true });
  try {
    await output(
      ["npm", "pack", `${name}@${version}`, "--ignore-scripts", "--silent", "--pack-destination", work],
      work,
    );
    await output(["tar", "-xzf", `${base}.tgz`], work);
    await Deno.rename(`${work}/package`, folder);
  } finally {
    await Deno.remove(work, { recursive: true });
  }
  return folder;
}

async function output([command, ...args]: readonly [string, ...string[]], cwd: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, cwd, stdin: "null", stdout: "null" }).output();
  if (!success) throw new Error(`${command} ${args[0]} ${args[1]}: ${new TextDecoder().decode(stderr).trim()}`);
}
