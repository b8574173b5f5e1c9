/**
 * What the commands of one session may touch, every path looked up once at launch (spec containment 3, 4). Grants name
 * what was there then: nothing that comes later under a granted name gains anything.
 *
 * @module
 */
import type { Capabilities } from "../artifact/manifest/capsule_manifest.ts";
import { isAtOrBelow, parentDirectory } from "../base/paths.ts";
import type { PathLink } from "./composed_root.ts";
import { elfClosure } from "./elf_closure.ts";
import type { HostPathGrant } from "./host_paths.ts";
import { type ExecutablePath, findExecutable } from "./executable_path.ts";
import { interpreterOf } from "./script_interpreter.ts";
import type { ShellAllow } from "./shell_allow.ts";

/** The directories of a session that commands see; canonical. */
export interface CommandDirectories {
  readonly workdir: string;
  readonly records: string;
  /** `MURMUR_RUNTIME_DIR`. */
  readonly runtime: string;
}

/** A directory granted by `interpreter_runtime`; a file in the place of one is granted as what it is. */
export interface InterpreterDirectory {
  readonly canonical: string;
  readonly listDir: boolean;
  readonly kind: "directory" | "file";
}

/** A tree granted by `staged_runtime`. */
export interface StagedTree {
  /** Canonical; as declared when there is nothing, so that the command fails rather than run without it. */
  readonly path: string;
  readonly kind: "directory" | "file";
}

/** Everything that was granted. */
export interface CommandGrants {
  readonly directories: CommandDirectories;
  /** What is run in the work folder counts too (`workdir_exec`). */
  readonly workdirExec: boolean;
  /** Canonical files that may be executed. */
  readonly execute: readonly string[];
  readonly interpreterRuntime: readonly InterpreterDirectory[];
  readonly stagedRuntime: readonly StagedTree[];
  readonly hostPaths: readonly Pick<HostPathGrant, "path" | "access">[];
  /** Host files and directories that programs read besides. */
  readonly hostFiles: readonly HostFile[];
  /** Canonical path of the host's `resolv.conf`; `null` without one, and for who may use no network. */
  readonly resolvConf: string | null;
  /** Names of granted things that differ from their canonical paths. */
  readonly links: readonly PathLink[];
  readonly unixSockets: boolean;
}

/**
 * A host file or directory that allowed programs read besides their own (spec containment 21, O6): what name resolution and
 * TLS need, for who may use the network, and configuration that a program dies without when its reading is denied.
 */
export interface HostFile {
  readonly path: string;
  readonly kind: "directory" | "file";
  readonly purpose: "name resolution" | "trust store" | "program configuration";
}

/** The resolver's configuration. Commands see one of the runtime's own in its place. */
const RESOLV_CONF = "/etc/resolv.conf";

const NAME_RESOLUTION = [RESOLV_CONF, "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf"] as const;
const TRUST_STORES = ["/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates"] as const;

/**
 * Where these exist and are denied, git, and node and other programs on OpenSSL, end before they have done anything;
 * where they are absent they go on. Whole machines share them, so they are given only when everyone may read them.
 */
const PROGRAM_CONFIGURATION = ["/etc/gitconfig", "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf"] as const;

/** Those of the files that this host has. */
export function findHostFiles(network: boolean): HostFile[] {
  const found = (purpose: HostFile["purpose"]) => (path: string): HostFile[] => {
    const kind = kindOf(path);
    return kind === null ? [] : [{ path, kind, purpose }];
  };
  return [
    ...(network ? NAME_RESOLUTION.flatMap(found("name resolution")) : []),
    ...(network ? TRUST_STORES.flatMap(found("trust store")) : []),
    ...PROGRAM_CONFIGURATION.filter(isPublicFile).flatMap(found("program configuration")),
  ];
}

function isPublicFile(path: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(path);
    return isFile && ((mode ?? 0) & 0o004) !== 0;
  } catch {
    return false;
  }
}

function kindOf(path: string): "directory" | "file" | null {
  try {
    return Deno.statSync(path).isDirectory ? "directory" : "file";
  } catch {
    return null;
  }
}

function canonicalOf(path: string): string | null {
  try {
    return Deno.realPathSync(path);
  } catch {
    return null;
  }
}

/** A session's directories under the names the launch has for them. */
export interface NamedDirectories {
  readonly workdir: string;
  readonly records: string;
  readonly runtime: string;
}

/** What {@linkcode resolveGrants} is given besides the manifest. */
export interface GrantSources {
  readonly directories: NamedDirectories;
  readonly allow: ShellAllow;
  readonly hostPaths: readonly HostPathGrant[];
  /** Names the operator wrote that lead to them. */
  readonly hostPathLinks: readonly PathLink[];
}

