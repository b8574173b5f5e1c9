/**
 * The configuration files beside the manifest, `~/.murmur/config.yaml` and `<cwd>/.murmur/config.yaml`: what they hold,
 * how two become one (spec cli 5, manifest 20).
 *
 * No error and no notice shows text of a file: it may hold credentials.
 *
 * @module
 */
import { isMap, isScalar, isSeq, type YAMLMap } from "yaml";
import { MurError, reasonOf } from "../base/errors.ts";
import type { MurmurHome } from "../base/murmur_home.ts";
import { CONTAINMENT_CLASSES, type ContainmentClass } from "./manifest/capsule_manifest.ts";
import { isCredentialName, parseCredential } from "./manifest/credential_reference.ts";
import { plainInteger } from "./manifest/manifest_reader.ts";
import { shownValue } from "./manifest/shown_value.ts";
import {
  readYamlSource,
  scalarText,
  type YamlEntry,
  type YamlNode,
  YamlProblem,
  type YamlSource,
} from "./manifest/yaml_source.ts";
import { readNetworkRule } from "./network_rules.ts";

/** Where `mur install` looks for artifacts. */
export interface RegistrySource {
  readonly name: string;
  readonly type: "github";
  readonly repo: string | null;
  readonly url: string | null;
  /** As written; see {@linkcode sourceToken}. */
  readonly token: string | null;
}

/** A directory of the host that commands may use (spec containment 4.6). */
export interface HostPath {
  /** As written. */
  readonly written: string;
  /** Absolute, `~` expanded. */
  readonly path: string;
  readonly access: "read" | "read-write";
}

/** What one file holds; `null` and empty where it holds nothing. */
export interface ConfigurationFile {
  readonly file: string;
  readonly registryDefault: string | null;
  readonly registryIndexUrl: string | null;
  readonly sources: readonly RegistrySource[];
  readonly inferenceProvider: string | null;
  readonly inferenceModel: string | null;
  readonly inferenceEndpoint: string | null;
  readonly inferenceApiKey: string | null;
  /** Non-empty ones. */
  readonly credentials: ReadonlyMap<string, string>;
  readonly betaEnabled: readonly string[];
  readonly containment: ContainmentClass | null;
  readonly machineTokensPerDay: number | null;
  readonly httpProxy: string | null;
  readonly hostPaths: readonly HostPath[];
}

/** The configuration in effect. */
export interface Configuration extends Omit<ConfigurationFile, "file"> {
  /** The files it comes from; `null` for one that does not exist or is empty. */
  readonly global: ConfigurationFile | null;
  readonly project: ConfigurationFile | null;
}

/** What stands in for a global file that is not there. */
const BUILT_IN: ConfigurationFile = {
  file: "",
  registryDefault: "official",
  registryIndexUrl: null,
  sources: [{ name: "official", type: "github", repo: "murmur-nexus/default-artifacts", url: null, token: null }],
  inferenceProvider: null,
  inferenceModel: null,
  inferenceEndpoint: null,
  inferenceApiKey: null,
  credentials: new Map(),
  betaEnabled: [],
  containment: null,
  machineTokensPerDay: null,
  httpProxy: null,
  hostPaths: [],
};

/** Which of the two files a text is; a project file may not widen the host. */
export type ConfigurationScope = "global" | "project";

/** What parsing one file gives. */
export interface ParsedConfiguration {
  /** `null` for an empty file, which counts as absent. */
  readonly values: ConfigurationFile | null;
  /** `warning:` lines about keys that are ignored. */
  readonly notices: readonly string[];
}

/** The proxy a text names, in the form `http(s)://host[:port]`; `null` when it is none. */
export function parseProxy(text: string): string | null {
  const rule = readNetworkRule(text);
  if ("problem" in rule || rule.scheme === null) return null;
  return new URL(`${rule.scheme}://${rule.host}:${rule.port}`).origin;
}

/** Reads the values of one file. */
class FileReader {
  readonly notices: string[] = [];

  constructor(readonly source: YamlSource, readonly scope: ConfigurationScope, readonly home: string | null) {}

  refuse(key: string, reason: string): MurError {
    const line = this.source.place(key)?.line;
    return new MurError("E-IO-003", `${this.source.file}${line === undefined ? "" : `:${line}`}: '${key}' ${reason}`);
  }

