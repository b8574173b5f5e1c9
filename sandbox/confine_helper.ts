/**
 * Finding the containment helper `mur-confine`: the root-owned one that `mur setup` placed when it is byte for byte our
 * own, else our own copy (spec cli 15.3, containment 19.1). In a checkout our own is built from its source on demand; a
 * bundle has it beside itself, and a compiled one, which cannot be sure of that, lays it down in `~/.murmur/compiled/`.
 *
 * @module
 */
import { sameBytes } from "../base/bytes.ts";
import { writeAtomically } from "../base/atomic_file.ts";
import { ioError, MurError } from "../base/errors.ts";
import { murmurHome } from "../base/murmur_home.ts";
import { embeddedFile } from "../base/program.ts";
import { buildConfine, confineBinaryName, confineSources } from "./confine_build.ts";

/** Where `sudo mur setup` puts the helper; the only path its AppArmor profile names. */
export const SYSTEM_HELPER = "/usr/local/libexec/murmur/mur-confine";

/** The helper's sources in a checkout. */
const SOURCES = pathOf(new URL("./confine", import.meta.url));

/** Where a checkout keeps what it builds. */
const BUILT = pathOf(new URL("../dist", import.meta.url));

/** Name of the helper beside a bundle. */
export const CARRIED_HELPER = "mur-confine";

function pathOf(url: URL): string {
  return decodeURIComponent(url.pathname);
}

let found: Promise<string> | undefined;

/**
 * Absolute path of the helper for this process. The search happens once.
 *
 * @throws {MurError} `E-IO-003` when it can be neither found nor built.
 */
export function confineHelper(): Promise<string> {
  return found ??= find().catch((error) => {
    // A compiler installed meanwhile must be seen.
    found = undefined;
    throw error;
  });
}

/**
 * Our own copy, whatever `mur setup` placed.
 *
 * @throws {MurError} `E-IO-…` when it can be neither laid down nor built.
 */
export async function ownHelper(): Promise<string> {
  const carried = embeddedFile(CARRIED_HELPER);
  if (carried === null) return await checkoutHelper();
  return Deno.build.standalone ? await layDown(carried, murmurHome().compiled) : carried;
}

async function find(): Promise<string> {
  const own = await ownHelper();
  return await isTrustedCopy(SYSTEM_HELPER, own) ? SYSTEM_HELPER : own;
}

/**
 * The helper of this checkout, `dist/mur-confine-<hash of the sources>-<arch>`, built when it is not there.
 *
 * @throws {MurError} `E-IO-003`.
 */
export async function checkoutHelper(): Promise<string> {
  const sources = confineSources(SOURCES);
  const texts = sources.map((path) => Deno.readFileSync(path));
  const all = new Uint8Array(await new Blob(texts).arrayBuffer());
  const target = `${BUILT}/${await confineBinaryName(all)}`;
  try {
    Deno.statSync(target);
  } catch {
    Deno.mkdirSync(BUILT, { recursive: true });
    await buildConfine(sources, target);
  }
  return target;
}

/**
 * Writes a carried helper into a directory under the name of its content's hash, unless the same bytes stand there.
 *
 * @throws {MurError} `E-IO-…` when it can't be read or written.
 */
export async function layDown(carried: string, directory: string): Promise<string> {
  try {
    const bytes = Deno.readFileSync(carried);
    const target = `${directory}/${await confineBinaryName(bytes)}`;
    if (!holds(target, bytes)) {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      writeAtomically(target, bytes, { mode: 0o700 });
    }
    return target;
  } catch (error) {
    throw error instanceof MurError ? error : ioError("lay down the containment helper", error);
  }
}

/**
 * Whether a helper may be used in place of our own: root owns it and its directory, nobody else can write either, and
 * it is our own byte for byte.
 */
export async function isTrustedCopy(path: string, own: string): Promise<boolean> {
  try {
    for (const place of [path, path.slice(0, path.lastIndexOf("/"))]) {
      const stat = await Deno.lstat(place);
      if (stat.uid !== 0 || stat.isSymlink || (stat.mode ?? 0o777) & 0o022) return false;
    }
    return holds(path, await Deno.readFile(own));
  } catch {
    return false;
  }
}

/** Whether a file is there and holds exactly these bytes. */
function holds(path: string, bytes: Uint8Array): boolean {
  try {
    return sameBytes(Deno.readFileSync(path), bytes);
  } catch {
    return false;
  }
}
