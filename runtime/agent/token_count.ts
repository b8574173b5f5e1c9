/**
 * Token counts of requests and answers (spec session 9.3): `cl100k_base`, counted in a worker, never on the event loop.
 *
 * The worker's code is the source text of `bpeCounter`, so it needs no module of its own: it runs the same from source and
 * from one bundled file. A bundler may rename and minify, but not wrap functions as esbuild's `keepNames` does. The worker
 * starts with the first count and is let go of when nothing was counted for a while. Where none can be had, a text counts
 * as a quarter of its bytes.
 *
 * @module
 */
import { reasonOf } from "../../base/errors.ts";
import { bpeCounter, LONGEST_PIECE } from "./bpe_counter.ts";
import { canonicalJson } from "./canonical_json.ts";
import type { DriverPayload } from "./driver_protocol.ts";
import type { Message } from "./message.ts";

/** An idle worker is let go of after this many milliseconds. */
const IDLE_MS = 20_000;

/** Counts when no tokenizer is to be had: a quarter of the UTF-8 bytes, rounded up. */
export function estimatedTokens(text: string): number {
  return Math.ceil(new TextEncoder().encode(text).length / 4);
}

/** What the worker runs: `bpeCounter` by its own source, fed with the packed table first. */
function workerSource(): string {
  return `const bpeCounter = ${bpeCounter.toString()};
let count;
self.onmessage = async ({ data }) => {
  if (data instanceof Uint8Array) {
    const inflated = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    count = bpeCounter(new Uint8Array(await new Response(inflated).arrayBuffer()), ${LONGEST_PIECE});
    self.postMessage("ready");
  } else self.postMessage(data.map((text) => count(text)));
};`;
}

/** Starts a worker that is ready to count. Rejects when there can be none. */
async function startWorker(): Promise<Worker> {
  const { CL100K_TABLE } = await import("./cl100k_table.ts");
  const worker = new Worker(`data:text/javascript,${encodeURIComponent(workerSource())}`, { type: "module" });
  try {
    await answerOf(worker, Uint8Array.fromBase64(CL100K_TABLE));
  } catch (cause) {
    worker.terminate();
    throw cause;
  }
  return worker;
}

/** One question to the worker and its answer. */
function answerOf(worker: Worker, question: Uint8Array<ArrayBuffer> | readonly string[]): Promise<unknown> {
  return new Promise((resolve, reject) => {
    worker.onmessage = (event) => resolve(event.data);
    worker.onerror = (event) => {
      // Otherwise it is raised again in this thread and ends the program.
      event.preventDefault();
      reject(new Error(event.message));
    };
    worker.onmessageerror = () => reject(new Error("the message could not be read"));
    worker.postMessage(question, question instanceof Uint8Array ? [question.buffer] : []);
  });
}

/** How a counter is made; tests hand in a start that fails. */
export interface TokenCounterOptions {
  readonly start?: () => Promise<Worker>;
  /** The worker is not started before this settles: starting one holds the thread. */
  readonly startAfter?: Promise<unknown>;
  /** Takes one line when counts have become estimates. */
  readonly report?: (text: string) => void;
  readonly idleMs?: number;
}

/** Counts for one session. */
export class TokenCounter {
  readonly #start: () => Promise<Worker>;
  readonly #startAfter: Promise<unknown> | null;
  readonly #report: (text: string) => void;
  readonly #idleMs: number;
  readonly #messageCounts = new WeakMap<Message, number>();
  /** Counts of the last request's parts that are no messages; the same from turn to turn. */
  #partCounts = new Map<string, number>();
  #worker: Promise<Worker> | null = null;
  #unavailable = false;
  #closed = false;
  #idle: ReturnType<typeof setTimeout> | undefined;
  /** Questions wait for each other: a worker answers in order and its answers carry no name. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: TokenCounterOptions = {}) {
    this.#start = options.start ?? startWorker;
    this.#startAfter = options.startAfter ?? null;
    this.#report = options.report ?? (() => {});
    this.#idleMs = options.idleMs ?? IDLE_MS;
  }

  /** Tokens of one text. */
  async text(text: string): Promise<number> {
    const [count] = await this.#count([text]);
    return count!;
  }

