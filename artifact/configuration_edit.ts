/**
 * Setting one value of a configuration file, everything else left as it is written (spec cli 15.2).
 *
 * @module
 */
import { Document, isMap, isScalar, parseDocument } from "yaml";
import { removeInterruptedWrites, writeAtomically } from "../base/atomic_file.ts";
import { withDirectoryLock } from "../base/directory_lock.ts";
import { MurError, reasonOf } from "../base/errors.ts";
import { isRootedError } from "../base/rooted_error.ts";
import { type ConfigurationScope, parseConfiguration, parseProxy } from "./configuration.ts";
import { isCredentialName } from "./manifest/credential_reference.ts";
import { shownValue } from "./manifest/shown_value.ts";

/** Keys `mur config set` writes besides `credentials.<NAME>`. */
const SETTABLE = [
  "registry.default",
  "registry.index_url",
  "inference.provider",
  "inference.model",
  "inference.api_key",
  "inference.endpoint",
  "http.proxy",
];

/**
 * Judges a key and its value before anything is read or written.
 *
 * @throws {MurError} `E-CFG-002` for a key that is not set this way, a credential or proxy in a project file, a bad
 * credential name; `E-IO-003` for a value that would be refused on load.
 */
export function judgeConfigValue(key: string, value: string, scope: ConfigurationScope): void {
  const credential = key.startsWith("credentials.") ? key.slice("credentials.".length) : null;
  if (credential === null && !SETTABLE.includes(key)) {
    throw new MurError("E-CFG-002", `'${shownValue(key)}' is not a key that mur config sets`, {
      hint: `the keys are ${SETTABLE.join(", ")} and credentials.<NAME>`,
    });
  }
  if (credential !== null && !isCredentialName(credential)) {
    throw new MurError("E-CFG-002", `'${shownValue(credential)}' is not the name of a credential`, {
      hint: "capitals, digits and '_', not starting with a digit",
    });
  }
  if (scope === "project" && (credential !== null || key === "http.proxy")) {
    throw new MurError("E-CFG-002", `'${key}' is only set in the global file`, { hint: `mur config set -g ${key} …` });
  }
  if (key === "http.proxy" && value.trim() !== "" && parseProxy(value) === null) {
    throw new MurError("E-IO-003", "http.proxy must be http(s)://host[:port] and nothing else");
  }
  // deno-lint-ignore no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(value)) {
    throw new MurError("E-IO-003", `the value for '${key}' has a line break or a control character`);
  }
}

/**
 * The text of a file with one value set; comments and order are kept.
 *
 * @throws {MurError} `E-IO-003` when the file does not parse or has something else where the key belongs.
 */
export function setInConfigText(text: string, key: string, value: string, file: string): string {
  const document = parseDocument(text, { logLevel: "silent", prettyErrors: false });
  if (document.errors.length > 0) throw new MurError("E-IO-003", `failed to parse ${file}: it is not valid YAML`);
  const dot = key.indexOf(".");
  const path = [key.slice(0, dot), key.slice(dot + 1)];
  const root = document.contents;
  const target: Document = root === null || (isScalar(root) && root.value === null)
    ? Object.assign(new Document({}), {
      commentBefore: document.commentBefore ?? document.comment ?? null,
    })
    : document;
  const block = isMap(target.contents) ? target.getIn([path[0]!], true) : null;
  if (!isMap(target.contents) || !(block === undefined || isMap(block) || (isScalar(block) && block.value === null))) {
    throw new MurError("E-IO-003", `${file}: '${path[0]}' is not a mapping, so '${key}' cannot be set`);
  }
  if (!isMap(block)) target.setIn([path[0]!], target.createNode({}));
  target.setIn(path, value);
  return target.toString({ lineWidth: 0 });
}

/**
 * Sets one value in a file, which is made when it is not there. The new file replaces the old one whole, is readable by
 * its owner alone, and its directory too when it is made or is the global one.
 *
 * @throws {MurError} As {@linkcode judgeConfigValue} and {@linkcode setInConfigText}; `E-IO-003` when it cannot be written
 * or given its mode. Nothing was written then.
 */
export async function setConfigValue(
  file: string,
  key: string,
  value: string,
  scope: ConfigurationScope,
): Promise<void> {
  judgeConfigValue(key, value, scope);
  const directory = file.slice(0, file.lastIndexOf("/"));
  try {
    await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
    if (scope === "global") await Deno.chmod(directory, 0o700);
  } catch (error) {
    throw new MurError("E-IO-003", `cannot make ${directory} a directory of its owner alone: ${reasonOf(error)}`, {
      cause: error,
    });
  }
  await withDirectoryLock(directory, async () => {
    let text = "";
    // A file kept elsewhere and linked here stays where it is.
    let real = file;
    try {
      real = await Deno.realPath(file);
      text = await Deno.readTextFile(real);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) {
        throw new MurError("E-IO-003", `failed to read ${file}: ${reasonOf(error)}`, { cause: error });
      }
    }
    const changed = setInConfigText(text, key, value, file);
    // What is written must load again.
    parseConfiguration(changed, file, scope, "/");
    try {
      // What a writer that was killed left behind may hold a credential.
      removeInterruptedWrites(directory);
      writeAtomically(real, changed, { mode: 0o600 });
    } catch (error) {
      throw new MurError(
        "E-IO-003",
        `failed to write ${file}: ${isRootedError(error) ? error.reason : reasonOf(error)}`,
        { cause: error },
      );
    }
  });
}
