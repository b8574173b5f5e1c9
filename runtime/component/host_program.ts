/**
 * The component host as one script that is handed over its standard input, so that the process needs to read no file at
 * all (spec components 3.9). A bundle carries it; a checkout makes it once per state of its sources, in `dist/`.
 *
 * @module
 */
import { writeAtomically } from "../../base/atomic_file.ts";
import { reasonOf } from "../../base/errors.ts";
import { denoDirectory, embeddedComponentHost } from "../../base/program.ts";
import { sha256Hex } from "../../artifact/sha256.ts";

const HOST = new URL("./host/", import.meta.url);
const BUILDER = new URL("./build_host.ts", import.meta.url);

/** What the script depends on besides the host's own folder. */
const SHARED = ["frames.ts", "growth_globals.ts", "build_host.ts"];

/**
 * The script; `null` in a compiled binary, which starts itself in a hidden mode instead.
 *
 * @throws {Error} When a checkout cannot make it: a defect of the sources or of the machine's package cache.
 */
export async function componentHostScript(): Promise<string | null> {
  if (Deno.build.standalone) return null;
  const embedded = embeddedComponentHost();
  if (embedded !== null) return embedded;
  const target = decodeURIComponent(
    new URL(`../../dist/component-host-${await sourceHash()}.js`, import.meta.url).pathname,
  );
  try {
    return await Deno.readTextFile(target);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
  }
  const script = await makeComponentHost();
  try {
    Deno.mkdirSync(target.slice(0, target.lastIndexOf("/")), { recursive: true });
    writeAtomically(target, script, { durable: false });
  } catch (cause) {
    // A checkout that cannot be written to makes it again at each start.
    if (!(cause instanceof Error)) throw new Error(reasonOf(cause));
  }
  return script;
}

async function sourceHash(): Promise<string> {
  const files: URL[] = SHARED.map((name) => new URL(`./${name}`, import.meta.url));
  for await (const { name } of Deno.readDir(HOST)) {
    if (name.endsWith(".ts") && !name.endsWith("_test.ts")) files.push(new URL(name, HOST));
  }
  files.sort((a, b) => (a.href < b.href ? -1 : 1));
  const texts = await Promise.all(files.map((file) => Deno.readTextFile(file)));
  return (await sha256Hex(new TextEncoder().encode(texts.join("\0")))).slice(0, 16);
}

/**
 * Makes the script from the sources of a checkout.
 *
 * @throws {Error} As {@linkcode componentHostScript}.
 */
export async function makeComponentHost(): Promise<string> {
  const cache = denoDirectory();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", "--frozen", "--allow-all", BUILDER.href],
    // The credentials of whoever starts a session are no business of a bundler's.
    clearEnv: true,
    env: { DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1", ...(cache === null ? {} : { DENO_DIR: cache }) },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(`the component host cannot be made: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}
