/**
 * What the runtime serves components, and to whom: the one table that linking, staging and `mur doctor` read (spec
 * components 1.1, 1.2, 3.1).
 *
 * Versions of `murmur:` packages match as text; `wasi:` 0.2 follows semantic versions.
 *
 * @module
 */

/** Role of a component as linking sees it. */
export type ComponentRole = "tool" | "driver" | "capsule" | "hook" | "process-driver";

/** Version served of each `murmur:` package (spec components 1.1). */
export const SERVED_PACKAGES: Readonly<Record<string, string>> = {
  "murmur:artifact-manager": "0.1.0",
  "murmur:capsule": "0.1.0",
  "murmur:conversation": "0.2.0",
  "murmur:driver": "0.2.0",
  "murmur:hook": "0.9.0",
  "murmur:host": "0.1.0",
  "murmur:message": "0.1.0",
  "murmur:runtime": "0.4.0",
  "murmur:runtime-guest": "0.1.0",
  "murmur:shell": "0.1.0",
  "murmur:task": "0.1.0",
  "murmur:task-io": "0.1.0",
  "murmur:text": "0.1.0",
  "murmur:tool": "0.1.0",
  "murmur:tool-registry": "0.1.0",
};

/** The interface each role must export. */
export const ROLE_EXPORTS: Readonly<Record<ComponentRole, string>> = {
  tool: "murmur:tool/run@0.1.0",
  driver: "murmur:tool/run@0.1.0",
  capsule: "murmur:capsule/run@0.1.0",
  hook: "murmur:hook/lifecycle@0.9.0",
  "process-driver": "murmur:driver/process@0.2.0",
};

/**
 * The `murmur:` interfaces with functions that the component host answers, and the roles they are linked for.
 *
 * `tool/run` and `hook/lifecycle` are there for their types: engines that bind whole interfaces import their functions too,
 * and calling one traps (spec components 2.9).
 */
const LINKED: Readonly<Record<string, readonly ComponentRole[]>> = {
  "murmur:tool-registry/invoke@0.1.0": ["capsule"],
  "murmur:tool/run@0.1.0": ["capsule"],
  "murmur:text/chunks@0.1.0": ["tool", "driver"],
  "murmur:task/task@0.1.0": ["tool", "driver"],
  "murmur:hook/lifecycle@0.9.0": ["hook"],
  "murmur:runtime/inference@0.4.0": ["hook"],
  "murmur:runtime/tokens@0.4.0": ["hook"],
  "murmur:task-io/read@0.1.0": ["hook"],
  "murmur:conversation/read@0.2.0": ["hook"],
};

/** The `wasi:` 0.2 interfaces the host has, without versions. `wasi:http/incoming-handler` is never provided. */
const WASI_INTERFACES: ReadonlySet<string> = new Set([
  "wasi:cli/environment",
  "wasi:cli/exit",
  "wasi:cli/stderr",
  "wasi:cli/stdin",
  "wasi:cli/stdout",
  "wasi:cli/terminal-input",
  "wasi:cli/terminal-output",
  "wasi:cli/terminal-stderr",
  "wasi:cli/terminal-stdin",
  "wasi:cli/terminal-stdout",
  "wasi:clocks/monotonic-clock",
  "wasi:clocks/timezone",
  "wasi:clocks/wall-clock",
  "wasi:filesystem/preopens",
  "wasi:filesystem/types",
  "wasi:http/outgoing-handler",
  "wasi:http/types",
  "wasi:io/error",
  "wasi:io/poll",
  "wasi:io/streams",
  "wasi:random/insecure",
  "wasi:random/insecure-seed",
  "wasi:random/random",
  "wasi:sockets/instance-network",
  "wasi:sockets/ip-name-lookup",
  "wasi:sockets/network",
  "wasi:sockets/tcp",
  "wasi:sockets/tcp-create-socket",
  "wasi:sockets/udp",
  "wasi:sockets/udp-create-socket",
]);

/** A name of an import or export taken apart. */
export interface InterfaceName {
  /** `murmur:tool`. */
  readonly package: string;
  /** `run`; empty for a name that is no interface. */
  readonly interface: string;
  /** `null` when the name carries none. */
  readonly version: string | null;
}

/** Takes `murmur:tool/run@0.1.0` apart. */
export function parseInterfaceName(name: string): InterfaceName {
  const at = name.lastIndexOf("@");
  const path = at === -1 ? name : name.slice(0, at);
  const slash = path.indexOf("/");
  return {
    package: slash === -1 ? path : path.slice(0, slash),
    interface: slash === -1 ? "" : path.slice(slash + 1),
    version: at === -1 ? null : name.slice(at + 1),
  };
}

/** A name of a component that does not match what is served. */
export interface InterfaceMismatch {
  readonly name: string;
  readonly reason: "unknown-package" | "no-version" | "other-version" | "not-served";
  /** The version served of its package, `null` for an unknown package. */
  readonly served: string | null;
}

/** Judges the package and version of a `murmur:` name; `null` when they match or the name is of another namespace. */
export function judgeMurmurName(name: string): InterfaceMismatch | null {
  if (!name.startsWith("murmur:")) return null;
  const parsed = parseInterfaceName(name);
  const served = Object.hasOwn(SERVED_PACKAGES, parsed.package) ? SERVED_PACKAGES[parsed.package]! : null;
  if (served === null) return { name, reason: "unknown-package", served };
  if (parsed.version === null) return { name, reason: "no-version", served };
  return parsed.version === served ? null : { name, reason: "other-version", served };
}

/** Names that do not match the table, exports before imports, as `mur doctor` reports them (spec components 1.2, rule 4). */
export function judgeMurmurNames(
  names: { readonly imports: readonly string[]; readonly exports: readonly string[] },
): InterfaceMismatch[] {
  return [...names.exports, ...names.imports].map(judgeMurmurName).filter((mismatch) => mismatch !== null);
}

/** Whether an import with functions is provided to some role. */
function isServedToSomeone(name: string): boolean {
  return Object.hasOwn(LINKED, name);
}

/** Whether the host has this `wasi:` 0.2 interface. */
export function isServedWasi(name: string): boolean {
  const { package: pkg, interface: path, version } = parseInterfaceName(name);
  return version !== null && /^0\.2\.\d+$/.test(version) && WASI_INTERFACES.has(`${pkg}/${path}`);
}

/**
 * Judges one import of a component.
 *
 * @param typesOnly Whether the import holds no function: then it needs nobody who serves it, only the right version.
 */
export function judgeImport(name: string, typesOnly: boolean): InterfaceMismatch | null {
  if (name.startsWith("murmur:")) {
    const mismatch = judgeMurmurName(name);
    if (mismatch !== null || typesOnly || isServedToSomeone(name)) return mismatch;
    return { name, reason: "not-served", served: null };
  }
  if (isServedWasi(name)) return null;
  return { name, reason: "not-served", served: null };
}

/** Whether a served `murmur:` import is linked for a role. Types-only imports and `wasi:` ones always are. */
export function isLinkedFor(role: ComponentRole, name: string): boolean {
  return !Object.hasOwn(LINKED, name) || LINKED[name]!.includes(role);
}
