/**
 * `.env` of a project: defaults for variables that are not set (spec cli 5.6, manifest 3.5). It may come with a
 * directory somebody else made, so it never sets what steers programs rather than configures them.
 *
 * @module
 */
import { MurError, reasonOf } from "../base/errors.ts";
import { shownValue } from "./manifest/shown_value.ts";

/** Largest file that is read, in bytes. */
const MAX_BYTES = 1024 * 1024;

const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
const NEVER = ["PATH", "HOME", "USERPROFILE"];
const NEVER_PREFIXES = ["MURMUR_", "LD_", "DYLD_", "DENO_", "NODE_"];

/** Whether a `.env` never sets a variable of this name. */
export function isReservedForEnvironment(name: string): boolean {
  return NEVER.includes(name) || NEVER_PREFIXES.some((prefix) => name.startsWith(prefix)) ||
    PROXIES.includes(name.toUpperCase());
}

/** One assignment. */
export interface EnvEntry {
  readonly name: string;
  readonly value: string;
  /** Counted from 1. */
  readonly line: number;
}

/**
 * Parses the text of a file: `KEY=VALUE` lines, blank ones and `#` ones skipped, both sides trimmed, one pair of matching
 * quotes around the value removed. Nothing is expanded.
 *
 * @throws {MurError} `E-IO-003` naming file and line; the line itself is not shown, for it may hold a secret.
 */
export function parseEnvFile(text: string, file: string): EnvEntry[] {
  const entries: EnvEntry[] = [];
  for (const [index, written] of text.replace(/^\ufeff/, "").split("\n").entries()) {
    const line = written.trim();
    if (line === "" || line.startsWith("#")) continue;
    const separator = line.indexOf("=");
    const name = line.slice(0, Math.max(0, separator)).trim();
    if (separator < 0 || name === "" || name.includes("\0") || line.includes("\0", separator)) {
      const reason = separator < 0 ? "no '='" : name === "" ? "an empty key" : "a NUL character";
      throw new MurError("E-IO-003", `${file}:${index + 1}: the line has ${reason}`, {
        hint: "write KEY=VALUE, or start the line with #",
      });
    }
    let value = line.slice(separator + 1).trim();
    const quote = value[0];
    if (value.length >= 2 && (quote === '"' || quote === "'") && value.endsWith(quote)) value = value.slice(1, -1);
    entries.push({ name, value, line: index + 1 });
  }
  return entries;
}

/** Read access to variables. */
export interface Variables {
  get(name: string): string | undefined;
}

/**
 * The variables of `env` with those of a file behind them: what is set, even empty, is never overridden; of two lines
 * with one name the first counts.
 *
 * @param notice Takes one `warning:` line for each entry that is never set from a file.
 */
export function withEnvFile(
  env: Variables,
  entries: readonly EnvEntry[],
  file: string,
  notice: (line: string) => void,
): Variables {
  const added = new Map<string, string>();
  for (const { name, value, line } of entries) {
    if (isReservedForEnvironment(name)) {
      notice(`warning: ${file}:${line}: ${shownValue(name)} is never set from .env; the line is ignored`);
    } else if (!added.has(name)) added.set(name, value);
  }
  return { get: (name) => env.get(name) ?? added.get(name) };
}

/**
 * The variables of `env` with those of `<directory>/.env` behind them. Without such a file they are `env`.
 *
 * @param directory The nearest one at or above the manifest's that holds `murmur.yaml`.
 * @throws {MurError} `E-IO-003` for a line that is no assignment, and for a file that cannot be read.
 */
// deno-lint-ignore require-await -- a small file is read at once: turns of the event loop would cost a launch more
export async function readWorkspaceEnvFile(
  directory: string,
  env: Variables,
  notice: (line: string) => void,
): Promise<Variables> {
  const file = `${directory.replace(/\/+$/, "")}/.env`;
  let bytes: Uint8Array;
  try {
    const { size, isFile } = Deno.statSync(file);
    if (!isFile) throw new MurError("E-IO-003", `${file} is not a regular file`);
    if (size > MAX_BYTES) throw new MurError("E-IO-003", `${file} is larger than ${MAX_BYTES} bytes`);
    bytes = Deno.readFileSync(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return env;
    if (error instanceof MurError) throw error;
    throw new MurError("E-IO-003", `failed to read ${file}: ${reasonOf(error)}`, { cause: error });
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new MurError("E-IO-003", `${file} is not UTF-8`);
  }
  return withEnvFile(env, parseEnvFile(text, file), file, notice);
}
