/**
 * The command tree of `mur`: flags, arguments and help of every command (spec cli 10 to 15). A command's own module is
 * loaded only when it runs.
 *
 * @module
 */
import {
  type ApplicationText,
  buildApplication,
  buildCommand,
  buildRouteMap,
  type CommandContext,
  ExitCode,
  run,
  type StricliProcess,
  text_en,
} from "@stricli/core";
import { reasonOf } from "../base/errors.ts";
import type { CliContext } from "./context.ts";
import { reportFailure, USAGE_STATUS } from "./failure.ts";

/** What a command sees as `this`: the parser's streams and our context. */
interface MurContext extends CommandContext {
  readonly mur: CliContext;
  /** Filled in by the command that ran. */
  readonly outcome: { status: number | null };
}

const text = (input: string): string => input;

const RUN_FLAGS = {
  manifest: {
    kind: "parsed",
    parse: text,
    brief: "Manifest to run (default ./murmur.yaml)",
    placeholder: "path",
    optional: true,
  },
  capsule: {
    kind: "parsed",
    parse: text,
    brief: "Run an installed capsule; needs --capsule-version",
    placeholder: "name",
    optional: true,
  },
  "capsule-version": {
    kind: "parsed",
    parse: text,
    brief: "Version of the installed capsule",
    placeholder: "version",
    optional: true,
  },
  task: {
    kind: "parsed",
    parse: text,
    brief: "Task: a file to copy, or the text itself",
    placeholder: "path or text",
    optional: true,
  },
  context: {
    kind: "parsed",
    parse: text,
    brief: "Context id of the launch task (default: a fresh one)",
    placeholder: "id",
    optional: true,
  },
  resume: {
    kind: "parsed",
    parse: text,
    inferEmpty: true,
    brief: "Continue the context of a session (without a value: the newest)",
    placeholder: "session",
    optional: true,
  },
  "resume-mode": {
    kind: "enum",
    values: ["full", "compact"],
    brief: "How the resumed history is loaded (default full)",
    optional: true,
  },
  "forget-session": {
    kind: "boolean",
    brief: "Drop the context's harness session first",
    optional: true,
    withNegated: false,
  },
  workdir: {
    kind: "parsed",
    parse: text,
    brief: "Work folder of the agent (default <manifest dir>/workdir/<session>)",
    placeholder: "dir",
    optional: true,
  },
  bind: {
    kind: "parsed",
    parse: text,
    brief: "Address of the door (default 127.0.0.1)",
    placeholder: "addr",
    optional: true,
  },
  json: {
    kind: "boolean",
    brief: "Print one JSON readiness line and nothing else on stdout",
    optional: true,
    withNegated: false,
  },
  output: {
    kind: "enum",
    values: ["text"],
    brief: "text: print only the final answer on stdout",
    optional: true,
  },
  verbose: {
    kind: "boolean",
    brief: "Print more when the session starts, and the model's thinking",
    optional: true,
    withNegated: false,
  },
  "lifecycle-task-acceptance": {
    kind: "parsed",
    parse: text,
    brief: "Override lifecycle.task_acceptance: none, single or queue",
    placeholder: "word",
    optional: true,
  },
  "lifecycle-after-task": {
    kind: "parsed",
    parse: text,
    brief: "Override lifecycle.after_task: exit or sleep",
    placeholder: "word",
    optional: true,
  },
  "no-env-file": { kind: "boolean", brief: "Do not read .env", optional: true, withNegated: false },
  containment: {
    kind: "parsed",
    parse: text,
    brief: "Least containment class: advisory, scoped or sealed",
    placeholder: "class",
    optional: true,
  },
  "system-prompt": {
    kind: "parsed",
    parse: text,
    brief: "Replace the system prompt for this run; blank clears it",
    placeholder: "text",
    optional: true,
  },
  "explain-scope": {
    kind: "boolean",
    brief: "Print what the capsule may do here and exit",
    optional: true,
    withNegated: false,
  },
  "capsule-sha256": {
    kind: "parsed",
    parse: text,
    brief: "Required hash of the --capsule archive",
    placeholder: "hex",
    optional: true,
    hidden: true,
  },
  "store-root": {
    kind: "parsed",
    parse: text,
    brief: "Directory whose project store is used",
    placeholder: "dir",
    optional: true,
    hidden: true,
  },
} as const;

