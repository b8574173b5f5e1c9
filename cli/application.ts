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
  text_en,
} from "@stricli/core";
import { MurError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import type { CliContext } from "./context.ts";

/** What a command sees as `this`: the parser's streams and our context. */
interface MurContext extends CommandContext {
  readonly mur: CliContext;
  /** Set by the command that ran. */
  status: number;
}

const text = (input: string): string => input;

function wholeNumber(input: string): number {
  if (!/^\d+$/.test(input)) throw new SyntaxError(`'${input}' is not a whole number`);
  return Number(input);
}

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
  "forget-session": { kind: "boolean", brief: "Drop the context's harness session first", optional: true },
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
  json: { kind: "boolean", brief: "Print one JSON readiness line and nothing else on stdout", optional: true },
  output: {
    kind: "enum",
    values: ["text"],
    brief: "text: print only the final answer on stdout",
    optional: true,
  },
  verbose: { kind: "boolean", brief: "Print more when the session starts, and the model's thinking", optional: true },
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
  "explain-scope": { kind: "boolean", brief: "Print what the capsule may do here and exit", optional: true },
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

/** Wraps a command so that its failure is printed our way and its status is kept. */
function command<FLAGS extends object, ARGS extends readonly string[]>(
  load: () => Promise<(context: CliContext, flags: FLAGS, ...args: ARGS) => Promise<number>>,
): () => Promise<(this: MurContext, flags: FLAGS, ...args: ARGS) => Promise<void>> {
  return async () => {
    const implementation = await load();
    return async function (this: MurContext, flags: FLAGS, ...args: ARGS): Promise<void> {
      try {
        this.status = await implementation(this.mur, flags, ...args);
      } catch (error) {
        const { reportFailure } = await import("./main.ts");
        this.status = reportFailure(error, this.mur);
      }
    };
  };
}
