/**
 * `mur send`: sends one message to a running capsule and streams the task to its end (spec cli 13.7).
 *
 * The task belongs to the session: a lost connection is opened again with what was missed, and Ctrl-C leaves it running.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import { HttpError } from "../base/http_error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../base/json_value.ts";
import { readRecordProcess } from "../base/running_record.ts";
import type { CliContext } from "./context.ts";
import { type DoorClient, type DoorEvent, DoorRefusal, RPC_CODE, type RpcFailure } from "../base/door_client.ts";
import { doorError, rpcError } from "./door_error.ts";
import { followStream } from "./followed_stream.ts";
import { findServingSession } from "./running_session.ts";
import {
  isTerminal,
  parseTask,
  type StreamUpdate,
  streamUpdate,
  type TaskView,
  type TaskWord,
} from "../base/stream_events.ts";
import { ArtifactPieces, indentRest, MixedOutput, shownSoFar, toolResultText } from "./stream_view.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur send`. */
export interface SendFlags {
  readonly context?: string;
  readonly task?: string;
  readonly json?: boolean;
}

/** What the command takes of its process; tests have their own. */
export interface SendInput {
  /** All of standard input. */
  readonly stdin: ReadableStream<Uint8Array>;
  /** Calls `listener` on Ctrl-C until the returned function is called. */
  onInterrupt(listener: () => void): () => void;
}

const PROCESS_INPUT: SendInput = {
  get stdin() {
    return Deno.stdin.readable;
  },
  onInterrupt(listener) {
    Deno.addSignalListener("SIGINT", listener);
    return () => Deno.removeSignalListener("SIGINT", listener);
  },
};

/** Exit status after Ctrl-C. */
const INTERRUPTED = 130;
/** Longest message read from standard input, in bytes: what a door takes (spec door 15). */
const MAX_MESSAGE = 16 << 20;

/** Runs the command. @throws {MurError} `E-RUN-022`, `E-RUN-023`, `E-RUN-028`, `E-IO-003`. */
export async function send(
  context: CliContext,
  flags: SendFlags,
  address: string,
  text: string,
  input: SendInput = PROCESS_INPUT,
): Promise<number> {
  const message = text === "-" ? await readMessage(input.stdin) : text;
  if (message.trim() === "") throw new UsageError("the message is empty");
  const { id, record, door } = await findServingSession(address, context);

  const given = new AbortController();
  const ignoreInterrupts = input.onInterrupt(() => given.abort());
  const view = flags.json ? new JsonView(context) : new TextView(context);
  try {
    const first = await open(door, id, flags, message, given.signal);
    const events = followStream({
      first,
      reopen(lastEventId, signal) {
        // A new task's events may all be replayed; of one that is continued, only those behind the last seen.
        const from = lastEventId ?? (flags.task ? null : 0);
        view.reopened(from !== null);
        return resubscribe(door, id, view.taskId, from, signal);
      },
      alive: () => readRecordProcess(record).state === "same",
      lost: (reason) => view.notice(`mur: the stream was lost (${reason}); opening it again`),
      bounds: context.bounds,
      signal: given.signal,
      name: id,
    });
    for await (const { response } of events) {
      const ended = view.show(streamUpdate(response), response);
      if (ended === null) continue;
      const status = await view.finish(ended, () => stillHeldTask(door, id, view.taskId));
      if (ended.state === "input-required" && !flags.json) {
        view.notice(`mur: the task waits; answer it with: mur send ${id} --task ${view.taskId} "…"`);
      }
      return status;
    }
  } catch (error) {
    if (!given.signal.aborted) throw error;
  } finally {
    ignoreInterrupts();
  }
  view.notice(
    view.taskId === null
      ? `mur: if the message was taken, its task goes on; mur watch ${id} shows it`
      : `mur: the task goes on; to cancel it: mur cancel ${id} ${view.taskId}`,
  );
  return INTERRUPTED;
}

async function readMessage(stdin: ReadableStream<Uint8Array>): Promise<string> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const piece of stdin) {
    size += piece.length;
    if (size > MAX_MESSAGE) throw new MurError("E-IO-003", `the message is longer than ${MAX_MESSAGE} bytes`);
    pieces.push(new Uint8Array(piece));
  }
  try {
    const bytes = new Uint8Array(await new Blob(pieces).arrayBuffer());
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "");
  } catch {
    throw new MurError("E-IO-003", "the message is not UTF-8");
  }
}