/** Values of the flags of `mur run`. */
export interface RunFlags {
  readonly manifest?: string;
  readonly capsule?: string;
  readonly "capsule-version"?: string;
  readonly task?: string;
  readonly context?: string;
  readonly resume?: string;
  readonly "resume-mode"?: "full" | "compact";
  readonly "forget-session"?: boolean;
  readonly workdir?: string;
  readonly bind?: string;
  readonly json?: boolean;
  readonly output?: "text";
  readonly verbose?: boolean;
  readonly "lifecycle-task-acceptance"?: string;
  readonly "lifecycle-after-task"?: string;
  readonly "no-env-file"?: boolean;
  readonly containment?: string;
  readonly "system-prompt"?: string;
  readonly "explain-scope"?: boolean;
  readonly "capsule-sha256"?: string;
  readonly "store-root"?: string;
}

type Implementation<FLAGS, ARGS extends readonly (string | undefined)[]> = (
  context: CliContext,
  flags: FLAGS,
  ...args: ARGS
) => Promise<number>;

/** Wraps a command so that its failure is printed our way and its status is kept. */
function loading<FLAGS, ARGS extends readonly (string | undefined)[]>(
  load: () => Promise<Implementation<FLAGS, ARGS>>,
): () => Promise<(this: MurContext, flags: FLAGS, ...args: ARGS) => Promise<void>> {
  return async () => {
    const implementation = await load();
    return async function (this: MurContext, flags: FLAGS, ...args: ARGS): Promise<void> {
      try {
        this.outcome.status = await implementation(this.mur, flags, ...args);
      } catch (error) {
        this.outcome.status = reportFailure(error, this.mur);
      }
    };
  };
}

const runCommand = buildCommand<RunFlags, [], MurContext>({
  loader: loading(async () => (await import("./run.ts")).run),
  parameters: { flags: RUN_FLAGS, aliases: { v: "verbose" } },
  docs: {
    brief: "Run a capsule",
    fullDescription:
      "Stages the capsule, opens its door and works on its task. Prints where the door is, the session " +
      "id and at the end the status; the exit status is 0 when the task completed.",
  },
});

const routes = buildRouteMap({
  routes: {
    run: runCommand,
  },
  docs: { brief: "Build, install and run contained AI agents" },
});

const TEXT: ApplicationText = {
  ...text_en,
  noCommandRegisteredForInput: ({ input, corrections }) => {
    const hint = corrections.length === 0 ? "see mur --help" : `did you mean ${corrections.join(" or ")}?`;
    return `mur: unknown command '${input}' (${hint})`;
  },
  exceptionWhileParsingArguments: (error) => `mur: ${reasonOf(error)}`,
};

const application = buildApplication(routes, {
  name: "mur",
  scanner: { caseStyle: "original", allowArgumentEscapeSequence: true },
  documentation: { caseStyle: "original", disableAnsiColor: true },
  localization: { text: TEXT },
});

/** Runs the command that the arguments name and answers its exit status. */
export async function runApplication(args: readonly string[], context: CliContext): Promise<number> {
  const outcome: { status: number | null } = { status: null };
  const process: StricliProcess = {
    stdout: { write: (text: string) => void context.stdout.write(text) },
    stderr: { write: (text: string) => void context.stderr.write(text) },
    env: { STRICLI_SKIP_VERSION_CHECK: "1", STRICLI_NO_COLOR: "1" },
  };
  const stricliContext: MurContext & { readonly process: StricliProcess } = { process, mur: context, outcome };
  await run(application, args.length === 0 ? ["--help"] : args, stricliContext);
  if (outcome.status !== null) return outcome.status;
  // Help was shown, or the parser refused the arguments.
  return process.exitCode === ExitCode.Success ? 0 : USAGE_STATUS;
}
