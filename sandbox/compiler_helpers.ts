/**
 * Programs that a compiler starts beside itself, and whether commands may run them (spec containment 7.2). A driver that is
 * allowed alone fails in the middle of its work, with a message that names none of this.
 *
 * @module
 */
import type { Warning } from "../base/errors.ts";
import { isAtOrBelow } from "../base/paths.ts";
import { shownValue } from "../artifact/manifest/shown_value.ts";
import { findExecutable } from "./executable_path.ts";
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

/** Runs `<driver> -print-prog-name=<helper>` with nothing but `PATH`. */
export async function askDriver(driver: string, helper: string, path: string): Promise<DriverAnswer> {
  try {
    const { success, signal, stdout } = await new Deno.Command(driver, {
      args: [`-print-prog-name=${helper}`],
      clearEnv: true,
      env: { PATH: path, LC_ALL: "C" },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    }).output();
    return signal === null ? { success, text: new TextDecoder().decode(stdout).trim() } : null;
  } catch {
    return null;
  }
}

/** What commands may run. */
export interface ExecutableGrants {
  readonly allow: ShellAllow;
  /** Directories of `interpreter_runtime` and `staged_runtime`; canonical. */
  readonly directories: readonly string[];
}

/** `W-SEC-012` for each helper that may not be run, `W-SEC-029` for each driver that could not be asked. */
export async function compilerHelperWarnings(
  { allow, directories }: ExecutableGrants,
  path: string,
  ask: AskDriver = (driver, helper) => askDriver(driver, helper, path),
): Promise<Warning[]> {
  const warnings = new Map<string, Warning>();
  const warn = (code: Warning["code"], message: string) =>
    warnings.set(message, { code, source: "capsule-runtime", message });
  const names = new Set(allow.binaries.map(({ name }) => name));
  for (const { name, matches } of allow.binaries) {
    const helpers = HELPERS[name];
    const driver = matches[0]?.invoked;
    if (helpers === undefined || driver === undefined) continue;
    const answers = await Promise.all(helpers.map((helper) => ask(driver, helper)));
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