/** Sends the message. Nothing is sent twice: whether a broken connection took it, nobody can tell. */
async function open(
  door: DoorClient,
  id: string,
  flags: SendFlags,
  text: string,
  signal: AbortSignal,
): Promise<AsyncGenerator<DoorEvent, void>> {
  const message: JsonObject = {
    messageId: newId("msg"),
    role: "ROLE_USER",
    parts: [{ text, mediaType: "text/plain" }],
    ...(flags.context ? { contextId: flags.context } : {}),
    ...(flags.task ? { taskId: flags.task } : {}),
  };
  const answer = await door.stream("SendStreamingMessage", { message }, { signal }).catch((error) => {
    throw doorError(error, id);
  });
  if (answer.ok) return answer.events;
  throw sendError(answer.failure, id, flags);
}

function sendError(failure: RpcFailure, id: string, flags: SendFlags): MurError {
  switch (failure.code) {
    case RPC_CODE.methodNotFound:
      return new MurError("E-IO-003", `${id} takes no tasks at its door`, {
        hint: "lifecycle.task_acceptance in its murmur.yaml must be single or queue",
      });
    case RPC_CODE.taskNotFound:
      return new MurError("E-IO-003", `${id} holds no task '${flags.task ?? ""}'`);
    case RPC_CODE.unsupported:
      return new MurError("E-IO-003", `${id} takes no message for task '${flags.task ?? ""}': ${failure.message}`, {
        hint: "only a task that waits for input is answered; leave --task out to start another",
      });
    default:
      return rpcError(failure, `SendStreamingMessage at ${id}`);
  }
}

