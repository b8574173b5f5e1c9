/**
 * Where the key of a credential gateway comes from, and the key as it is now (spec components 5.1, manifest 3.5 and 20.2,
 * cli 5.4). A key of the configuration file is read again when the file changed, one of the environment or the manifest
 * is read once, an injected one is whatever the controller set last.
 *
 * @module
 */
import { parse } from "yaml";
import type { CredentialReference } from "../../artifact/manifest/capsule_manifest.ts";
import { MurError } from "../../base/errors.ts";

/** Why the file gave no key. */
export type UnreadableReason =
  | "missing"
  | "unreadable"
  | "unparseable"
  | "no_entry"
  | "empty_entry"
  | "not_injected";

/** What a look at a source showed. */
export interface CredentialReading {
  /** The key in use; an unreadable file leaves the last one. `null`: there never was one. */
  readonly key: string | null;
  /** The key differs from the one in use before. */
  readonly changed: boolean;
  /** Set the first time a source is found unreadable for this reason. */
  readonly unreadable: UnreadableReason | null;
}

/** A key and its origin. Holds the only copy of the value outside a request. */
export interface CredentialSource {
  readonly kind: "config" | "environment" | "manifest" | "injected";
  /** `NAME` of `${NAME}`; `null` for a literal. */
  readonly name: string | null;
  /** Looks again. `force`: even when nothing says that it changed, as after a 401. */
  read(force: boolean): Promise<CredentialReading>;
  /** Every value held since launch, for redaction. */
  values(): readonly string[];
}

/** A value set or forgotten by a controller (spec door, control). */
export interface InjectedSecrets {
  get(name: string): string | undefined;
}

/** Reads `credentials.NAME` of the text of the configuration file. */
export function credentialEntry(text: string, name: string): { key: string } | { reason: UnreadableReason } {
  let config: unknown;
  try {
    config = parse(text, { logLevel: "silent" });
  } catch {
    return { reason: "unparseable" };
  }
  if (config === null || config === undefined) return { reason: "no_entry" };
  if (typeof config !== "object" || Array.isArray(config)) return { reason: "unparseable" };
  const credentials = (config as Record<string, unknown>).credentials;
  if (credentials === undefined || credentials === null) return { reason: "no_entry" };
  if (typeof credentials !== "object" || Array.isArray(credentials)) return { reason: "unparseable" };
  if (!Object.hasOwn(credentials, name)) return { reason: "no_entry" };
  const value = (credentials as Record<string, unknown>)[name];
  if (value === null || value === undefined) return { reason: "empty_entry" };
  if (typeof value !== "string") return { reason: "unparseable" };
  return value.trim() === "" ? { reason: "empty_entry" } : { key: value.trim() };
}

/** What tells one state of a file from another; the change time moves even when the others are set back. */
function fingerprint(info: Deno.FileInfo): string {
  return [info.dev, info.ino, info.size, info.mtime?.getTime(), info.ctime?.getTime(), info.mode].join(":");
}

/** One look at the file: the key or why there is none, and what the file looked like before it was read. */
async function lookAt(file: string, name: string) {
  let state: string;
  try {
    state = fingerprint(await Deno.stat(file));
  } catch (error) {
    const reason: UnreadableReason = error instanceof Deno.errors.NotFound ? "missing" : "unreadable";
    return { state: reason, entry: { reason } };
  }
  try {
    return { state, entry: credentialEntry(await Deno.readTextFile(file), name) };
  } catch (error) {
    const reason: UnreadableReason = error instanceof Deno.errors.NotFound ? "missing" : "unreadable";
    return { state: reason, entry: { reason } };
  }
}

