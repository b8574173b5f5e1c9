/**
 * Calling the door of a capsule that runs in the background.
 *
 * @module
 */
import type { AgentProject, AgentRun } from "./agent_project.ts";
import type { MurOptions } from "./mur_process.ts";
import { startRun } from "./serving_run.ts";

/** A JSON-RPC answer. */
export interface RpcAnswer {
  readonly jsonrpc: string;
  readonly id: unknown;
  // deno-lint-ignore no-explicit-any
  readonly result?: any;
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data?: readonly {
      readonly "@type": string;
      readonly reason: string;
      readonly domain: string;
      readonly metadata: Readonly<Record<string, string>>;
    }[];
  };
}

/** One server-sent event; `comment` when it is none. */
export interface SentEvent {
  readonly id: string | null;
  readonly event: string | null;
  // deno-lint-ignore no-explicit-any
  readonly data: any;
}

/** A door that can be called. */
export interface DoorCalls {
  /** `http://localhost:<port>`. */
  readonly url: string;
  readonly port: number;
  /** Calls a method. */
  rpc(method: string, params?: unknown, headers?: Readonly<Record<string, string>>): Promise<RpcAnswer>;
  /** Calls a method that streams. */
  stream(method: string, params?: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Sends a request as it is. */
  request(path: string, init?: RequestInit): Promise<Response>;
  /** Sends bytes over a connection of its own and gives what the door answers until its answer is whole, or it falls silent. */
  raw(text: string, waitMs?: number): Promise<string>;
}

/** A running session whose door is called. */
export interface DoorSession extends DoorCalls, AsyncDisposable {
  readonly pid: number;
  readonly records: string;
  readonly sessionId: string;
  /** Waits until the trace has a line of this kind. */
  traced(eventType: string): Promise<void>;
  /** Sends `SIGTERM` and waits for the end. */
  stop(): Promise<AgentRun>;
  /** Waits for its own end. */
  finish(): Promise<AgentRun>;
}

/** How long an answer's first byte is waited for. */
const FIRST_BYTE_MS = 10_000;

let requests = 0;

/** Calls to a door at a port of this machine. */
export function doorCalls(port: number): DoorCalls {
  const url = `http://localhost:${port}`;
  const post = (method: string, params: unknown, headers: Readonly<Record<string, string>>) =>
    fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "a2a-version": "1.0", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: ++requests, method, ...(params === undefined ? {} : { params }) }),
    });
  return {
    url,
    port,
    request: (path, init) => fetch(`${url}${path}`, init),
    stream: (method, params, headers = {}) => post(method, params, headers),
    rpc: async (method, params, headers = {}) => await (await post(method, params, headers)).json() as RpcAnswer,
    async raw(text, waitMs = 500) {
      using connection = await Deno.connect({ hostname: "127.0.0.1", port });
      // The door may answer before it has taken everything.
      const writer = connection.writable.getWriter();
      writer.write(new TextEncoder().encode(text)).catch(() => {});
      const decoder = new TextDecoder();
      let got = "";
      for (const buffer = new Uint8Array(65_536); !isWhole(got);) {
        let timer: ReturnType<typeof setTimeout> | undefined;
        // A busy machine may take its time for the first byte.
        const patience = got === "" ? Math.max(waitMs, FIRST_BYTE_MS) : waitMs;
        const silence = new Promise<null>((resolve) => timer = setTimeout(() => resolve(null), patience));
        const count = await Promise.race([connection.read(buffer).catch(() => null), silence]);
        clearTimeout(timer);
        if (count === null) break;
        got += decoder.decode(buffer.subarray(0, count), { stream: true });
      }
      return got;
    },
  };
}

/** Whether an answer is there with the whole body it announces. */
function isWhole(answer: string): boolean {
  const end = answer.indexOf("\r\n\r\n");
  if (end >= 0 && /^HTTP\/1\.1 204 /.test(answer)) return true;
  const length = /^content-length: (\d+)$/im.exec(answer.slice(0, Math.max(end, 0)))?.[1];
  return length !== undefined && new TextEncoder().encode(answer.slice(end + 4)).length >= Number(length);
}

/** Starts a capsule without a task and waits until its door serves. */
export async function startSession(
  project: AgentProject,
  args: readonly string[] = [],
  options: Pick<MurOptions, "env" | "main" | "under"> = {},
): Promise<DoorSession> {
  const run = await startRun(project, null, args, options);
  let finished: Promise<AgentRun> | undefined;
  const finish = () => finished ??= run.finish();
  const kill = (signal: Deno.Signal) => {
    try {
      run.kill(signal);
    } catch {
      // It has ended.
    }
  };
  return {
    ...doorCalls(Number(run.url.slice(run.url.lastIndexOf(":") + 1))),
    pid: run.pid,
    records: run.records,
    sessionId: run.records.slice(run.records.lastIndexOf("/") + 1),
    traced: (eventType) => run.traced(eventType),
    finish,
    stop() {
      kill("SIGTERM");
      return finish();
    },
    async [Symbol.asyncDispose]() {
      kill("SIGKILL");
      await finish();
    },
  };
}

/** Parameters of a message with one text part; an object is a program for the driver of the tests. */
export function message(text: string | object, more: object = {}, configuration?: object): object {
  return {
    message: {
      messageId: crypto.randomUUID(),
      role: "ROLE_USER",
      parts: [{ text: typeof text === "string" ? text : JSON.stringify(text) }],
      ...more,
    },
    ...(configuration === undefined ? {} : { configuration }),
  };
}

/** Events of a stream, one by one; comments are given with `event: ":"`. */
export async function* sentEvents(response: Response): AsyncGenerator<SentEvent, void, undefined> {
  let text = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name: string) =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? null;
      if (lines[0]!.startsWith(":")) {
        yield { id: null, event: ":", data: lines[0]!.slice(1) };
        continue;
      }
      yield { id: field("id"), event: field("event"), data: JSON.parse(field("data")!) };
    }
  }
}

/** Every event of a stream until it ends. */
export async function allEvents(response: Response): Promise<SentEvent[]> {
  const events: SentEvent[] = [];
  for await (const event of sentEvents(response)) events.push(event);
  return events;
}
