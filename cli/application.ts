/**
 * The command tree of `mur`: flags, arguments and help of every command (spec cli 10 to 15). A command's own module is
 * loaded only when it runs.
 *
 * @module
 */
import {
  type ApplicationText,
  buildApplication,
  buildChoiceParser,
  buildCommand,
  buildRouteMap,
  type CommandContext,
  ExitCode,
  proposeCompletions,
  type RouteMap,
  run,
  type StricliProcess,
  text_en,
} from "@stricli/core";
import { reasonOf } from "../base/errors.ts";
import type { BuildFlags } from "./build.ts";
import type { CancelFlags } from "./cancel.ts";
import { COMPLETE_ARGUMENT, type Shell, SHELLS } from "./completions.ts";
import type { ConfigListFlags, ConfigSetFlags } from "./config.ts";
import type { CliContext } from "./context.ts";
import type { DoctorFlags } from "./doctor.ts";
import type { FilesFlags } from "./files.ts";
import type { InstallFlags } from "./install.ts";
import type { ListFlags } from "./list.ts";
import type { NewCapsuleFlags } from "./new.ts";
import type { PrecompileFlags } from "./precompile.ts";
import type { PsFlags } from "./ps.ts";
import type { RoostStatusFlags } from "./roost_status.ts";
import type { PublishFlags } from "./publish.ts";
import type { SendFlags } from "./send.ts";
import type { SetupFlags } from "./setup.ts";
import type { StopFlags } from "./stop.ts";
import type { TraceDiffFlags } from "./trace_diff.ts";
import type { TraceReportFlags } from "./trace_report.ts";
import type { TraceRmFlags } from "./trace_rm.ts";
import type { WatchFlags } from "./watch.ts";
import { finalStatus, reportFailure, USAGE_STATUS } from "./failure.ts";

/** What a command sees as `this`: the parser's streams and our context. */
interface MurContext extends CommandContext {
  readonly mur: CliContext;
  /** Filled in by the command that ran. */
  readonly outcome: { status: number | null };
}

const text = (input: string): string => input;

function wholeNumber(input: string): number {
  if (!/^\d+$/.test(input)) throw new SyntaxError(`'${input}' is not a whole number`);
  return Number(input);
}

/** Flags of `mur trace steps`. */
interface TraceStepsFlags {
  readonly workdir?: string;
  readonly verbose?: boolean;
}

