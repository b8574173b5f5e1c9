/**
 * Names, versions and references of artifacts (spec cli 6.1, manifest 3.1, 3.2). Pure text rules.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { shownValue } from "./manifest/shown_value.ts";

/** Longest bare name, in characters. */
export const MAX_NAME_LENGTH = 100;

/** Longest version this build stores: the archive's file name has to fit a directory entry of 255 bytes. */
export const MAX_VERSION_LENGTH = 100;

/** What {@linkcode bareNameProblem} finds nothing wrong with. */
const BARE_NAME = /^[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?$/;

/**
 * Why `name` is no bare name, or `null` when it is one: `[a-z0-9-]`, 1 to 100 characters, no `-` first or last.
 */
export function bareNameProblem(name: string): string | null {
  if (BARE_NAME.test(name)) return null;
  if (name === "") return "the name is empty";
  if ([...name].length > MAX_NAME_LENGTH) return `the name is longer than ${MAX_NAME_LENGTH} characters`;
  const bad = /[^a-z0-9-]/u.exec(name);
  if (bad !== null) return `'${shownValue(bad[0])}' is not allowed, only lowercase letters, digits and '-' are`;
  if (name.startsWith("-") || name.endsWith("-")) return "the name starts or ends with '-'";
  return null;
}

/** Whether `name` is a bare artifact name. */
export function isBareName(name: string): boolean {
  return bareNameProblem(name) === null;
}

/** A name as written, split: `scope` is `null` for a bare name. */
export interface ArtifactName {
  readonly scope: string | null;
  readonly bare: string;
}

/** Splits a bare or full name; `null` when it matches neither grammar. */
export function parseArtifactName(name: string): ArtifactName | null {
  const slash = name.indexOf("/");
  if (slash === -1) return isBareName(name) ? { scope: null, bare: name } : null;
  const scope = name.slice(0, slash);
  const bare = name.slice(slash + 1);
  return isBareName(scope) && isBareName(bare) ? { scope, bare } : null;
}

/** The bare half of a name that may be full: what store paths and lock entries carry (spec cli 6.1). */
export function bareHalf(name: string): string {
  return name.slice(name.indexOf("/") + 1);
}

/** Whether a version is one of the words that can never be published: `latest`, `stable`, `edge` in any case. */
export function isReservedVersion(version: string): boolean {
  return ["latest", "stable", "edge"].includes(version.toLowerCase());
}

/**
 * Why `version` cannot name a directory of a store, or `null` when it can. A version is any text (spec manifest 3.2),
 * but here it becomes one path component, so it may not leave the store, hide in it or break its file names.
 */
export function versionProblem(version: string): string | null {
  if (version.trim() === "") return "the version is empty";
  if (version.length > MAX_VERSION_LENGTH) return `the version is longer than ${MAX_VERSION_LENGTH} characters`;
  if (version.startsWith(".")) return "the version starts with '.'";
  // deno-lint-ignore no-control-regex -- control characters are what is looked for
  const bad = /[/\\\x00-\x1f\x7f]|[^\x20-\x7e]/u.exec(version);
  if (bad !== null) return "the version holds '/', '\\', a control character or one outside ASCII";
  if (version !== version.trim()) return "the version starts or ends with a space";
  return null;
}

/** A parsed `<name>@<version>`. */
export interface ArtifactReference {
  readonly name: ArtifactName;
  readonly version: string;
}

/**
 * Parses `<name>@<version>`: exactly one `@`, both sides non-empty (spec cli 6.1).
 *
 * @throws {MurError} `E-IO-003`.
 */
export function parseReference(reference: string): ArtifactReference {
  const parts = reference.split("@");
  const [name, version] = parts;
  if (parts.length !== 2 || name === undefined || version === undefined || name === "" || version === "") {
    throw new MurError("E-IO-003", `invalid artifact reference '${shownValue(reference)}'`, {
      hint: "write <name>@<version>",
    });
  }
  return { name: requireName(name), version: requireVersion(version) };
}

/** Parses a bare or full name. @throws {MurError} `E-IO-003`. */
export function requireName(name: string): ArtifactName {
  const parsed = parseArtifactName(name);
  if (parsed !== null) return parsed;
  const reason = name.includes("/") ? "it is not <scope>/<name>" : bareNameProblem(name);
  throw new MurError("E-IO-003", `invalid artifact name '${shownValue(name)}': ${reason}`, {
    hint: "names hold lowercase letters, digits and '-', and start and end with a letter or digit",
  });
}

/** Returns a version a store can hold. @throws {MurError} `E-IO-003`. */
export function requireVersion(version: string): string {
  const problem = versionProblem(version);
  if (problem === null) return version;
  throw new MurError("E-IO-003", `invalid artifact version '${shownValue(version)}': ${problem}`);
}
