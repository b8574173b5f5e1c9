/**
 * A model driver that plays a script. What it answers stands in the capsule's `inference.driver.config`.
 *
 * @module
 */
import {
  type AssistantBlock,
  defineDriver,
  type DriverContext,
  type DriverRequest,
  isText,
  type Message,
} from "murmur/driver";
import { env } from "murmur/environment";
import { fillText, fillValue, type PlaceholderValues } from "./placeholders.ts";
import { readScripts, type Script, type ScriptedTurn, ScriptError } from "./script.ts";

function textOf(message: Message): string {
  return message.content.map((block) => (isText(block) ? block.text : "")).join("\n");
}

/** Where in which script a request stands. */
export interface Position {
  readonly turn: ScriptedTurn;
  /** Number of the turn in its script, from 0. */
  readonly index: number;
  /** Number of the script, from 0. */
  readonly script: number;
  /** The user message; empty when the runtime sent only what came after it. */
  readonly task: string;
  readonly results: readonly string[];
}

/**
 * Finds the turn that answers a request: the script of its last user message, and the number of answers since then. A
 * request that continues carries both in the id it was given (see {@linkcode continuationId}).
 *
 * @throws {ScriptError} When the script has no such turn.
 */
export function findPosition(scripts: readonly Script[], request: DriverRequest): Position {
  const start = request.messages.findLastIndex((message) => message.role === "user");
  const opening = request.messages[start];
  const since = request.messages.slice(start + 1);
  const results = since.filter((message) => message.role === "tool").map(textOf);
  let task = "";
  let script: number;
  let index: number;
  if (opening === undefined) {
    const continued = /:(\d+):(\d+)$/.exec(request.continuation_id ?? "");
    if (continued === null) throw new ScriptError("there is no user message to answer");
    script = Number(continued[1]);
    index = Number(continued[2]);
  } else {
    task = textOf(opening);
    script = scripts.findIndex(({ when }) => when === null || task.includes(when));
    index = since.filter((message) => message.role === "assistant").length;
  }
  const found = scripts[script];
  if (found === undefined) throw new ScriptError(`no script is written for: ${task.slice(0, 200)}`);
  const turn = found.turns[index];
  if (turn === undefined) {
    throw new ScriptError(`the script has ${found.turns.length} turns and the task asks for turn ${index + 1}`);
  }
  return { turn, index, script, task, results };
}

/** The id after which the runtime sends only what is new. */
export function continuationId(configured: string, { script, index }: Position): string {
  return `${configured}:${script}:${index + 1}`;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function stream(pieces: readonly string[], delayMs: number, emit: (text: string) => void): Promise<void> {
  for (const piece of pieces) {
    if (delayMs > 0) await pause(delayMs);
    if (piece !== "") emit(piece);
  }
}

async function play(request: DriverRequest, context: DriverContext) {
  const config: unknown = JSON.parse(env("MURMUR_INFERENCE_DRIVER_CONFIG") ?? "null");
  const position = findPosition(readScripts(config), request);
  const { turn, index, task, results } = position;
  const values: PlaceholderValues = { task, model: request.model, results };
  const fill = (text: string) => fillText(text, values);
  if (turn.delayMs > 0) await pause(turn.delayMs);

  const text = turn.text === null ? null : fill(turn.text);
  await stream(turn.thinking.map(fill), turn.chunkDelayMs, (piece) => context.emitThinkingChunk(piece));
  const chunks = turn.chunks?.map(fill) ?? (text === null ? [] : [text]);
  await stream(chunks, turn.chunkDelayMs, (piece) => context.emitChunk(piece));

  const content: AssistantBlock[] = [];
  if (text !== null) content.push({ type: "text", text });
  turn.toolCalls.forEach((call, position) =>
    content.push({
      type: "tool_call",
      id: call.id ?? `call_${index + 1}_${position + 1}`,
      name: call.name,
      input: fillValue(call.input, values),
    })
  );
  const usual = turn.toolCalls.length > 0 ? "tool_call" as const : "end_turn" as const;
  return {
    stop_reason: turn.stopReason ?? (turn.error !== null ? "error" as const : usual),
    content,
    ...(turn.usage === null ? {} : { usage: turn.usage }),
    ...(turn.error === null ? {} : { error: fill(turn.error) }),
    ...(turn.continuationId === null ? {} : { continuationId: continuationId(turn.continuationId, position) }),
  };
}

export default defineDriver({ infer: play });
