/**
 * `sudo mur setup [--remove]`: puts the containment helper where no user can change it, and on a host with AppArmor the
 * profile that lets it make user namespaces (spec cli 15.3).
 *
 * @module
 */
import { writeAtomically } from "../base/atomic_file.ts";
import { sameBytes } from "../base/bytes.ts";
import { ioError, MurError, reasonOf } from "../base/errors.ts";
import { parentDirectory } from "../base/paths.ts";
import { APPARMOR_PROFILE, appArmorEnabled, profileText } from "../sandbox/apparmor_profile.ts";
import { ownHelper, SYSTEM_HELPER } from "../sandbox/confine_helper.ts";
import { probeHost } from "../sandbox/host_probe.ts";
import type { CliContext } from "./context.ts";

/** Flags of `mur setup`. */
export interface SetupFlags {
  readonly remove?: boolean;
}

/** Where things are put, and what loads a profile. The product's own unless a test says otherwise. */
export interface SetupPlaces {
  readonly helper: string;
  readonly profile: string;
  /** Owner of both, and of every directory above the helper up to `top`. */
  readonly owner: number;
  readonly top: string;
  /** Whether a profile is needed. */
  readonly appArmor: boolean;
  /** Loads the profile into the kernel, or unloads it. @throws {MurError} */
  readonly load: (profile: string, how: "replace" | "remove") => Promise<void>;
}

const PLACES: SetupPlaces = {
  helper: SYSTEM_HELPER,
  profile: APPARMOR_PROFILE,
  owner: 0,
  top: "/",
  appArmor: false,
  load: loadProfile,
};

/** Sets this host up, or undoes it. */
export async function setup(context: CliContext, flags: SetupFlags): Promise<number> {
  const command = `sudo mur setup${flags.remove === true ? " --remove" : ""}`;
  if (Deno.build.os !== "linux") {
    throw new MurError("E-IO-003", "mur setup is for Linux: commands are not contained by the kernel elsewhere", {
      hint: "nothing is to be set up here",
    });
  }
  if (Deno.uid() !== 0) {
    throw new MurError("E-IO-002", "mur setup writes files that only root may write", { hint: `run: ${command}` });
  }
  const places = { ...PLACES, appArmor: appArmorEnabled() };
  const done = flags.remove === true
    ? await removeSetup(places)
    : await placeSetup(places, await Deno.readFile(await ownHelper()));
  for (const line of done) context.stdout.line(line);
  if (flags.remove !== true) {
    const { usernsGrant } = await probeHost(places.helper);
    context.stdout.line(`userns grant: ${usernsGrant}`);
  }
  return 0;
}

/**
 * Puts the helper and, where there is AppArmor, its profile in place. What stands there already is left.
 *
 * @returns What was done, a line each.
 * @throws {MurError} `E-IO-003` for a directory that others can write; `E-IO-…` as the file system says.
 */
export async function placeSetup(places: SetupPlaces, helper: Uint8Array<ArrayBuffer>): Promise<string[]> {
  const { helper: target, profile } = places;
  makeOwnedDirectories(places, parentDirectory(target));
  const done = [place(target, helper, 0o755)];
  if (!places.appArmor) return [...done, "this kernel runs no AppArmor: no profile is needed"];
  done.push(place(profile, new TextEncoder().encode(profileText(target)), 0o644));
  await places.load(profile, "replace");
  return [...done, `${profile} is loaded`];
}

/** Undoes {@linkcode placeSetup}, whether or not all of it was done. */
export async function removeSetup(places: SetupPlaces): Promise<string[]> {
  const done: string[] = [];
  if (exists(places.profile)) {
    if (places.appArmor) await places.load(places.profile, "remove");
    remove(places.profile);
    done.push(`${places.profile} is removed`);
  }
  if (exists(places.helper)) {
    remove(places.helper);
    done.push(`${places.helper} is removed`);
  }
  try {
    Deno.removeSync(parentDirectory(places.helper));
  } catch {
    // It was never made, or holds what is not ours.
  }
  return done.length === 0 ? ["nothing was set up"] : done;
}

/** Writes a file unless it holds these bytes with this mode already, and looks at what stands there then. */
function place(path: string, bytes: Uint8Array<ArrayBuffer>, mode: number): string {
  const stands = () => {
    try {
      const stat = Deno.lstatSync(path);
      return stat.isFile && ((stat.mode ?? 0) & 0o7777) === mode && sameBytes(Deno.readFileSync(path), bytes);
    } catch {
      return false;
    }
  };
  if (stands()) return `${path} is in place already`;
  try {
    writeAtomically(path, bytes, { mode });
  } catch (cause) {
    throw cause instanceof MurError ? cause : ioError(`write ${path}`, cause);
  }
  if (!stands()) {
    throw new MurError("E-IO-003", `${path} does not hold what was written to it`, { hint: "see what else writes it" });
  }
  return `${path} is written`;
}

/**
 * Makes the directories of a path and refuses one that another than its owner could put something into.
 *
 * @throws {MurError} `E-IO-003`.
 */
function makeOwnedDirectories({ owner, top }: SetupPlaces, directory: string): void {
  if (directory !== top) makeOwnedDirectories({ ...PLACES, owner, top }, parentDirectory(directory));
  try {
    Deno.mkdirSync(directory, { mode: 0o755 });
    Deno.chmodSync(directory, 0o755);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AlreadyExists)) throw ioError(`make ${directory}`, cause);
  }
  const stat = Deno.lstatSync(directory);
  if (stat.isDirectory && stat.uid === owner && ((stat.mode ?? 0o777) & 0o022) === 0) return;
  throw new MurError("E-IO-003", `${directory}, above the helper, is not a directory that root alone can write`, {
    hint: `chown root ${directory} and chmod go-w ${directory}, then run mur setup again`,
  });
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (cause) {
    throw ioError(`remove ${path}`, cause);
  }
}

async function loadProfile(profile: string, how: "replace" | "remove"): Promise<void> {
  const args = [how === "replace" ? "--replace" : "--remove", profile];
  let said: string;
  try {
    const { success, stderr } = await new Deno.Command("apparmor_parser", { args, stdin: "null", stdout: "null" })
      .output();
    if (success) return;
    said = new TextDecoder().decode(stderr).trim();
  } catch (cause) {
    said = reasonOf(cause);
  }
  throw new MurError("E-IO-003", `apparmor_parser ${args.join(" ")} failed: ${said}`, {
    hint: "install AppArmor's user tools (package apparmor), then run mur setup again",
  });
}