/** Looks everything up. Directories of `interpreter_runtime` that do not exist grant nothing. */
export function resolveGrants(capabilities: Capabilities, sources: GrantSources): CommandGrants {
  const { allow, hostPaths } = sources;
  const links: PathLink[] = [];
  const resolve = (path: string): string | null => {
    const canonical = canonicalOf(path);
    if (canonical !== null && canonical !== path) {
      links.push({ path, target: canonical, kind: kindOf(canonical) ?? "file", inCanonicalDirectory: false });
    }
    return canonical;
  };
  const interpreterRuntime = capabilities.interpreterRuntime.flatMap(({ dirs }) =>
    dirs.flatMap(({ path, listDir }) => {
      const canonical = resolve(path);
      return canonical === null ? [] : [{ canonical, listDir, kind: kindOf(canonical) ?? "directory" }];
    })
  );
  const stagedRuntime = capabilities.stagedRuntime.map(({ sourcePath }): StagedTree => {
    const path = resolve(sourcePath) ?? sourcePath;
    return { path, kind: kindOf(path) ?? "directory" };
  });
  const { workdir, records, runtime } = sources.directories;
  const directories = {
    workdir: resolve(workdir) ?? workdir,
    records: resolve(records) ?? records,
    runtime: resolve(runtime) ?? runtime,
  };
  links.push(...sources.hostPathLinks);
  for (const { matches } of allow.binaries) for (const match of matches) links.push(...namesOf(match));
  return {
    directories,
    workdirExec: capabilities.workdirExec,
    execute: allow.execute,
    interpreterRuntime,
    stagedRuntime,
    hostPaths,
    hostFiles: findHostFiles(capabilities.networkAllow.length > 0),
    resolvConf: capabilities.networkAllow.length > 0 ? canonicalOf(RESOLV_CONF) : null,
    links,
    unixSockets: capabilities.unixSockets,
  };
}

/** The names of a match that are not its canonical path: as `PATH` has it, and in the directory that this leads to. */
function namesOf({ invoked, canonical }: ExecutablePath): PathLink[] {
  const parent = canonicalOf(parentDirectory(invoked));
  const name = invoked.slice(invoked.lastIndexOf("/") + 1);
  const paths = new Set(parent === null ? [invoked] : [invoked, parent === "/" ? `/${name}` : `${parent}/${name}`]);
  return [...paths].filter((path) => path !== canonical).map((path) => ({
    path,
    target: canonical,
    kind: "file",
    inCanonicalDirectory: parent === parentDirectory(path),
  }));
}

/** A name that leads to a canonical file. */
export interface NativeName {
  readonly path: string;
  readonly target: string;
}

/** What starting a native tool opens. */
export interface NativeTool {
  /** Canonical. */
  readonly files: readonly string[];
  /** Names by which programs among them are started, where these are not their canonical paths. */
  readonly names: readonly NativeName[];
}

/**
 * Files a native tool opens to start: itself, its loader and libraries; of one that is a script those of its interpreter,
 * and of what `env` finds for it, besides.
 *
 * @param path `PATH` of the launch.
 */
export function nativeTool(program: string, path: string): NativeTool {
  const interpreter = interpreterOf(program);
  const programs = interpreter === null ? [program] : [program, interpreter.path];
  if (interpreter?.path.endsWith("/env")) programs.push(findExecutable(interpreter.name, path)?.invoked ?? "");
  const started = programs.filter((each) => each.startsWith("/"));
  const names = started.flatMap((each) => {
    const target = canonicalOf(each);
    return target === null || target === each ? [] : [{ path: each, target }];
  });
  return { files: [...new Set(started.flatMap(elfClosure))], names };
}

/** Writable grants, the flag of each saying whether what is written there may run; a directory before what lies in it. */
export function writableGrants(
  { directories, workdirExec, hostPaths }: CommandGrants,
): { readonly path: string; readonly exec: boolean }[] {
  const own = [directories.workdir, `${directories.records}/tmp`, `${directories.records}/home`];
  return [
    ...own.map((path) => ({ path, exec: workdirExec })),
    ...hostPaths.filter(({ access }) => access === "read-write").map(({ path }) => ({ path, exec: false })),
  ];
}

/** Directories that a composed root has for what may be run, besides the system's: where each of the files lies. */
export function executableDirectories(
  execute: readonly string[],
): { readonly path: string; readonly kind: "directory" | "file" }[] {
  const places = new Map<string, "directory" | "file">();
  for (const file of execute) {
    const parent = parentDirectory(file);
    // These are put together and never bound as a whole; the file alone is.
    if (["/", "/etc", "/tmp"].includes(parent)) places.set(file, "file");
    else if (!isAtOrBelow(file, "/dev") && !isAtOrBelow(file, "/proc")) places.set(parent, "directory");
  }
  return [...places].map(([path, kind]) => ({ path, kind }));
}