  #ignored(key: string, reason: string): void {
    this.notices.push(`warning: ${this.source.file}: ${reason}: '${shownValue(key)}' is ignored`);
  }

  /** The entries of a mapping, those with unknown keys reported and left out. */
  entries(map: YAMLMap, path: string, known: readonly string[]): Map<string, YamlEntry> {
    const entries = new Map<string, YamlEntry>();
    for (const entry of this.source.entries(map)) {
      const key = entry.key ?? "?";
      if (known.includes(key)) entries.set(key, entry);
      else this.#ignored(path === "" ? key : `${path}.${key}`, "unknown key");
    }
    return entries;
  }

  /** A block of the top level; an absent one has no entries. */
  block(entries: Map<string, YamlEntry>, key: string, known: readonly string[]): Map<string, YamlEntry> {
    const node = entries.get(key)?.value ?? null;
    if (node === null) return new Map();
    if (!isMap(node)) throw this.refuse(key, "is not a mapping");
    return this.entries(node, key, known);
  }

  /** A string, trimmed; blank and absent are `null`. */
  text(entry: YamlEntry | undefined, path: string): string | null {
    const node = entry?.value ?? null;
    if (node === null) return null;
    if (!isScalar(node)) throw this.refuse(path, "is not a string");
    const text = scalarText(node).trim();
    return text === "" ? null : text;
  }

  list(entry: YamlEntry | undefined, path: string): readonly YamlNode[] {
    const node = entry?.value ?? null;
    if (node === null) return [];
    if (!isSeq(node)) throw this.refuse(path, "is not a list");
    return this.source.items(node);
  }

  sources(entry: YamlEntry | undefined): RegistrySource[] {
    const sources = new Map<string, RegistrySource>();
    this.list(entry, "registry.sources").forEach((item, index) => {
      const path = `registry.sources[${index}]`;
      if (!isMap(item)) throw this.refuse(path, "is not a mapping");
      const keys = this.entries(item, path, ["name", "type", "repo", "url", "token"]);
      const text = (key: string) => this.text(keys.get(key), `${path}.${key}`);
      const name = text("name");
      if (name === null) throw this.refuse(path, "has no name");
      if (text("type") !== "github") throw this.refuse(`${path}.type`, "must be github");
      sources.set(name, { name, type: "github", repo: text("repo"), url: text("url"), token: text("token") });
    });
    return [...sources.values()];
  }

  credentials(entry: YamlEntry | undefined): Map<string, string> {
    const credentials = new Map<string, string>();
    const node = entry?.value ?? null;
    if (node === null) return credentials;
    if (!isMap(node)) throw this.refuse("credentials", "is not a mapping");
    const entries = this.source.entries(node);
    if (this.scope === "project") {
      if (entries.length > 0) this.#ignored("credentials", "only the global file may hold credentials");
      return credentials;
    }
    for (const { key, value } of entries) {
      if (key === null || !isCredentialName(key)) {
        this.#ignored(`credentials.${key ?? "?"}`, "not the name of a credential");
        continue;
      }
      const text = value === null ? "" : isScalar(value) ? scalarText(value).trim() : null;
      if (text === null) throw this.refuse(`credentials.${key}`, "is not a string");
      if (text !== "") credentials.set(key, text);
    }
    return credentials;
  }

  hostPaths(entry: YamlEntry | undefined): HostPath[] {
    const items = this.list(entry, "host_paths");
    if (this.scope === "project") {
      if (items.length > 0) this.#ignored("host_paths", "a project may not widen the host");
      return [];
    }
    const found: HostPath[] = [];
    items.forEach((item, index) => {
      const at = `host_paths[${index}]`;
      if (!isMap(item)) throw this.refuse(at, "is not a mapping of path and access");
      const keys = this.entries(item, at, ["path", "access"]);
      const written = this.text(keys.get("path"), `${at}.path`);
      if (written === null) throw this.refuse(at, "has no path");
      const refuse = (reason: string) => this.refuse(at, `, '${shownValue(written)}', ${reason}`);
      const access = this.text(keys.get("access"), `${at}.access`);
      if (access !== "read" && access !== "read-write") throw refuse("has an access other than read and read-write");
      const tilde = written === "~" || written.startsWith("~/");
      if (tilde && this.home === null) throw refuse("starts with ~, and there is no home directory");
      const path = (tilde ? `${this.home}${written.slice(1)}` : written).replace(/(?<=.)\/+$/, "");
      if (!path.startsWith("/")) throw refuse("is not absolute");
      if (/^\/(?:\.{0,2}\/)*\.{0,2}$/.test(path)) throw refuse("is the root directory");
      if (found.some((other) => other.path === path)) throw refuse("is listed twice");
      found.push({ written, path, access });
    });
    return found;
  }

  containment(entry: YamlEntry | undefined): ContainmentClass | null {
    const word = this.text(entry, "containment");
    if (word === null) return null;
    const found = CONTAINMENT_CLASSES.find((each) => each === word);
    if (found === undefined) {
      throw this.refuse("containment", `must be one of: ${CONTAINMENT_CLASSES.join(", ")}; got '${shownValue(word)}'`);
    }
    return found;
  }

  machineTokensPerDay(entry: YamlEntry | undefined): number | null {
    const node = entry?.value ?? null;
    if (node === null) return null;
    const value = plainInteger(node);
    if (value === null || value === 0) {
      throw this.refuse("spend.machine_tokens_per_day", "must be a whole number of at least 1");
    }
    return value;
  }

  proxy(entry: YamlEntry | undefined): string | null {
    const text = this.text(entry, "http.proxy");
    if (text === null) return null;
    if (this.scope === "project") {
      this.#ignored("http.proxy", "only the global file may name a proxy");
      return null;
    }
    const proxy = parseProxy(text);
    if (proxy === null) throw this.refuse("http.proxy", "must be http(s)://host[:port] and nothing else");
    return proxy;
  }

  read(): ConfigurationFile | null {
    const { root } = this.source;
    if (root === null || (isScalar(root) && root.value === null)) return null;
    if (!isMap(root)) throw new MurError("E-IO-003", `${this.source.file}: the file is not a mapping`);
    const top = this.entries(root, "", [
      "registry",
      "inference",
      "credentials",
      "beta",
      "containment",
      "spend",
      "http",
      "host_paths",
    ]);
    const registry = this.block(top, "registry", ["default", "index_url", "sources"]);
    const inference = this.block(top, "inference", ["provider", "model", "endpoint", "api_key"]);
    const apiKey = this.text(inference.get("api_key"), "inference.api_key");
    if (this.scope === "project" && apiKey !== null && parseCredential(apiKey).kind === "literal") {
      this.notices.push(
        `warning: ${this.source.file}: inference.api_key holds a key; whoever reads the project reads it, and it is not used. ` +
          "Keep it with: mur config set -g inference.api_key -",
      );
    }
    const beta = this.list(this.block(top, "beta", ["enabled"]).get("enabled"), "beta.enabled").map((item, index) => {
      if (!isScalar(item) || item.value === null) throw this.refuse(`beta.enabled[${index}]`, "is not a string");
      return scalarText(item);
    });
    return {
      file: this.source.file,
      registryDefault: this.text(registry.get("default"), "registry.default"),
      registryIndexUrl: this.text(registry.get("index_url"), "registry.index_url"),
      sources: this.sources(registry.get("sources")),
      inferenceProvider: this.text(inference.get("provider"), "inference.provider"),
      inferenceModel: this.text(inference.get("model"), "inference.model"),
      inferenceEndpoint: this.text(inference.get("endpoint"), "inference.endpoint"),
      inferenceApiKey: apiKey,
      credentials: this.credentials(top.get("credentials")),
      betaEnabled: [...new Set(beta)],
      containment: this.containment(top.get("containment")),
      machineTokensPerDay: this.machineTokensPerDay(
        this.block(top, "spend", ["machine_tokens_per_day"]).get("machine_tokens_per_day"),
      ),
      httpProxy: this.proxy(this.block(top, "http", ["proxy"]).get("proxy")),
      hostPaths: this.hostPaths(top.get("host_paths")),
    };
  }
}

