/**
 * `murmur.lock`, version 2: which version and which bytes of every registry-resolved artifact a project runs (spec cli 9).
 *
 * The rules are pure functions over {@linkcode LockFile}; {@linkcode readLock} and {@linkcode updateLock} are the only
 * ones that touch the disk.
 *
 * @module
 */
import { isMap, isScalar, isSeq, type YAMLMap } from "yaml";
import { withDirectoryLock } from "../base/directory_lock.ts";
import { ioError, MurError, type SourcePlace } from "../base/errors.ts";
import { bareHalf } from "./artifact_name.ts";
import { isNull, readYamlSource, scalarText, type YamlNode, YamlProblem, YamlSource } from "./manifest/yaml_source.ts";
import { removeQuietly, writeNewFile } from "./staged_files.ts";

/** The one version that is read and written. */
export const LOCK_VERSION = 2;

/** File name, beside `murmur.yaml`. */
export const LOCK_NAME = "murmur.lock";

/** The pinned hashes: one for every platform alike, or one per platform tag. */
export type LockHashes =
  | { readonly kind: "any"; readonly sha256: string }
  | { readonly kind: "platforms"; readonly sha256: ReadonlyMap<string, string> };

/** One pinned artifact. */
export interface LockEntry {
  /** Bare name; a full one written by another build is kept as it is and matches by its bare half. */
  readonly name: string;
  readonly version: string;
  readonly hashes: LockHashes;
  readonly origin: "operator" | "runtime";
  /** The session whose pull wrote the pin; `null` for `operator`. */
  readonly session: string | null;
}

/** A lock file's entries in file order. */
export interface LockFile {
  readonly entries: readonly LockEntry[];
}

/** An artifact that was just resolved and verified. */
export interface ResolvedArtifact {
  /** Bare or full name. */
  readonly name: string;
  readonly version: string;
  /** Platform tag of a native payload; `null` for a platform-independent one. */
  readonly platform: string | null;
  readonly sha256: string;
}

/** Who writes a pin. */
export type LockWriter = { readonly origin: "operator" } | { readonly origin: "runtime"; readonly session: string };

/** A lock without entries. */
export const EMPTY_LOCK: LockFile = { entries: [] };

function invalid(file: string, reason: string, place?: SourcePlace): MurError {
  return new MurError("E-RUN-003", `${file} is not a valid lock file: ${reason}`, {
    hint: "delete the file and run mur install",
    ...(place === undefined ? {} : { place }),
  });
}

/**
 * Reads a lock file's text.
 *
 * @param file What messages call it.
 * @throws {MurError} `E-RUN-003`.
 */
export function parseLock(text: Uint8Array | string, file: string): LockFile {
  let source: YamlSource;
  try {
    source = readYamlSource(text, file);
  } catch (error) {
    if (error instanceof YamlProblem) throw invalid(file, error.reason, error.place);
    throw error;
  }
  const { root } = source;
  if (!isMap(root)) throw invalid(file, "it is not a mapping");
  const version = source.entry(root, "lock_version")?.value;
  if (!isScalar(version) || version.value !== LOCK_VERSION) {
    const found = version === null || version === undefined
      ? "no lock_version"
      : `lock_version ${isScalar(version) ? scalarText(version) : "of a wrong type"}`;
    throw new MurError("E-RUN-003", `${file} has ${found}, this mur reads version ${LOCK_VERSION} only`, {
      hint: "delete the file and run mur install",
    });
  }
  const list = source.entry(root, "artifacts")?.value;
  if (!isSeq(list)) throw invalid(file, "'artifacts' is not a list", source.place("artifacts"));
  const entries = source.items(list).map((item, index) => parseEntry(source, item, index));
  const seen = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    const bare = bareHalf(entry.name);
    if (seen.has(bare)) {
      throw invalid(file, `'${bare}' is pinned twice`, source.place(`artifacts[${index}].name`));
    }
    seen.add(bare);
  }
  return { entries };
}

function parseEntry(source: YamlSource, item: YamlNode, index: number): LockEntry {
  const path = `artifacts[${index}]`;
  const fail = (reason: string, key = "") =>
    invalid(source.file, `${path}${key}: ${reason}`, source.place(`${path}${key}`) ?? source.place(path));
  if (!isMap(item)) throw fail("it is not a mapping");
  const text = (key: string): string | null => {
    const value = source.entry(item, key)?.value ?? null;
    if (value === null || isNull(value)) return null;
    if (!isScalar(value)) throw fail("it is not a text", `.${key}`);
    return scalarText(value);
  };
  const required = (key: string): string => {
    const value = text(key);
    if (value === null || value.trim() === "") throw fail("it is missing or blank", `.${key}`);
    return value;
  };
  const name = required("name");
  const version = required("resolved_version");
  const hashes = parseHashes(source, item, fail);
  const origin = text("origin") ?? "operator";
  const session = text("session");
  if (origin === "operator") {
    if (session !== null) throw fail("an operator's pin has no session", ".session");
    return { name, version, hashes, origin, session: null };
  }
  if (origin !== "runtime") throw fail(`'${origin}' is neither operator nor runtime`, ".origin");
  if (session === null || session.trim() === "") throw fail("a runtime pin names its session", ".session");
  return { name, version, hashes, origin, session };
}

