/**
 * The imports of hooks on the host's side, and their events and answers between JSON and the form the glue code takes:
 * absent is `null` in JSON and `undefined` there, `u64` a number and a `bigint` (spec components 2.4, 2.5).
 *
 * @module
 */
import { decodeText, encodeText } from "./murmur.ts";
import type { Pipe } from "./pipe.ts";
import { Refusal } from "./refusal.ts";

/** Fields of type `u64` in events; no other field has one of these names. */
const U64_FIELDS: ReadonlySet<string> = new Set([
  "inputBytes",
  "budgetTokens",
  "contextWindow",
  "priorTokens",
  "inputTokens",
  "outputTokens",
  "outputBytes",
  "durationMs",
  "stdoutBytes",
  "stderrBytes",
  "sessionTokens",
  "totalInputTokens",
  "totalOutputTokens",
]);

/** An event, or the answer to an import, as the glue code takes it. */
export function toWitEvent(value: unknown): unknown {
  if (value === null) return undefined;
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(toWitEvent);
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      typeof member === "number" && U64_FIELDS.has(name) ? BigInt(member) : toWitEvent(member),
    ]),
  );
}

const FUNCTIONS = [
  "onStage",
  "onSessionStart",
  "onTaskStart",
  "onInference",
  "onToolCall",
  "onShell",
  "onCompaction",
  "onTaskEnd",
  "onSessionEnd",
];

/** What no text is long enough for. */
const FAR = BigInt(Number.MAX_SAFE_INTEGER);

function numberOf(value: bigint): number {
  return Number(value > FAR ? FAR : value);
}

/** The interfaces. Whether a component may import one is judged before it is loaded. */
export function hookInterfaces(pipe: Pipe) {
  const ask = (op: string, value: unknown): unknown => {
    const { header, body } = pipe.request(op, {}, encodeText(value));
    if (typeof header.error === "string") throw new Refusal(header.error);
    return decodeText(body);
  };
  return {
    "murmur:hook/lifecycle": Object.fromEntries(FUNCTIONS.map((name) => [name, (): never => {
      throw new Error("murmur:hook/lifecycle is imported for its types; a hook does not call itself");
    }])),
    "murmur:runtime/inference": {
      runInference: (request: unknown) => toWitEvent(ask("run-inference", request)),
    },
    "murmur:runtime/tokens": {
      count(text: string): bigint {
        const { header, body } = pipe.request("count-tokens", {}, encodeText(text));
        // The function has no error; without an answer the guest cannot go on.
        if (typeof header.error === "string") throw new Error(header.error);
        return BigInt(decodeText(body) as number);
      },
    },
    "murmur:task-io/read": {
      inputLen: (form: string) => BigInt(ask("task-io", { read: "input-len", form }) as number),
      readInput: (form: string, offset: bigint, maxBytes: bigint) =>
        ask("task-io", { read: "input", form, offset: numberOf(offset), maxBytes: numberOf(maxBytes) }),
      outputLen: () => BigInt(ask("task-io", { read: "output-len" }) as number),
      readOutput: (offset: bigint, maxBytes: bigint) =>
        ask("task-io", { read: "output", offset: numberOf(offset), maxBytes: numberOf(maxBytes) }),
    },
    "murmur:conversation/read": {
      readMessages: (cursor: string | undefined, limit: number) =>
        toWitEvent(ask("read-messages", { cursor: cursor ?? null, limit })),
    },
  };
}