/**
 * Parses the text of one file.
 *
 * @param file Its path, for messages.
 * @param home Directory `~` of `host_paths` stands for.
 * @throws {MurError} `E-IO-003`.
 */
export function parseConfiguration(
  text: Uint8Array | string,
  file: string,
  scope: ConfigurationScope,
  home: string | null = null,
): ParsedConfiguration {
  let source: YamlSource;
  try {
    source = readYamlSource(text, file);
  } catch (error) {
    if (!(error instanceof YamlProblem)) throw error;
    const at = error.place === undefined ? "" : `:${error.place.line}:${error.place.column}`;
    throw new MurError("E-IO-003", `failed to parse ${file}${at}: ${error.reason}`);
  }
  const reader = new FileReader(source, scope, home);
  const values = reader.read();
  return { values, notices: reader.notices };
}

/** The stronger of two classes; `null` asks for none. */
function strongest(a: ContainmentClass | null, b: ContainmentClass | null): ContainmentClass | null {
  const rank = (each: ContainmentClass | null) => each === null ? -1 : CONTAINMENT_CLASSES.indexOf(each);
  return rank(a) >= rank(b) ? a : b;
}

/** The configuration two files make together (spec cli 5.2). A global file that exists is the whole base. */
export function mergeConfiguration(global: ConfigurationFile | null, project: ConfigurationFile | null): Configuration {
  const base = global ?? BUILT_IN;
  const sources = new Map([...base.sources, ...project?.sources ?? []].map((source) => [source.name, source]));
  const ceilings = [base.machineTokensPerDay, project?.machineTokensPerDay ?? null].filter((each) => each !== null);
  return {
    global,
    project,
    registryDefault: project?.registryDefault ?? base.registryDefault,
    registryIndexUrl: project?.registryIndexUrl ?? base.registryIndexUrl,
    sources: [...sources.values()],
    inferenceProvider: project?.inferenceProvider ?? base.inferenceProvider,
    inferenceModel: project?.inferenceModel ?? base.inferenceModel,
    inferenceEndpoint: project?.inferenceEndpoint ?? base.inferenceEndpoint,
    inferenceApiKey: base.inferenceApiKey,
    credentials: base.credentials,
    betaEnabled: [...new Set([...base.betaEnabled, ...project?.betaEnabled ?? []])],
    containment: strongest(base.containment, project?.containment ?? null),
    machineTokensPerDay: ceilings.length === 0 ? null : Math.min(...ceilings),
    httpProxy: base.httpProxy,
    hostPaths: base.hostPaths,
  };
}

