/**
 * Programs that a compiler starts beside itself, and whether commands may run them (spec containment 7.2). A driver that is
 * allowed alone fails in the middle of its work, with a message that names none of this.
 *
 * @module
 */
import type { Warning } from "../base/errors.ts";
import { isAtOrBelow } from "../base/paths.ts";
import { shownValue } from "../artifact/manifest/shown_value.ts";
import { confineHelper } from "./confine_helper.ts";
import { findExecutable } from "./executable_path.ts";
import { guardArguments, parseWalls, type Wall } from "./guard.ts";
import type { ShellAllow } from "./shell_allow.ts";

const C_HELPERS = ["cc1", "cc1plus", "as", "ld", "collect2"] as const;
const CXX_HELPERS = ["cc1plus", "as", "ld", "collect2"] as const;
const HELPERS: Readonly<Record<string, readonly string[]>> = {
  "cc": C_HELPERS,
  "gcc": C_HELPERS,
  "g++": CXX_HELPERS,
  "c++": CXX_HELPERS,
};

/** What a driver said. `null`: it could not be started, or a signal ended it. */
export type DriverAnswer = { readonly success: boolean; readonly text: string } | null;

/** Asks a driver where one of its helpers is. */
export type AskDriver = (driver: string, helper: string) => Promise<DriverAnswer>;

/** Longest a driver may think about its answer, in milliseconds. */
const ANSWER_TIMEOUT_MS = 5_000;

/** Longest answer, in bytes: a path. */
const MAX_ANSWER_BYTES = 8_192;

/** Resident bytes of a process that answers; far more than any driver needs. */
const ANSWER_MEMORY_BYTES = 1 << 28;

/** Where a driver finds what it is asked, and nothing it can do besides. */
const ANSWER_WALLS: readonly Wall[] = ["pid-namespace", "network-namespace", "read-only-mounts", "landlock", "seccomp"];

/** Exit codes of the helper when it could not start a program. */
const NOT_STARTED = [125, 127];

/**
 * Runs `<driver> -print-prog-name=<helper>` with nothing but `PATH`. What a name means on `PATH` may be an agent's doing, of
 * another session: so it reads and executes, but behind walls within which it changes nothing and reaches nobody, and what
 * a host cannot put behind all of them is not asked.
 */
export async function askDriver(driver: string, helper: string, path: string): Promise<DriverAnswer> {
  const question = [`-print-prog-name=${helper}`];
  const options = { componentHost: { execute: ["/"], read: [] }, memoryBytes: ANSWER_MEMORY_BYTES };
  try {
    const child = new Deno.Command(await confineHelper(), {
      args: guardArguments(options, driver, question),
      clearEnv: true,
      env: { PATH: path, LC_ALL: "C" },
      // Its other end is this process: with that the driver ends.
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const end = () => {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended.
      }
    };
    const timer = setTimeout(end, ANSWER_TIMEOUT_MS);
    try {
      const [text, said] = await Promise.all([boundedText(child.stdout, end), boundedText(child.stderr, end)]);
      const { success, code, signal } = await child.status;
      await child.stdin.close().catch(() => {});
      const walls = parseWalls(said?.split("\n")[0] ?? "") ?? [];
      if (text === null || signal !== null || NOT_STARTED.includes(code)) return null;
      return ANSWER_WALLS.every((wall) => walls.includes(wall)) ? { success, text: text.trim() } : null;
    } finally {
      clearTimeout(timer);
    }
  } catch {
    return null;
  }
}

/** All of a stream; `null`, and `end` is called, when it is longer than an answer. */
async function boundedText(stream: ReadableStream<Uint8Array<ArrayBuffer>>, end: () => void): Promise<string | null> {
  const decoder = new TextDecoder();
  let text: string | null = "";
  let length = 0;
  for await (const bytes of stream) {
    length += bytes.length;
    if (length > MAX_ANSWER_BYTES) {
      end();
      text = null;
    }
    if (text !== null) text += decoder.decode(bytes, { stream: true });
  }
  return text;
}

/** What commands may run. */
export interface ExecutableGrants {
  readonly allow: ShellAllow;
  /** Directories of `interpreter_runtime` and `staged_runtime`; canonical. */
  readonly directories: readonly string[];
  /** Directories that commands may write to, so that none of them may run what lies there; canonical. */
  readonly writable: readonly string[];
}

/** `W-SEC-012` for each helper that may not be run, `W-SEC-029` for each driver that could not be asked. */
export async function compilerHelperWarnings(
  { allow, directories, writable }: ExecutableGrants,
  path: string,
  ask: AskDriver = (driver, helper) => askDriver(driver, helper, path),
): Promise<Warning[]> {
  const warnings = new Map<string, Warning>();
  const warn = (code: Warning["code"], message: string) =>
    warnings.set(message, { code, source: "capsule-runtime", message });
  const names = new Set(allow.binaries.map(({ name }) => name));
  for (const { name, matches } of allow.binaries) {
    const helpers = HELPERS[name];
    const driver = matches[0];
    if (helpers === undefined || driver === undefined) continue;
    // Commands can't run it there, and have perhaps written it.
    const runs = !writable.some((directory) => isAtOrBelow(driver.canonical, directory));
    const answers = await Promise.all(helpers.map((helper) => runs ? ask(driver.invoked, helper) : null));
    const unasked = helpers.filter((_, index) => answers[index] === null);
    if (unasked.length > 0) {
      warn(
        "W-SEC-029",
        `'${shownValue(name)}' could not be asked where its helpers are, so it is not known whether commands may run ` +
          unasked.join(", "),
      );
    }
    for (const [index, helper] of helpers.entries()) {
      const found = helperPath(helper, answers[index]!, path);
      if (found === null || names.has(helper) || allow.execute.includes(found)) continue;
      if (directories.some((directory) => isAtOrBelow(found, directory))) continue;
      warn(
        "W-SEC-012",
        `'${shownValue(name)}' starts '${helper}' (${found}), which commands may not run: grant its directory in ` +
          "capabilities.shell.interpreter_runtime or staged_runtime",
      );
    }
  }
  return [...warnings.values()];
}

/** Canonical path of a helper; `null` when the answer names none. */
function helperPath(helper: string, answer: DriverAnswer, path: string): string | null {
  if (answer === null || !answer.success || answer.text === "") return null;
  if (answer.text === helper) return findExecutable(helper, path)?.canonical ?? null;
  if (!answer.text.startsWith("/")) return null;
  try {
    return Deno.realPathSync(answer.text);
  } catch {
    return null;
  }
}