function parseHashes(source: YamlSource, item: YAMLMap, fail: (reason: string, key?: string) => MurError): LockHashes {
  const block = source.entry(item, "sha256")?.value ?? null;
  if (!isMap(block)) throw fail("it is missing or no mapping", ".sha256");
  const any = source.entry(block, "any")?.value ?? null;
  const platforms = source.entry(block, "platforms")?.value ?? null;
  if (platforms !== null && !isMap(platforms)) throw fail("it is not a mapping", ".sha256.platforms");
  const pinned = new Map<string, string>();
  for (const { key, value } of platforms === null ? [] : source.entries(platforms)) {
    const hash = isScalar(value) ? scalarText(value).trim() : "";
    if (key === null || key.trim() === "") throw fail("a platform tag is empty", ".sha256.platforms");
    if (hash === "") throw fail(`the hash of '${key}' is empty`, ".sha256.platforms");
    pinned.set(key, hash);
  }
  if ((any === null) === (pinned.size === 0)) throw fail("it has to hold either 'any' or 'platforms'", ".sha256");
  if (any === null) return { kind: "platforms", sha256: pinned };
  const hash = isScalar(any) ? scalarText(any).trim() : "";
  if (hash === "") throw fail("the hash is empty", ".sha256.any");
  return { kind: "any", sha256: hash };
}

/** Quotes a text for YAML where it would be read as anything but itself. */
function yamlText(text: string): string {
  const plain = /^[A-Za-z_/][A-Za-z0-9_./+-]*$/.test(text) && !/^(?:true|false|null|nan|inf)$/i.test(text);
  const version = /^[0-9]+(?:\.[0-9A-Za-z+-]+){2,}$/.test(text);
  return plain || version ? text : JSON.stringify(text);
}

/** A hash in YAML; digits alone, or with one `e` among them, would be read as a number. */
function yamlHash(hash: string): string {
  return /^[0-9a-f]*[a-df][0-9a-f]*$/.test(hash) ? hash : JSON.stringify(hash);
}

/** The text of a lock file. Platform tags are sorted, `origin` is always written. */
export function formatLock(lock: LockFile): string {
  if (lock.entries.length === 0) return `lock_version: ${LOCK_VERSION}\nartifacts: []\n`;
  const lines = [`lock_version: ${LOCK_VERSION}`, "artifacts:"];
  for (const { name, version, hashes, origin, session } of lock.entries) {
    lines.push(`  - name: ${yamlText(name)}`, `    resolved_version: ${yamlText(version)}`, "    sha256:");
    if (hashes.kind === "any") {
      lines.push(`      any: ${yamlHash(hashes.sha256)}`);
    } else {
      lines.push("      platforms:");
      for (const tag of [...hashes.sha256.keys()].sort()) {
        lines.push(`        ${yamlText(tag)}: ${yamlHash(hashes.sha256.get(tag)!)}`);
      }
    }
    lines.push(`    origin: ${origin}`);
    if (session !== null) lines.push(`    session: ${yamlText(session)}`);
  }
  return `${lines.join("\n")}\n`;
}

/** The entry of a name, bare halves compared. */
export function findPin(lock: LockFile, name: string): LockEntry | undefined {
  const bare = bareHalf(name);
  return lock.entries.find((entry) => bareHalf(entry.name) === bare);
}

/** The pinned hash for a platform, or `undefined`: a map is answered from the map alone. */
export function pinnedHash(entry: LockEntry, platform: string): string | undefined {
  return entry.hashes.kind === "any" ? entry.hashes.sha256 : entry.hashes.sha256.get(platform);
}

/** What makes a pin disagree with a freshly resolved artifact, or `null`. A platform not pinned yet is no conflict. */
export function lockConflict(entry: LockEntry, resolved: ResolvedArtifact): string | null {
  const { name, version, platform, sha256 } = resolved;
  if (entry.version !== version) return `murmur.lock pins '${name}' at ${entry.version}, resolved was ${version}`;
  if ((entry.hashes.kind === "any") !== (platform === null)) {
    const [pinned, now] = platform === null
      ? ["per platform", "independent"]
      : ["independent of the platform", "native"];
    return `murmur.lock pins ${name}@${version} ${pinned}, resolved was a payload that is ${now}`;
  }
  const pinned = entry.hashes.kind === "any" ? entry.hashes.sha256 : entry.hashes.sha256.get(platform!);
  if (pinned === undefined || pinned === sha256) return null;
  const where = platform === null ? "" : ` for ${platform}`;
  return `murmur.lock pins ${name}@${version}${where} with another hash\n  pinned   ${pinned}\n  resolved ${sha256}`;
}

/**
 * Pins an artifact: appended, merged into its entry, or in place of it (spec cli 9, upsert). Every other entry keeps its
 * place.
 */
