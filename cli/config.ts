/**
 * `mur config get`, `set` and `list` (spec cli 15.2).
 *
 * @module
 */
import type { JsonValue } from "../base/json_value.ts";
import {
  type Configuration,
  type ConfigurationFile,
  projectConfigurationFile,
  readConfiguration,
  type RegistrySource,
} from "../artifact/configuration.ts";
import { judgeConfigValue, setConfigValue } from "../artifact/configuration_edit.ts";
import { isCredentialName } from "../artifact/manifest/credential_reference.ts";
import { maskedEndpoint } from "../artifact/manifest/gateway_endpoint.ts";
import { shownValue } from "../artifact/manifest/shown_value.ts";
import { MurError } from "../base/errors.ts";
import type { CliContext } from "./context.ts";
import { readSecret, type SecretInput } from "./secret_input.ts";

/** Where an effective value comes from. */
type Origin = "global" | "project" | "default";

/** One effective key. A secret's value is `set`. */
interface Setting {
  readonly key: string;
  readonly value: JsonValue;
  readonly origin: Origin;
}

/** A key of the files. */
interface Key {
  readonly name: string;
  /** What is shown of a file's or the effective value; `null` when it has none. */
  readonly show: (values: Omit<ConfigurationFile, "file">) => JsonValue;
  /** Whether the value is never shown. */
  readonly secret?: boolean;
  /** Whether the project's file is not asked. */
  readonly globalOnly?: boolean;
  /** Whether both files make the value together, so that the project's may change nothing. */
  readonly merged?: boolean;
}

/** A URL, its user information masked. */
function url(value: string | null): JsonValue {
  return value === null ? null : maskedEndpoint(value);
}

function list(values: readonly JsonValue[]): JsonValue {
  return values.length === 0 ? null : values;
}

function shownSource({ name, type, repo, url: address, token }: RegistrySource): JsonValue {
  return {
    name,
    type,
    ...(repo === null ? {} : { repo }),
    ...(address === null ? {} : { url: url(address) }),
    ...(token === null ? {} : { token: "set" }),
  };
}

const KEYS: readonly Key[] = [
  { name: "registry.default", show: (values) => values.registryDefault },
  { name: "registry.index_url", show: (values) => url(values.registryIndexUrl) },
  { name: "registry.sources", merged: true, show: (values) => list(values.sources.map(shownSource)) },
  { name: "inference.provider", show: (values) => values.inferenceProvider },
  { name: "inference.model", show: (values) => values.inferenceModel },
  { name: "inference.endpoint", show: (values) => url(values.inferenceEndpoint) },
  {
    name: "inference.api_key",
    secret: true,
    globalOnly: true,
    show: (values) => values.inferenceApiKey === null ? null : "set",
  },
  { name: "beta.enabled", merged: true, show: (values) => list(values.betaEnabled) },
  { name: "containment", merged: true, show: (values) => values.containment },
  { name: "spend.machine_tokens_per_day", merged: true, show: (values) => values.machineTokensPerDay },
  { name: "http.proxy", globalOnly: true, show: (values) => values.httpProxy },
  {
    name: "host_paths",
    globalOnly: true,
    show: (values) => list(values.hostPaths.map(({ written, access }) => ({ path: written, access }))),
  },
];

function credentialKey(name: string): Key {
  return {
    name: `credentials.${name}`,
    secret: true,
    globalOnly: true,
    show: (values) => values.credentials.has(name) ? "set" : null,
  };
}

/** The file an effective value comes from: the project's when that decides it. */
function originOf(key: Key, configuration: Configuration): Origin {
  const effective = JSON.stringify(key.show(configuration));
  const has = (file: ConfigurationFile | null) => file !== null && key.show(file) !== null;
  const project = configuration.project;
  if (!key.globalOnly && has(project)) {
    const decides = configuration.global === null || JSON.stringify(key.show(configuration.global)) !== effective;
    if (decides || key.merged !== true) return "project";
  }
  return has(configuration.global) ? "global" : "default";
}

function settingOf(key: Key, configuration: Configuration): Setting | null {
  const value = key.show(configuration);
  return value === null ? null : { key: key.name, value, origin: originOf(key, configuration) };
}

function shown(value: JsonValue): string {
  return shownValue(typeof value === "string" ? value : JSON.stringify(value), Infinity);
}