/** Values that were in use, in the order they came. */
class HeldValues {
  readonly #values: string[] = [];
  add(value: string): void {
    if (!this.#values.includes(value)) this.#values.push(value);
  }
  list(): readonly string[] {
    return [...this.#values];
  }
}

/** `credentials.NAME` of the global configuration file, starting with the key read at launch. */
class ConfigSource implements CredentialSource {
  readonly kind = "config";
  readonly name: string;
  readonly #file: string;
  readonly #held = new HeldValues();
  #key: string;
  #state: string;
  #unreadable: UnreadableReason | null = null;
  /** Requests look one after the other, so that one change is one event. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(file: string, name: string, key: string, state: string) {
    this.#file = file;
    this.name = name;
    this.#key = key;
    this.#state = state;
    this.#held.add(key);
  }

  read(force: boolean): Promise<CredentialReading> {
    const reading = this.#turn.then(() => this.#read(force));
    this.#turn = reading.catch(() => {});
    return reading;
  }

  async #read(force: boolean): Promise<CredentialReading> {
    if (!force) {
      const state = await Deno.stat(this.#file).then(fingerprint, () => null);
      if (state !== null && state === this.#state) return { key: this.#key, changed: false, unreadable: null };
    }
    const { state, entry } = await lookAt(this.#file, this.name);
    this.#state = state;
    if ("reason" in entry) {
      const unreadable = this.#unreadable === entry.reason ? null : entry.reason;
      this.#unreadable = entry.reason;
      return { key: this.#key, changed: false, unreadable };
    }
    this.#unreadable = null;
    const changed = entry.key !== this.#key;
    this.#key = entry.key;
    this.#held.add(entry.key);
    return { key: entry.key, changed, unreadable: null };
  }

  values(): readonly string[] {
    return this.#held.list();
  }
}

/** A value read once at launch. */
function fixedSource(kind: "environment" | "manifest", name: string | null, value: string): CredentialSource {
  const reading: CredentialReading = { key: value, changed: false, unreadable: null };
  return { kind, name, read: () => Promise.resolve(reading), values: () => [value] };
}

/** What a controller sets while the session runs. */
class InjectedSource implements CredentialSource {
  readonly kind = "injected";
  readonly name: string;
  readonly #secrets: InjectedSecrets;
  readonly #held = new HeldValues();
  #last: string | null = null;
  #reported = false;

  constructor(name: string, secrets: InjectedSecrets) {
    this.name = name;
    this.#secrets = secrets;
  }

  read(): Promise<CredentialReading> {
    const value = this.#secrets.get(this.name)?.trim() ?? "";
    if (value === "") {
      const unreadable = this.#reported ? null : "not_injected";
      this.#reported = true;
      this.#last = null;
      return Promise.resolve({ key: null, changed: false, unreadable });
    }
    this.#reported = false;
    const changed = this.#last !== null && this.#last !== value;
    this.#last = value;
    this.#held.add(value);
    return Promise.resolve({ key: value, changed, unreadable: null });
  }

  values(): readonly string[] {
    return this.#held.list();
  }
}

/** What resolving a reference needs to know. */
export interface CredentialLookup {
  /** `~/.murmur/config.yaml`. */
  readonly configFile: string;
  readonly env: { get(name: string): string | undefined };
  /** `control.secrets`: names that are looked up nowhere, for a controller sets them. */
  readonly injectable: readonly string[];
  readonly secrets: InjectedSecrets;
}

/**
 * Finds the source of a gateway's key, `null` when there is none anywhere.
 *
 * @param credential As the manifest has it.
 */
export async function findCredential(
  credential: CredentialReference,
  lookup: CredentialLookup,
): Promise<CredentialSource | null> {
  if (credential.kind === "literal") return fixedSource("manifest", null, credential.value.trim());
  const { name } = credential;
  if (lookup.injectable.includes(name)) return new InjectedSource(name, lookup.secrets);
  const { state, entry } = await lookAt(lookup.configFile, name);
  if ("key" in entry) return new ConfigSource(lookup.configFile, name, entry.key, state);
  const value = lookup.env.get(name)?.trim() ?? "";
  return value === "" ? null : fixedSource("environment", name, value);
}

/**
 * The same, and an error where {@linkcode findCredential} finds nothing.
 *
 * @param artifact Entry that declares the gateway, for the message.
 * @throws {MurError} `E-MAN-003` naming the artifact, `gateway.api_key` and both places.
 */
export async function resolveCredential(
  artifact: string,
  credential: CredentialReference,
  lookup: CredentialLookup,
): Promise<CredentialSource> {
  const source = await findCredential(credential, lookup);
  if (source !== null) return source;
  const name = credential.kind === "reference" ? credential.name : "";
  throw new MurError(
    "E-MAN-003",
    `artifact '${artifact}': gateway.api_key: \${${name}} is set neither as credentials.${name} in ` +
      `${lookup.configFile} nor as the environment variable ${name}`,
    { hint: `mur config set -g credentials.${name} -, or export ${name}` },
  );
}
