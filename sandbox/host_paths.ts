/**
 * The operator's `host_paths`: directories of the host that commands may use, judged before anything of a session is made
 * (spec containment 4.6, steps 2 and 3; the first is the shape, judged when the file is read).
 *
 * @module
 */
import type { Capabilities } from "../artifact/manifest/capsule_manifest.ts";
import { MurError } from "../base/errors.ts";
import { isAtOrBelow } from "../base/paths.ts";
import type { ShellAllow } from "./shell_allow.ts";
import { canonicalPlace } from "./canonical_place.ts";
import { SYSTEM_DIRECTORIES } from "./system_directories.ts";

/** An entry as it is written. */
export interface HostPathEntry {
  readonly written: string;
  /** Absolute, `~` expanded. */
  readonly path: string;
  readonly access: "read" | "read-write";
}

/** An entry that may be granted. */
export interface HostPathGrant {
  /** Canonical. */
  readonly path: string;
  readonly access: "read" | "read-write";
  /** Places of credentials that lie in it, canonical where they exist. */
  readonly credentials: readonly string[];
}

/** What the entries are held against. Paths are canonical where they exist. */
export interface HostPathSession {
  /** File the entries come from, for messages. */
  readonly file: string;
  readonly home: string;
  /** `~/.murmur`. */
  readonly murmurHome: string;
  /** The work folder, or the folder it will be made in. */
  readonly workdir: string;
  /** Programs and directories of programs that this session's commands may execute. */
  readonly executables: readonly string[];
}

/** What an entry is on this host; `canonical` is `null` when it is not there. */
export interface FoundHostPath {
  readonly entry: HostPathEntry;
  readonly canonical: string | null;
  readonly isDirectory: boolean;
}

/** Where programs keep credentials, below a home directory. */
const CREDENTIAL_PLACES: readonly string[] = [
  ".aws",
  ".azure",
  ".cargo/credentials.toml",
  ".config/gcloud",
  ".config/gh",
  ".docker/config.json",
  ".git-credentials",
  ".gnupg",
  ".kube",
  ".murmur/config.yaml",
  ".netrc",
  ".npmrc",
  ".pypirc",
  ".ssh",
];

/** Directories of the system beside those of its programs. */
const OTHER_SYSTEM_DIRECTORIES: readonly string[] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys"];

function problemOf(
  { entry, canonical, isDirectory }: FoundHostPath,
  earlier: readonly FoundHostPath[],
  session: HostPathSession,
): string | null {
  if (canonical === null) return "does not exist";
  if (!isDirectory) return "is not a directory";
  const system = [...SYSTEM_DIRECTORIES, ...OTHER_SYSTEM_DIRECTORIES].find((each) => isAtOrBelow(canonical, each));
  if (canonical === "/") return "is the root directory";
  if (system !== undefined) return `is a system path (${system})`;
  if (earlier.some((other) => other.canonical === canonical)) return "is the same directory as another entry";
  const { murmurHome, workdir } = session;
  if (
    entry.access === "read-write" && (isAtOrBelow(canonical, murmurHome) || isAtOrBelow(murmurHome, canonical))
  ) {
    return `is read-write and reaches ${murmurHome}, where keys and other sessions' files are`;
  }
  if (isAtOrBelow(canonical, workdir)) return `lies in the work folder ${workdir}`;
  const covered = session.executables.find((each) => isAtOrBelow(each, canonical));
  if (covered !== undefined) return `holds ${covered}, which this session may execute`;
  // What may be written there could be executed as well: rights on a directory hold for everything in it.
  const around = session.executables.find((each) => entry.access === "read-write" && isAtOrBelow(canonical, each));
  if (around !== undefined) return `is read-write in ${around}, which this session may execute from`;
  return null;
}

/**
 * Judges the entries. Pure.
 *
 * @throws {MurError} `E-IO-003` with the index and the path as written of the first that may not be granted.
 */
export function judgeHostPaths(found: readonly FoundHostPath[], session: HostPathSession): readonly HostPathGrant[] {
  return found.map((each, index) => {
    const { entry, canonical } = each;
    const problem = problemOf(each, found.slice(0, index), session);
    if (problem !== null || canonical === null) {
      throw new MurError("E-IO-003", `${session.file}: host_paths[${index}], '${entry.written}', ${problem}`, {
        hint: "change or remove the entry",
      });
    }
    const credentials = CREDENTIAL_PLACES.map((place) => `${session.home}/${place}`)
      .filter((place) => isAtOrBelow(place, canonical) || isAtOrBelow(canonical, place));
    return { path: canonical, access: entry.access, credentials };
  });
}

/** What the commands of a manifest may execute: files of its allow list, and the directories its grants open. */
export function sessionExecutables(
  { interpreterRuntime, stagedRuntime }: Pick<Capabilities, "interpreterRuntime" | "stagedRuntime">,
  allow: ShellAllow,
): readonly string[] {
  return [
    ...allow.execute,
    ...interpreterRuntime.flatMap(({ dirs }) => dirs.map((dir) => dir.path)),
    ...stagedRuntime.map(({ sourcePath }) => sourcePath),
  ];
}

/** Looks the entries up on this host and judges them. @throws {MurError} As {@linkcode judgeHostPaths}. */
export async function resolveHostPaths(
  entries: readonly HostPathEntry[],
  session: HostPathSession,
): Promise<readonly HostPathGrant[]> {
  if (entries.length === 0) return [];
  const found = await Promise.all(entries.map(async (entry): Promise<FoundHostPath> => {
    try {
      const canonical = await Deno.realPath(entry.path);
      return { entry, canonical, isDirectory: (await Deno.stat(canonical)).isDirectory };
    } catch {
      // What cannot be reached cannot be granted; its reason is a detail of the host.
      return { entry, canonical: null, isDirectory: false };
    }
  }));
  return judgeHostPaths(found, {
    file: session.file,
    home: canonicalPlace(session.home),
    murmurHome: canonicalPlace(session.murmurHome),
    workdir: canonicalPlace(session.workdir),
    executables: session.executables.map(canonicalPlace),
  });
}