function load(context: CliContext): Promise<Configuration> {
  return readConfiguration({
    home: context.home(),
    cwd: context.cwd,
    notice: (line) => void context.stderr.line(line),
  });
}

/** Where an origin is, for people. */
function placeOf(origin: Origin, configuration: Configuration): string {
  if (origin === "default") return "built-in default";
  return (origin === "global" ? configuration.global : configuration.project)?.file ?? origin;
}

/**
 * `mur config get <key>`: the effective value on stdout, where it comes from on stderr.
 *
 * @returns 1 when the key is not set: nothing is printed then, and of a secret `not set`.
 * @throws {MurError} `E-CFG-002` for a key there is none of; `E-IO-003`.
 */
export async function configGet(context: CliContext, _flags: object, name: string): Promise<number> {
  const credential = name.startsWith("credentials.") ? name.slice("credentials.".length) : null;
  const key = credential !== null && isCredentialName(credential)
    ? credentialKey(credential)
    : KEYS.find((each) => each.name === name);
  if (key === undefined) {
    throw new MurError("E-CFG-002", `'${shownValue(name)}' is not a key of the configuration`, {
      hint: `the keys are ${KEYS.map((each) => each.name).join(", ")} and credentials.<NAME>`,
    });
  }
  const configuration = await load(context);
  const setting = settingOf(key, configuration);
  if (setting === null) {
    if (key.secret) context.stdout.line("not set");
    return 1;
  }
  context.stderr.line(`from ${placeOf(setting.origin, configuration)}`);
  context.stdout.line(shown(setting.value));
  return 0;
}

/** Flags of `mur config set`. */
export interface ConfigSetFlags {
  /** `-g`: the global file instead of the project's. */
  readonly global?: boolean;
}

/**
 * `mur config set <key> <value>`; a value of `-` is read from standard input.
 *
 * @throws {MurError} `E-CFG-002`, `E-IO-003`; nothing was written then.
 */
export async function configSet(
  context: CliContext,
  flags: ConfigSetFlags,
  key: string,
  value: string,
  input: SecretInput = Deno.stdin,
): Promise<number> {
  const scope = flags.global === true ? "global" : "project";
  // A key that cannot be set is refused before anybody types its value.
  judgeConfigValue(key, "", scope);
  const read = value === "-" ? await readSecret(`${key}: `, context.stderr, input) : value;
  if (read === null) return 130;
  // An unset variable in `printf %s "$KEY" |` must not replace a good key by nothing.
  if (value === "-" && read === "") {
    throw new MurError("E-IO-003", `no value for '${key}' came from standard input`, {
      hint: `nothing was written; to set it to nothing: mur config set${scope === "global" ? " -g" : ""} ${key} ""`,
    });
  }
  const file = scope === "global" ? context.home().config : projectConfigurationFile(context.cwd);
  await setConfigValue(file, key, read, scope);
  if (
    scope === "project" && key === "inference.api_key" && read.trim() !== "" &&
    !/^\$\{[A-Z_][A-Z0-9_]*\}$/.test(read.trim())
  ) {
    context.stderr.line(
      `warning: ${file}: inference.api_key holds a key; whoever reads the project reads it, and it is not used. ` +
        "Keep it with: mur config set -g inference.api_key -",
    );
  }
  context.stdout.line(`Set ${key} in ${file}`);
  return 0;
}

/** Flags of `mur config list`. */
export interface ConfigListFlags {
  readonly json?: boolean;
}

/** `mur config list`: every effective key with its value and origin. @throws {MurError} `E-IO-003`. */
export async function configList(context: CliContext, flags: ConfigListFlags): Promise<number> {
  const configuration = await load(context);
  const keys = [...KEYS, ...[...configuration.credentials.keys()].sort().map(credentialKey)];
  const settings = keys.map((key) => settingOf(key, configuration)).filter((setting) => setting !== null);
  if (flags.json === true) {
    context.stdout.line(JSON.stringify(settings));
    return 0;
  }
  const width = Math.max(0, ...settings.map(({ key }) => key.length));
  for (const { key, value, origin } of settings) {
    context.stdout.line(`${key.padEnd(width)}  ${shown(value)}  (${origin})`);
  }
  return 0;
}