export function pinArtifact(lock: LockFile, resolved: ResolvedArtifact, writer: LockWriter): LockFile {
  const name = bareHalf(resolved.name);
  const { version, platform, sha256 } = resolved;
  const fresh: LockHashes = platform === null
    ? { kind: "any", sha256 }
    : { kind: "platforms", sha256: new Map([[platform, sha256]]) };
  const index = lock.entries.findIndex((entry) => bareHalf(entry.name) === name);
  const existing = lock.entries[index];
  if (existing === undefined) {
    const session = writer.origin === "runtime" ? writer.session : null;
    return { entries: [...lock.entries, { name, version, hashes: fresh, origin: writer.origin, session }] };
  }
  const merge = existing.version === version && existing.hashes.kind === "platforms" && fresh.kind === "platforms";
  const hashes: LockHashes = merge
    ? { kind: "platforms", sha256: new Map([...existing.hashes.sha256, ...fresh.sha256]) }
    : fresh;
  const standing = writer.origin === "operator"
    ? { origin: "operator" as const, session: null }
    : { origin: existing.origin, session: existing.session };
  return { entries: lock.entries.with(index, { name: existing.name, version, hashes, ...standing }) };
}

/** How a manifest entry is checked against the lock before staging. */
export interface DeclaredArtifact {
  readonly name: string;
  readonly version: string;
}

/** What is wrong with the pin of a declared artifact; the texts are those of `mur doctor` (spec cli 11.5). */
export type PinProblem =
  | { readonly kind: "missing"; readonly text: string }
  | { readonly kind: "version"; readonly text: string }
  | { readonly kind: "platform"; readonly text: string };

/** Checks one declared artifact (spec cli 9); `null` when its pin answers for this platform. */
export function pinProblem(lock: LockFile, declared: DeclaredArtifact, platform: string): PinProblem | null {
  const { name, version } = declared;
  const entry = findPin(lock, name);
  if (entry === undefined) {
    return { kind: "missing", text: `murmur.lock missing artifact entry for '${name}'` };
  }
  if (entry.version !== version) {
    const text =
      `murmur.lock version mismatch for '${name}': manifest requested ${version}, lock pinned ${entry.version}`;
    return { kind: "version", text };
  }
  if (pinnedHash(entry, platform) === undefined && entry.hashes.kind === "platforms") {
    const tags = [...entry.hashes.sha256.keys()].sort().join(", ");
    return { kind: "platform", text: `murmur.lock has no sha256 for '${name}' on ${platform}: it pins ${tags}` };
  }
  return null;
}

/** A pin problem as `mur run` refuses it (`E-RUN-003`). */
export function pinRefusal(problem: PinProblem): MurError {
  // An archive installed from a file is in no registry, and its installation pins nothing (spec cli 9).
  return new MurError("E-RUN-003", problem.text, {
    hint: "run mur install; if it was installed from a file, delete murmur.lock: the next run writes it again",
  });
}

/**
 * Reads the lock file at a path; `null` when there is none. An empty file reads as none (spec cli 2.2).
 *
 * @throws {MurError} `E-RUN-003` for its content, `E-IO-002`, `E-IO-003` for reading it.
 */
// deno-lint-ignore require-await -- a small file is read at once: turns of the event loop would cost a launch more
export async function readLock(path: string): Promise<LockFile | null> {
  let bytes: Uint8Array;
  try {
    bytes = Deno.readFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw ioError(`read ${path}`, error);
  }
  return bytes.length === 0 ? null : parseLock(bytes, path);
}

/**
 * Changes the lock file at a path while no other process does: reads it, applies the change, writes the result through a
 * temporary file and renames it. The directory is created.
 *
 * @param change Gets the current content, `null` when there is no file, and answers the new one, or `null` to leave the
 * file as it is.
 * @throws {MurError} `E-RUN-003`, `E-IO-002`, `E-IO-003`, and what `change` throws; then nothing is written.
 */
export async function updateLock(path: string, change: (lock: LockFile | null) => LockFile | null): Promise<void> {
  const directory = path.slice(0, path.lastIndexOf("/")) || "/";
  try {
    await Deno.mkdir(directory, { recursive: true });
    await withDirectoryLock(directory, async () => {
      const changed = change(await readLock(path));
      if (changed === null) return;
      const text = formatLock(changed);
      // What is written must be readable again, whatever the caller put into it.
      parseLock(text, path);
      await removeAbandoned(directory);
      const nanoseconds = BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)) * 1000n;
      const temporary = `${directory}/.${LOCK_NAME}.${nanoseconds}.tmp`;
      await writeNewFile(temporary, text);
      try {
        await Deno.rename(temporary, path);
      } catch (error) {
        await removeQuietly(temporary);
        throw error;
      }
    });
  } catch (error) {
    if (error instanceof MurError) throw error;
    throw ioError(`write ${path}`, error);
  }
}

/** Removes temporary files of writers that were killed; nobody else writes while the directory is locked. */
async function removeAbandoned(directory: string): Promise<void> {
  for await (const { name, isFile } of Deno.readDir(directory)) {
    if (isFile && /^\.murmur\.lock\.[0-9]+\.tmp$/.test(name)) await removeQuietly(`${directory}/${name}`);
  }
}