  /**
   * Tokens of a request: the sum over each message, the tools, the system prompt and the rest, each as compact JSON with
   * sorted keys. A message's count is kept with it, so a turn counts only what is new.
   *
   * @param messages The whole history, never the tail that a continuation sends.
   */
  async request(
    payload: Pick<DriverPayload, "toolsJson" | "rest">,
    messages: readonly Message[],
    system: string,
  ): Promise<number> {
    const parts = [
      canonicalJson(JSON.parse(payload.toolsJson)),
      JSON.stringify(system),
      canonicalJson(payload.rest),
    ];
    const newParts = parts.filter((part) => !this.#partCounts.has(part));
    const newMessages = [...new Set(messages)].filter((message) => !this.#messageCounts.has(message));
    const counts = await this.#count([...newParts, ...newMessages.map(countedJson)]);
    const partCounts = new Map(this.#partCounts);
    newParts.forEach((part, index) => partCounts.set(part, counts[index]!));
    newMessages.forEach((message, index) => this.#messageCounts.set(message, counts[newParts.length + index]!));
    this.#partCounts = new Map(parts.map((part) => [part, partCounts.get(part)!]));
    return [...this.#partCounts.values(), ...messages.map((message) => this.#messageCounts.get(message)!)]
      .reduce((total, count) => total + count, 0);
  }

  /** Tokens of each message; counted once and kept with it. */
  async each(messages: readonly Message[]): Promise<readonly number[]> {
    const fresh = [...new Set(messages)].filter((message) => !this.#messageCounts.has(message));
    const counts = await this.#count(fresh.map(countedJson));
    fresh.forEach((message, index) => this.#messageCounts.set(message, counts[index]!));
    return messages.map((message) => this.#messageCounts.get(message)!);
  }

  /** Lets the worker go. Later counts are estimates. */
  close(): void {
    this.#closed = true;
    this.#release();
  }

  #count(texts: readonly string[]): Promise<readonly number[]> {
    const answer = this.#last.then(() => this.#ask(texts));
    this.#last = answer;
    return answer;
  }

  /** Never rejects: what goes wrong turns counts into estimates. */
  async #ask(texts: readonly string[]): Promise<readonly number[]> {
    if (texts.length === 0) return [];
    if (this.#worker === null && this.#startAfter !== null) await this.#startAfter;
    if (!this.#closed && !this.#unavailable) {
      clearTimeout(this.#idle);
      try {
        this.#worker ??= this.#start();
        const worker = await this.#worker;
        const counts = await answerOf(worker, texts);
        if (Array.isArray(counts) && counts.length === texts.length) return counts;
        throw new Error("unexpected answer");
      } catch (cause) {
        this.#unavailable = true;
        this.#report(`token counts are estimates from here on: the tokenizer is not available: ${reasonOf(cause)}`);
        this.#release();
      } finally {
        if (!this.#closed && !this.#unavailable) {
          this.#idle = setTimeout(() => this.#release(), this.#idleMs);
          Deno.unrefTimer(this.#idle);
        }
      }
    }
    return texts.map(estimatedTokens);
  }

  #release(): void {
    clearTimeout(this.#idle);
    this.#worker?.then((worker) => worker.terminate(), () => {});
    this.#worker = null;
  }
}

/** A message as it is counted: without its envelope, keys sorted. */
function countedJson(message: Message): string {
  const { role, content } = message;
  return canonicalJson(
    message.role === "tool"
      ? { role, content, tool_call_id: message.tool_call_id, is_error: message.is_error }
      : { role, content },
  );
}