/** Path of the project's file. */
export function projectConfigurationFile(cwd: string): string {
  return `${cwd.replace(/\/+$/, "")}/.murmur/config.yaml`;
}

function readFile(file: string): Uint8Array | null {
  try {
    return Deno.readFileSync(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new MurError("E-IO-003", `failed to read ${file}: ${reasonOf(error)}`, { cause: error });
  }
}

/** Whether two paths name one file; then a project in the home directory has no file of its own. */
function isSameFile(a: string, b: string): boolean {
  if (a === b) return true;
  try {
    const [left, right] = [Deno.statSync(a), Deno.statSync(b)];
    return left.ino !== null && left.ino === right.ino && left.dev === right.dev;
  } catch {
    return false;
  }
}

/**
 * Reads both files. Neither has to exist; directories above `cwd` are not searched.
 *
 * @param notice Takes the `warning:` lines about ignored keys.
 * @throws {MurError} `E-IO-003` for a file that cannot be read or parsed, or holds a value that is refused.
 */
// deno-lint-ignore require-await -- a small file is read at once: turns of the event loop would cost a launch more
export async function readConfiguration(
  { home, cwd, notice }: {
    readonly home: MurmurHome;
    readonly cwd: string;
    readonly notice: (line: string) => void;
  },
): Promise<Configuration> {
  const parse = (file: string, scope: ConfigurationScope): ConfigurationFile | null => {
    const bytes = readFile(file);
    if (bytes === null) return null;
    const { values, notices } = parseConfiguration(bytes, file, scope, home.root.replace(/\/\.murmur$/, ""));
    notices.forEach(notice);
    return values;
  };
  const projectFile = projectConfigurationFile(cwd);
  const global = parse(home.config, "global");
  const shared = isSameFile(home.config, projectFile);
  return mergeConfiguration(global, shared ? null : parse(projectFile, "project"));
}

/**
 * The token of a source: `${NAME}` stands for that variable or none; any other text for the variable of that name when
 * it is set, else for itself (spec manifest 20.1).
 */
export function sourceToken(
  source: RegistrySource,
  env: { get(name: string): string | undefined },
): string | null {
  if (source.token === null) return null;
  const credential = parseCredential(source.token);
  const value = credential.kind === "reference" ? env.get(credential.name) : env.get(source.token) ?? source.token;
  return value === undefined || value === "" ? null : value;
}