/** Flags of `mur trace show`. */
interface TraceShowFlags {
  readonly workdir?: string;
  readonly body?: string;
  readonly turn?: number;
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
  "spawn-grant-stdin": {
    kind: "boolean",
    brief: "Read a spawn approval from standard input; a parent's runtime gives one",
    optional: true,
    withNegated: false,
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
  "readiness-tokens": {
    kind: "boolean",
    brief: "With --json: the door's tokens on the readiness line",
    optional: true,
    withNegated: false,
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
  readonly "spawn-grant-stdin"?: boolean;
  readonly "explain-scope"?: boolean;
  readonly "capsule-sha256"?: string;
  readonly "store-root"?: string;
  readonly "readiness-tokens"?: boolean;
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

/** A flag without a value. */
function toggle(brief: string) {
  return { kind: "boolean", brief, optional: true, withNegated: false } as const;
}

/** A flag with a value that may be left out. */
function option(brief: string, placeholder: string) {
  return { kind: "parsed", parse: text, brief, placeholder, optional: true } as const;
}

function positional(brief: string, placeholder: string) {
  return { brief, parse: text, placeholder, optional: true } as const;
}

function required(brief: string, placeholder: string) {
  return { brief, parse: text, placeholder } as const;
}

const buildRoute = buildCommand<BuildFlags, [source?: string], MurContext>({
  loader: loading(async () => {
    const { build } = await import("./build.ts");
    return (context, flags, source) => build(context, flags, source);
  }),
  parameters: {
    flags: {
      output: option("File to write, or a directory for the default name", "path"),
      skill: {
        kind: "parsed",
        parse: text,
        inferEmpty: true,
        brief: "Pack a folder or zip holding SKILL.md; the value is its name or path",
        placeholder: "name",
        optional: true,
      },
      version: option("Version of the generated manifest of a skill (default 0.1.0)", "version"),
      summary: option("Description of the generated manifest of a skill", "text"),
    },
    aliases: { o: "output" },
    positional: { kind: "tuple", parameters: [positional("Source directory (default .)", "source")] },
  },
  docs: {
    brief: "Pack an artifact; with a build: block its TypeScript file becomes a component",
    fullDescription:
      "Checks the manifest, bundles and type-checks the entry of a build: block, makes a component of it and " +
      "packs <name>-<version>.mur.zip. Two builds of one source are byte-identical. Works offline.",
  },
});

const publishRoute = buildCommand<PublishFlags, [artifact?: string], MurContext>({
  loader: loading(async () => (await import("./publish.ts")).publish),
  parameters: {
    flags: {
      registry: option("local, or the URL of a registry", "url"),
      platform: option("Platform tag of a native artifact", "os-arch"),
    },
    positional: {
      kind: "tuple",
      parameters: [positional("Archive (default <name>-<version>.mur.zip of ./murmur.yaml)", "artifact")],
    },
  },
  docs: { brief: "Publish an archive to the local store or a registry" },
});

/** Flags of `mur install` as they are written. */
interface WrittenInstallFlags extends Omit<InstallFlags, "precompile"> {
  readonly "no-precompile"?: boolean;
}

const installRoute = buildCommand<WrittenInstallFlags, [reference?: string], MurContext>({
  loader: loading(async () => {
    const { install } = await import("./install.ts");
    return (context, { "no-precompile": later = false, ...flags }, reference) =>
      install(context, { ...flags, precompile: !later }, reference);
  }),
  parameters: {
    flags: {
      global: toggle("Install into ~/.murmur/artifacts instead of the project's store"),
      registry: option("local, or the URL of a registry", "url"),
      "all-platforms": toggle("Every platform's archive of <name>@<version>, into the global store"),
      "no-precompile": toggle("Translate components at the first run, not now"),
    },
    aliases: { g: "global" },
    positional: {
      kind: "tuple",
      parameters: [
        positional(
          "Archive, <name>[@<version>] or github:<owner>/<repo>@<tag>; default: all of murmur.yaml",
          "artifact",
        ),
      ],
    },
  },
  docs: { brief: "Install artifacts" },
});

const listRoute = buildCommand<ListFlags, [], MurContext>({
  loader: loading(async () => (await import("./list.ts")).list),
  parameters: {
    flags: {
      global: toggle("The global store"),
      all: toggle("The project's store, then the global one"),
      contract: option("Only artifacts with an interface that starts with this, e.g. murmur:tool", "prefix"),
    },
    aliases: { g: "global" },
  },
  docs: { brief: "List installed artifacts" },
});

const doctorRoute = buildCommand<DoctorFlags, [], MurContext>({
  loader: loading(async () => (await import("./doctor.ts")).doctor),
  parameters: { flags: { bind: option("Address the door would be bound to", "addr") } },
  docs: { brief: "Say what would keep the project's capsule from running here" },
});

const setupRoute = buildCommand<SetupFlags, [], MurContext>({
  loader: loading(async () => (await import("./setup.ts")).setup),
  parameters: { flags: { remove: toggle("Undo it") } },
  docs: { brief: "Place the containment helper for this machine; run as root (sudo mur setup)" },
});

const precompileRoute = buildCommand<PrecompileFlags, readonly string[], MurContext>({
  loader: loading(async () => {
    const { precompile } = await import("./precompile.ts");
    return (context, flags, ...archives) => precompile(context, flags, ...archives);
  }),
  parameters: {
    flags: {
      workdir: option("Nothing is stored when ~/.murmur lies inside this directory", "dir"),
      json: toggle("Print one JSON line"),
    },
    positional: { kind: "array", parameter: required("Archive", "zip"), minimum: 1 },
  },
  docs: { brief: "Translate the components of archives for this machine" },
});

const configRoutes = buildRouteMap({
  routes: {
    get: buildCommand<Record<never, never>, [key: string], MurContext>({
      loader: loading(async () => (await import("./config.ts")).configGet),
      parameters: { flags: {}, positional: { kind: "tuple", parameters: [required("Key", "key")] } },
      docs: { brief: "Print an effective value; a secret only as set or not set" },
    }),
    set: buildCommand<ConfigSetFlags, [key: string, value: string], MurContext>({
      loader: loading(async () => {
        const { configSet } = await import("./config.ts");
        return (context, flags, key, value) => configSet(context, flags, key, value);
      }),
      parameters: {
        flags: { global: toggle("Write ~/.murmur/config.yaml instead of the project's file") },
        aliases: { g: "global" },
        positional: {
          kind: "tuple",
          parameters: [required("Key", "key"), required("Value; - reads it from standard input", "value")],
        },
      },
      docs: { brief: "Set a value" },
    }),
    list: buildCommand<ConfigListFlags, [], MurContext>({
      loader: loading(async () => (await import("./config.ts")).configList),
      parameters: { flags: { json: toggle("Print JSON") } },
      docs: { brief: "List every effective value and where it comes from" },
    }),
  },
  docs: { brief: "Read and write configuration" },
});

/** Proposes values of an argument; whatever goes wrong while a key is pressed is no proposal. */
function proposing(load: () => Promise<(context: CliContext, partial: string) => string[] | Promise<string[]>>) {
  return async function (this: MurContext, partial: string): Promise<readonly string[]> {
    try {
      return await (await load())(this.mur, partial);
    } catch {
      return [];
    }
  };
}

const proposeRunning = proposing(async () => (await import("./session_proposals.ts")).runningProposals);
const proposeRecorded = proposing(async () => (await import("./session_proposals.ts")).recordedProposals);

const RUNNING_SESSION = {
  ...required("Running session: id, end of an id, or @N from the newest", "session"),
  proposeCompletions: proposeRunning,
} as const;

const WORKDIR = option("Work folder whose sessions are meant (default ./workdir)", "dir");
const RECORDED_SESSION = {
  ...required("Session, as for show", "session"),
  proposeCompletions: proposeRecorded,
} as const;
const DOOR_URL = option("Door by its address, with the token of MURMUR_DOOR_TOKEN", "host:port");

const psRoute = buildCommand<PsFlags, [], MurContext>({
  loader: loading(async () => {
    const { ps } = await import("./ps.ts");
    return (context, flags) => ps(context, flags);
  }),
  parameters: { flags: { json: toggle("Print one JSON line") } },
  docs: {
    brief: "List the capsules that run on this machine",
    fullDescription: "Asks every door whether it answers for its session, all at once and for 5 seconds at most. " +
      "Records of processes that are gone are removed and named on stderr.",
  },
});

const stopRoute = buildCommand<StopFlags, [session: string], MurContext>({
  loader: loading(async () => (await import("./stop.ts")).stop),
  parameters: {
    flags: {
      timeout: {
        kind: "parsed",
        parse: wholeNumber,
        brief: "Seconds between SIGTERM and SIGKILL (default 10; 0 escalates at once)",
        placeholder: "s",
        optional: true,
      },
    },
    positional: { kind: "tuple", parameters: [RUNNING_SESSION] },
  },
  docs: {
    brief: "End a running session",
    fullDescription: "Cancels its tasks through its door, then ends its process. Says which tasks were canceled and " +
      "what is still running because of them.",
  },
});

const watchRoute = buildCommand<WatchFlags, [session?: string], MurContext>({
  loader: loading(async () => (await import("./watch.ts")).watch),
  parameters: {
    flags: { url: DOOR_URL },
    positional: {
      kind: "tuple",
      parameters: [{
        ...positional("Running session (default @1, the newest)", "session"),
        proposeCompletions: proposeRunning,
      }],
    },
  },
  docs: {
    brief: "Follow a running session's events",
    fullDescription: "Shows what is still kept, then everything as it happens. A lost connection is opened again. " +
      "Ctrl-C ends the watch; the capsule keeps running.",
  },
});

const cancelRoute = buildCommand<CancelFlags, [first: string, second?: string], MurContext>({
  loader: loading(async () => {
    const { cancel } = await import("./cancel.ts");
    return (context, flags, first, second) => cancel(context, flags, first, second);
  }),
  parameters: {
    flags: { url: DOOR_URL },
    positional: {
      kind: "tuple",
      parameters: [
        { ...RUNNING_SESSION, brief: "Running session; left out with --url" },
        positional("Task to cancel", "task"),
      ],
    },
  },
  docs: { brief: "Cancel one task of a running session" },
});

const tokenRoute = buildCommand<Record<never, never>, [session: string, credential?: string], MurContext>({
  loader: loading(async () => {
    const { token } = await import("./token.ts");
    return (context, _flags, session, credential) => token(context, session, credential);
  }),
  parameters: {
    flags: {},
    positional: {
      kind: "tuple",
      parameters: [RUNNING_SESSION, positional("Print this credential's token alone", "credential")],
    },
  },
  docs: { brief: "Print the tokens of a running session's door" },
});

const sendRoute = buildCommand<SendFlags, [session: string, text: string], MurContext>({
  loader: loading(async () => {
    const { send } = await import("./send.ts");
    return (context, flags, session, message) => send(context, flags, session, message);
  }),
  parameters: {
    flags: {
      context: option("Context the task belongs to (default: a fresh one)", "id"),
      task: option("Task that waits for input and gets this answer", "id"),
      json: toggle("Print a JSON line per event, then the task"),
    },
    positional: {
      kind: "tuple",
      parameters: [RUNNING_SESSION, required("Message; - reads it from standard input", "text")],
    },
  },
  docs: {
    brief: "Send a task to a running session and stream its answer",
    fullDescription: "The answer goes to stdout, states and tool calls to stderr. The exit status is 0 when the task " +
      "completed or asks for input. Ctrl-C leaves the task running.",
  },
});

const filesRoute = buildCommand<FilesFlags, [session: string, path?: string], MurContext>({
  loader: loading(async () => {
    const { files } = await import("./files.ts");
    return (context, flags, session, path) => files(context, flags, session, path);
  }),
  parameters: {
    flags: {
      output: option("Write the file there instead of to stdout", "file"),
      json: toggle("Print one JSON object: the listing, or with -o what was fetched"),
    },
    aliases: { o: "output" },
    positional: {
      kind: "tuple",
      parameters: [RUNNING_SESSION, positional("File to fetch; without one they are listed", "path")],
    },
  },
  docs: {
    brief: "List or fetch the files a running session exports",
    fullDescription: "Reads exports.files through the session's door; the agent is not disturbed. A fetched file is " +
      "compared with the hash it came with.",
  },
});

const roostRoutes = buildRouteMap({
  routes: {
    status: buildCommand<RoostStatusFlags, [], MurContext>({
      loader: loading(async () => {
        const { roostStatus } = await import("./roost_status.ts");
        return (context, flags) => roostStatus(context, flags);
      }),
      parameters: {
        flags: {
          url: option("Daemon by its address (default MURMUR_ROOST_URL, else http://127.0.0.1:7700)", "base"),
          json: toggle("Print one JSON line"),
        },
      },
      docs: {
        brief: "Show what the spawn daemon counts and allows",
        fullDescription: "Asks the daemon about every running capsule of this home, as a tree of who spawned whom. " +
          "Changes nothing.",
      },
    }),
  },
  docs: { brief: "Look at the spawn daemon, mur-roost" },
});

const newRoutes = buildRouteMap({
  routes: {
    capsule: buildCommand<NewCapsuleFlags, [name: string], MurContext>({
      loader: loading(async () => (await import("./new.ts")).newCapsule),
      parameters: {
        flags: {
          provider: option("anthropic, openai, or scripted for a trial without a model", "name"),
        },
        positional: { kind: "tuple", parameters: [required("Name of capsule and directory", "name")] },
      },
      docs: { brief: "Make a capsule that runs" },
    }),
    tool: buildCommand<Record<never, never>, [name: string], MurContext>({
      loader: loading(async () => {
        const { newTool } = await import("./new.ts");
        return (context, _flags, name) => newTool(context, name);
      }),
      parameters: {
        flags: {},
        positional: { kind: "tuple", parameters: [required("Name of tool and directory", "name")] },
      },
      docs: { brief: "Make a tool in TypeScript that builds" },
    }),
    hook: buildCommand<Record<never, never>, [name: string], MurContext>({
      loader: loading(async () => {
        const { newHook } = await import("./new.ts");
        return (context, _flags, name) => newHook(context, name);
      }),
      parameters: {
        flags: {},
        positional: { kind: "tuple", parameters: [required("Name of hook and directory", "name")] },
      },
      docs: { brief: "Make a hook in TypeScript that builds" },
    }),
  },
  docs: { brief: "Make a capsule, a tool or a hook from a template" },
});

const completionsRoute = buildCommand<Record<never, never>, [shell: Shell], MurContext>({
  loader: loading(async () => {
    const { completions } = await import("./completions.ts");
    return (context, _flags, shell) => completions(context, shell);
  }),
  parameters: {
    flags: {},
    positional: {
      kind: "tuple",
      parameters: [{
        brief: SHELLS.join(", "),
        parse: buildChoiceParser(SHELLS),
        placeholder: "shell",
        proposeCompletions: (partial) => SHELLS.filter((shell) => shell.startsWith(partial)),
      }],
    },
  },
  docs: {
    brief: "Print the script that makes a shell complete mur",
    fullDescription: 'bash: eval "$(mur completions bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, behind compinit. ' +
      "fish: mur completions fish > ~/.config/fish/completions/mur.fish",
  },
});

const traceRoutes = buildRouteMap({
  routes: {
    show: buildCommand<TraceShowFlags, [session?: string], MurContext>({
      loader: loading(async () => {
        const { traceShow } = await import("./trace_show.ts");
        return (context, flags, session) =>
          traceShow(context, { ...flags, ...(session === undefined ? {} : { session }) });
      }),
      parameters: {
        flags: {
          workdir: WORKDIR,
          body: option("Print stored bytes: system, tools, response, message:<i>, or a hash", "selector"),
          turn: {
            kind: "parsed",
            parse: wholeNumber,
            brief: "Turn of the body",
            placeholder: "n",
            optional: true,
          },
        },
        positional: {
          kind: "tuple",
          parameters: [{
            ...positional("Session: id, end of an id, @N from the newest, or a path (default @1)", "session"),
            proposeCompletions: proposeRecorded,
          }],
        },
      },
      docs: { brief: "Summarise what happened in a session" },
    }),
    steps: buildCommand<TraceStepsFlags, [session?: string], MurContext>({
      loader: loading(async () => {
        const { traceSteps } = await import("./trace_steps.ts");
        return (context, flags, session) =>
          traceSteps(context, { ...flags, ...(session === undefined ? {} : { session }) });
      }),
      parameters: {
        flags: {
          workdir: WORKDIR,
          verbose: toggle("Show the inputs of tools too"),
        },
        positional: {
          kind: "tuple",
          parameters: [{
            ...positional("Session, as for show (default @1)", "session"),
            proposeCompletions: proposeRecorded,
          }],
        },
      },
      docs: { brief: "Show a session as a tree of tasks, turns and calls" },
    }),
    diff: buildCommand<TraceDiffFlags, readonly string[], MurContext>({
      loader: loading(async () => {
        const { traceDiff } = await import("./trace_diff.ts");
        return (context, flags, ...sessions) => traceDiff(context, flags, sessions);
      }),
      parameters: { flags: { workdir: WORKDIR }, positional: { kind: "array", parameter: RECORDED_SESSION } },
      docs: { brief: "Compare two sessions, before and after (default @2 @1)" },
    }),
    report: buildCommand<TraceReportFlags, readonly string[], MurContext>({
      loader: loading(async () => {
        const { traceReport } = await import("./trace_report.ts");
        return (context, flags, ...sessions) => traceReport(context, flags, sessions);
      }),
      parameters: {
        flags: {
          workdir: WORKDIR,
          last: option("Only the n newest sessions", "n"),
          since: option("Only sessions of the last <n>m, <n>h or <n>d", "age"),
        },
        positional: { kind: "array", parameter: RECORDED_SESSION },
      },
      docs: { brief: "Figures of several sessions (default: all of the work folder)" },
    }),
    rm: buildCommand<TraceRmFlags, readonly string[], MurContext>({
      loader: loading(async () => {
        const { traceRm } = await import("./trace_rm.ts");
        return (context, flags, ...sessions) => traceRm(context, flags, sessions);
      }),
      parameters: {
        flags: { workdir: WORKDIR },
        positional: { kind: "array", parameter: RECORDED_SESSION, minimum: 1 },
      },
      docs: { brief: "Remove sessions' records, their delegated children's too" },
    }),
  },
  docs: { brief: "Read traces, and remove them" },
});

const schemaRoute = buildCommand<Record<never, never>, [], MurContext>({
  loader: loading(async () => (await import("./schema.ts")).schema),
  parameters: { flags: {} },
  docs: { brief: "Print the JSON Schema of murmur.yaml for editors" },
});

const routes = buildRouteMap({
  routes: {
    new: newRoutes,
    run: runCommand,
    ps: psRoute,
    send: sendRoute,
    watch: watchRoute,
    cancel: cancelRoute,
    stop: stopRoute,
    token: tokenRoute,
    files: filesRoute,
    roost: roostRoutes,
    build: buildRoute,
    publish: publishRoute,
    install: installRoute,
    list: listRoute,
    doctor: doctorRoute,
    setup: setupRoute,
    precompile: precompileRoute,
    config: configRoutes,
    trace: traceRoutes,
    schema: schemaRoute,
    completions: completionsRoute,
  },
  docs: { brief: "Build, install and run contained AI agents" },
});

/** The commands, for whoever describes them. */
export function commandTree(): RouteMap<CommandContext> {
  return routes as unknown as RouteMap<CommandContext>;
}

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
  if (args[0] === COMPLETE_ARGUMENT) {
    await proposeWords(args.slice(1), stricliContext);
    return 0;
  }
  await run(application, args.length === 0 ? ["--help"] : args, stricliContext);
  // Without an outcome help was shown, or the parser refused the arguments.
  const status = outcome.status ?? (process.exitCode === ExitCode.Success ? 0 : USAGE_STATUS);
  return finalStatus(status, context, args[0] === "run");
}

/** Flags that neither help nor completion shows. */
const HIDDEN_FLAGS: ReadonlySet<string> = new Set(
  Object.entries(RUN_FLAGS).flatMap(([name, flag]) => "hidden" in flag ? [`--${name}`] : []),
);

/** Prints what the last of some words may become, a line each: the word, a tab, what it is for. */
async function proposeWords(words: readonly string[], context: MurContext & { readonly process: StricliProcess }) {
  const partial = words.at(-1) ?? "";
  for (const { kind, completion, brief } of await proposeCompletions(application, words, context)) {
    // Flags only for whoever began one: without other proposals the shell completes file names.
    if (kind === "argument:flag" && (!partial.startsWith("-") || HIDDEN_FLAGS.has(completion))) continue;
    context.mur.stdout.line(`${completion}\t${brief}`);
  }
}
