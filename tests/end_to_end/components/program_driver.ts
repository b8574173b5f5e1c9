/**
 * A model driver for tests: the task is its program, a JSON object `{"turns": […]}`, and it does what the turn says, be it
 * wrong. It is built as a tool, since a real driver's library would not let it answer nonsense.
 *
 * @module
 */
import { environment } from "murmur/environment";
import { files } from "murmur/files";
import { defineTool, type ToolOutcome } from "murmur/tool";

/** What one turn does; members are carried out in this order. */
interface Turn {
  readonly delayMs?: number;
  readonly thinking?: readonly string[];
  readonly chunks?: readonly string[];
  /** Emits so many chunks of so many characters. */
  readonly flood?: { readonly count: number; readonly size: number };
  /** Writes a line to standard error. */
  readonly log?: string;
  /** Never returns. */
  readonly loop?: boolean;
  readonly throws?: string;
  /** Answers with this text as it is. */
  readonly raw?: string;
  /** Answers with an outcome as it is; `data` may be anything. */
  readonly outcome?: ToolOutcome;
  /** A final answer of so many characters. */
  readonly letters?: number;
  /** A final answer holding, as JSON, what is asked for. */
  readonly show?: "request" | "results" | "environment" | "files";
  /** Tool calls; ids are made where none is given. */
  readonly calls?: readonly { readonly id?: string; readonly name: string; readonly input?: unknown }[];
  readonly text?: string;
  readonly stop?: string;
  readonly usage?: unknown;
  readonly metadata?: Readonly<Record<string, string>>;
}

interface Message {
  readonly role: string;
  readonly is_error?: boolean;
  readonly content: readonly { readonly type: string; readonly text?: string }[];
}

interface Request {
  readonly messages: readonly Message[];
  readonly continuation_id?: string;
}

const textOf = (message: Message) => message.content.map(({ text }) => text ?? "").join("\n");

/** The task without the fence that a task from the door comes in; only a driver for tests may look behind it. */
function unfenced(task: string): string {
  return /^<untrusted-content [^>]*>\n([^]*)\n<\/untrusted-content>$/.exec(task)?.[1] ?? task;
}

function program(task: string): readonly Turn[] {
  try {
    return (JSON.parse(unfenced(task)) as { readonly turns: readonly Turn[] }).turns;
  } catch {
    return [{ text: `you said: ${task}` }];
  }
}

/** The turn to play: of the last user message, as many as were answered since; a continued request brings its number. */
function turnOf(request: Request): { readonly turn: Turn; readonly index: number } {
  const at = request.messages.findLastIndex(({ role }) => role === "user");
  const since = request.messages.slice(at + 1);
  const index = since.filter(({ role }) => role === "assistant").length;
  if (at >= 0) return { turn: program(textOf(request.messages[at]!))[index] ?? { text: "the program is over" }, index };
  return { turn: { show: "request" }, index };
}

function shown(what: NonNullable<Turn["show"]>, request: Request): unknown {
  switch (what) {
    case "request":
      return request;
    case "results":
      return request.messages.filter(({ role }) => role === "tool").map((message) => ({
        text: textOf(message),
        error: message.is_error,
      }));
    case "environment":
      return environment();
    case "files":
      return files.list(".").map(({ name }) => name).sort();
  }
}

export default defineTool<Request & Record<string, unknown>>({
  async run(request, context) {
    const { turn, index } = turnOf(request);
    if (turn.delayMs !== undefined) await new Promise<void>((resolve) => setTimeout(resolve, turn.delayMs));
    for (const piece of turn.thinking ?? []) context.emitThinkingChunk(piece);
    for (const piece of turn.chunks ?? []) context.emitChunk(piece);
    if (turn.flood !== undefined) {
      const piece = "x".repeat(turn.flood.size);
      for (let i = 0; i < turn.flood.count; i++) context.emitChunk(piece);
    }
    if (turn.log !== undefined) console.error(turn.log);
    while (turn.loop === true);
    if (turn.throws !== undefined) throw new Error(turn.throws);
    if (turn.raw !== undefined) return turn.raw;
    if (turn.outcome !== undefined) return turn.outcome;
    const text = turn.letters !== undefined
      ? "a".repeat(turn.letters)
      : turn.show !== undefined
      ? JSON.stringify(shown(turn.show, request))
      : turn.text;
    const calls = (turn.calls ?? []).map((call, position) => ({
      type: "tool_call",
      id: call.id ?? `c${index}_${position}`,
      name: call.name,
      input: call.input ?? {},
    }));
    return {
      data: {
        stop_reason: turn.stop ?? (calls.length > 0 ? "tool_call" : "end_turn"),
        content: [...(text === undefined ? [] : [{ type: "text", text }]), ...calls],
        ...(turn.usage === undefined ? {} : { usage: turn.usage }),
      },
      ...(turn.metadata === undefined ? {} : { metadata: turn.metadata }),
    };
  },
});