/** The task's stream once more, or the task itself as the one event left when it has ended meanwhile. */
async function resubscribe(
  door: DoorClient,
  id: string,
  taskId: string | null,
  lastEventId: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<DoorEvent, void>> {
  if (taskId === null) {
    throw new MurError("E-IO-003", `the connection to the door of ${id} was lost before it named the task`, {
      hint: `mur watch ${id} shows whether it was taken`,
    });
  }
  try {
    const answer = await door.stream("SubscribeToTask", { id: taskId }, {
      signal,
      ...(lastEventId === null ? {} : { lastEventId }),
    });
    if (answer.ok) return answer.events;
    if (answer.failure.code !== RPC_CODE.unsupported) throw rpcError(answer.failure, `SubscribeToTask at ${id}`);
  } catch (error) {
    throw error instanceof DoorRefusal && error.status !== 503 ? doorError(error, id) : error;
  }
  const task = await getTask(door, id, taskId);
  return (async function* () {
    yield { id: null, response: { task: task.raw } };
  })();
}

async function getTask(door: DoorClient, id: string, taskId: string): Promise<TaskView> {
  const answer = await door.call("GetTask", { id: taskId });
  if (!answer.ok) throw rpcError(answer.failure, `GetTask at ${id}`);
  const task = parseTask(answer.result);
  if (task === null) throw new MurError("E-IO-003", `the door of ${id} answered GetTask with what is no task`);
  return task;
}

/** The task as the door holds it; `null` when there is no door any more, as after the last task of a session. */
async function stillHeldTask(door: DoorClient, id: string, taskId: string | null): Promise<TaskView | null> {
  if (taskId === null) return null;
  try {
    return await getTask(door, id, taskId);
  } catch (error) {
    if (error instanceof HttpError || error instanceof DoorRefusal || error instanceof MurError) return null;
    throw error;
  }
}

/** How a task came to its end, or to wait for its caller. */
interface Ended {
  readonly state: TaskWord;
  /** The task itself, when the event brought it. */
  readonly task: TaskView | null;
}

/** Shows the events of one task. */
abstract class TaskStream {
  protected readonly context: CliContext;
  #taskId: string | null = null;
  #replayed = true;

  constructor(context: CliContext) {
    this.context = context;
  }

  /** Id of the task, once the door has named it. */
  get taskId(): string | null {
    return this.#taskId;
  }

  /** The stream is opened again, with or without what was missed. */
  reopened(replayed: boolean): void {
    this.#replayed = replayed;
  }

  /** Shows an event; answers how the task ended with it, `null` while it goes on. */
  show(update: StreamUpdate, response: JsonObject): Ended | null {
    this.print(update, response);
    if (update.kind === "task") {
      this.#taskId = update.task.id;
      const { state } = update.task;
      // Without a replay the snapshot is all there is to tell that the task waits.
      const waits = state === "input-required" && !this.#replayed;
      return isTerminal(state) || waits ? { state, task: update.task } : null;
    }
    if (update.kind !== "status") return null;
    return update.final || update.state === "input-required" ? { state: update.state, task: null } : null;
  }

  protected abstract print(update: StreamUpdate, response: JsonObject): void;

  /** Prints what is left to print and answers the exit status. */
  abstract finish(ended: Ended, getTask: () => Promise<TaskView | null>): Promise<number>;

  abstract notice(text: string): void;

  protected statusOf({ state }: Ended): number {
    return state === "completed" || state === "input-required" ? 0 : 1;
  }
}

/** One line per event, then the task. */
class JsonView extends TaskStream {
  readonly #pieces = new ArtifactPieces();
  /** What the events said of the task, for a door that is gone before it can be asked. */
  #seen: { contextId: string; status: JsonValue; artifact: JsonObject | null } | null = null;
  #response: string | null = null;

  protected print(update: StreamUpdate, response: JsonObject): void {
    this.context.stdout.line(JSON.stringify(response));
    if (update.kind === "response") {
      this.#response = this.#pieces.add("response", update, update.text) ?? this.#response;
    } else if (update.kind === "status" && isJsonObject(response.statusUpdate)) {
      const text = update.state === "completed"
        ? this.#response
        : update.state === "input-required"
        ? update.message
        : null;
      const name = update.state === "completed" ? "response" : "prompt";
      this.#seen = {
        contextId: update.contextId,
        status: response.statusUpdate.status ?? null,
        artifact: text === null ? null : { artifactId: name, name, parts: [{ text, mediaType: "text/plain" }] },
      };
    }
  }

  async finish(ended: Ended, getTask: () => Promise<TaskView | null>): Promise<number> {
    // A task refused for room is not kept: its snapshot is all there is (spec door 8.4).
    const task = (ended.task ?? await getTask())?.raw ?? {
      id: this.taskId ?? "",
      contextId: this.#seen?.contextId ?? "",
      status: this.#seen?.status ?? null,
      ...(this.#seen?.artifact ? { artifacts: [this.#seen.artifact] } : {}),
    };
    this.context.stdout.line(JSON.stringify({ task }));
    return this.statusOf(ended);
  }

  notice(text: string): void {
    this.context.stderr.line(text);
  }
}

/** Text on stdout; states and tool calls on stderr. */
class TextView extends TaskStream {
  readonly #out: MixedOutput;
  readonly #pieces = new ArtifactPieces();
  /** Text shown since the latest turn began. */
  #shown = "";
  #response: string | null = null;
  #prompt: string | null = null;

  constructor(context: CliContext) {
    super(context);
    this.#out = new MixedOutput(context.stdout);
  }

  protected print(update: StreamUpdate): void {
    switch (update.kind) {
      case "task":
        if (isTerminal(update.task.state)) this.#state(update.task.state, update.task.message);
        return;
      case "text":
        this.#out.text(update.text);
        this.#shown = shownSoFar(this.#shown, update.text);
        if (update.final) this.#out.endLine();
        return;
      case "tool-result": {
        const content = this.#pieces.add(update.artifactId, update, update.content);
        if (content !== null) this.notice(toolResultText(update, content));
        return;
      }
      case "response":
        this.#response = this.#pieces.add("response", update, update.text) ?? this.#response;
        return;
      case "status":
        if (update.state === "working") this.#shown = "";
        if (update.state === "input-required") this.#prompt = update.message;
        this.#state(update.state, update.final && update.state === "completed" ? null : update.message);
        return;
      case "lagged":
        this.notice(`[lagged]  ${update.missed} event(s) were lost: this reader was too slow`);
        return;
      case "gap":
        this.notice(`[gap]  events before ${update.firstAvailableId} are no longer kept`);
        return;
      case "connection-ack":
      case "capsule-closed":
      case "other":
        return;
    }
  }

  #state(state: TaskWord, message: string | null): void {
    // A prompt is the result and stands on stdout.
    const text = message === null || state === "input-required" ? "" : `  ${indentRest(message)}`;
    this.notice(`[${state}]${text}`);
  }

  async finish(ended: Ended, getTask: () => Promise<TaskView | null>): Promise<number> {
    if (ended.state === "completed") {
      const response = this.#response ?? (ended.task ?? await getTask())?.response ?? null;
      if (response !== null && response.trim() !== this.#shown.trim()) {
        this.#out.endLine();
        this.#out.text(response);
      }
    } else if (ended.state === "input-required") {
      this.#out.endLine();
      this.#out.text(this.#prompt ?? ended.task?.prompt ?? "");
    }
    this.#out.endLine();
    return this.statusOf(ended);
  }

  notice(text: string): void {
    // On a terminal both streams share the line.
    if (this.context.stdout.isTerminal) this.#out.endLine();
    this.context.stderr.line(text);
  }
}
