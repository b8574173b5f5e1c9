/**
 * A door that speaks the wire format and does what a test says: agent card, JSON-RPC answers, event streams that may break
 * off anywhere (spec door 4, 5, 12). It checks what every door checks: version, media type, token.
 *
 * @module
 */
import { newId } from "../../base/ids.ts";
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import { ownStartToken, startToken } from "../../base/process_identity.ts";
import type { RunningRecord } from "../../base/running_record.ts";
import { writeRunningRecord } from "../../base/write_running_record.ts";
import { CARD_EXTENSION } from "../../runtime/door/card_extension.ts";

/** One call as it arrived. */
export interface DoorCall {
  readonly method: string;
  readonly params: JsonObject;
  readonly lastEventId: string | null;
  readonly headers: Headers;
}

/** An event of a stream; one without an id is not numbered. */
export interface ScriptedEvent {
  readonly id?: number;
  readonly event?: string;
  readonly result: JsonObject;
}

/** What a call is answered with. */
export type DoorAnswer =
  | { readonly result: JsonValue }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: JsonValue } }
  /** The stream's events; it ends behind them unless `hold` keeps it open. */
  | { readonly events: readonly ScriptedEvent[]; readonly hold?: boolean }
  | { readonly response: Response };

export interface ScriptedDoorOptions {
  readonly sessionId?: string;
  /** Makes it an authenticated door. */
  readonly token?: string;
  /** Answers calls; a method it does not know is not served. */
  readonly answer?: (call: DoorCall) => DoorAnswer | null | Promise<DoorAnswer | null>;
  /** Stands in for the card. */
  readonly card?: () => Response | Promise<Response>;
  /** Answers what else is read with `GET`. */
  readonly get?: (path: string) => Response;
}

export interface ScriptedDoor extends AsyncDisposable {
  readonly sessionId: string;
  readonly port: number;
  /** `localhost:<port>`, as records have it. */
  readonly url: string;
  readonly calls: DoorCall[];
  /** Requests for the public card. */
  cards(): number;
  /** Writes the running record of its session; by default this process holds it. */
  record(running: string, more?: Partial<RunningRecord>): RunningRecord;
  /** Ends every open stream. */
  cutStreams(): void;
}

/** `data` of an error with an ErrorInfo. */
export function errorInfo(reason: string, metadata: JsonObject = {}): JsonValue {
  return [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain: "a2a-protocol.org", metadata }];
}

function cardOf(sessionId: string | null, port: number, authenticated: boolean): JsonObject {
  const extension = (uri: string, params: JsonObject) => ({ uri, description: "", required: false, params });
  return {
    name: "demo",
    version: "1.0.0",
    supportedInterfaces: [{ url: `http://localhost:${port}`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
    capabilities: {
      extendedAgentCard: authenticated,
      extensions: [
        extension(CARD_EXTENSION.door, { methods: [], peerTasks: false }),
        ...(sessionId === null
          ? []
          : [extension(CARD_EXTENSION.capsule, { sessionId, tools: [], shell: false, network: false, planes: [] })]),
      ],
    },
  };
}

/** Opens a door. */
export function scriptedDoor(options: ScriptedDoorOptions = {}): ScriptedDoor {
  const sessionId = options.sessionId ?? newId("ses");
  const { token } = options;
  const calls: DoorCall[] = [];
  const open = new Set<ReadableStreamDefaultController<Uint8Array>>();
  const encoder = new TextEncoder();
  let cards = 0;
  const json = (value: unknown, status = 200) => Response.json(value, { status, headers: { connection: "close" } });

  function stream(id: JsonValue, answer: Extract<DoorAnswer, { events: unknown }>): Response {
    let mine: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        mine = controller;
        open.add(controller);
        controller.enqueue(encoder.encode(":heartbeat\n\n"));
        for (const { id: number, event, result } of answer.events) {
          const lines = [
            ...(number === undefined ? [] : [`id: ${number}`]),
            `event: ${event ?? "status"}`,
            `data: ${JSON.stringify({ jsonrpc: "2.0", id, result })}`,
          ];
          controller.enqueue(encoder.encode(`${lines.join("\n")}\n\n`));
        }
        if (answer.hold) return;
        controller.close();
        open.delete(controller);
      },
      cancel: () => void open.delete(mine),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream", "cache-control": "no-cache" } });
  }

  async function serve(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/.well-known/agent-card.json") {
      cards++;
      if (options.card !== undefined) return await options.card();
      return json(cardOf(token === undefined ? sessionId : null, server.addr.port, token !== undefined));
    }
    if (request.headers.has("origin")) return json({ error: "origin_not_allowed", message: "no" }, 403);
    if (token !== undefined) {
      const given = request.headers.get("authorization");
      if (given === null) return json({ error: "unauthenticated", message: "a token is needed" }, 401);
      if (given !== `Bearer ${token}`) {
        return json({ error: "invalid_token", message: "not a token of this door" }, 401);
      }
    }
    if (request.method === "GET" && options.get !== undefined) return options.get(pathname);
    if (request.method !== "POST" || pathname !== "/" || request.headers.get("content-type") !== "application/json") {
      return new Response(null, { status: 404 });
    }
    const body = await request.json() as JsonObject;
    const answerWith = (part: JsonObject) => json({ jsonrpc: "2.0", id: body.id ?? null, ...part });
    if (request.headers.get("a2a-version") !== "1.0") {
      return answerWith({ error: { code: -32009, message: "A2A version is not supported" } });
    }
    const method = String(body.method);
    if (method === "GetExtendedAgentCard" && token !== undefined) {
      return answerWith({ result: cardOf(sessionId, server.addr.port, true) });
    }
    const call: DoorCall = {
      method,
      params: (body.params ?? {}) as JsonObject,
      lastEventId: request.headers.get("last-event-id"),
      headers: request.headers,
    };
    calls.push(call);
    const answer = await options.answer?.(call) ?? { error: { code: -32601, message: "Method not found" } };
    if ("response" in answer) return answer.response;
    if ("events" in answer) return stream(body.id ?? null, answer);
    return answerWith(answer as unknown as JsonObject);
  }

  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, serve);
  const url = `localhost:${server.addr.port}`;
  const cutStreams = () => {
    for (const controller of open) controller.close();
    open.clear();
  };
  return {
    sessionId,
    port: server.addr.port,
    url,
    calls,
    cards: () => cards,
    cutStreams,
    record(running, more = {}) {
      const record = runningRecord({
        session_id: sessionId,
        url,
        ...(token === undefined ? {} : { door_token: token }),
        ...more,
      });
      writeRunningRecord(running, record);
      return record;
    },
    async [Symbol.asyncDispose]() {
      cutStreams();
      await server.shutdown();
    },
  };
}

/** A connection between a client and a door that breaks off. */
export interface CuttingProxy extends AsyncDisposable {
  /** `localhost:<port>`. */
  readonly url: string;
  /** Connections so far. */
  connections(): number;
}

/** Passes connections on to a door, the answer of each only up to so many bytes. */
export function cuttingProxy(doorPort: number, limit: (connection: number) => number): CuttingProxy {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let connections = 0;
  const pass = async (client: Deno.TcpConn, left: number) => {
    const door = await Deno.connect({ hostname: "127.0.0.1", port: doorPort });
    client.readable.pipeTo(door.writable, { preventClose: true }).catch(() => {});
    try {
      const writer = client.writable.getWriter();
      for await (const piece of door.readable) {
        await writer.write(piece.subarray(0, left));
        left -= piece.length;
        if (left <= 0) break;
      }
    } finally {
      for (const conn of [client, door]) {
        try {
          conn.close();
        } catch {
          // Its stream has closed it.
        }
      }
    }
  };
  const serving = (async () => {
    for await (const client of listener) pass(client, limit(++connections)).catch(() => {});
  })();
  return {
    url: `localhost:${listener.addr.port}`,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      listener.close();
      await serving.catch(() => {});
    },
  };
}

/** A running record; the process it names is this one, or another's with the right start token. */
export function runningRecord(more: Partial<RunningRecord> = {}): RunningRecord {
  const pid = more.pid ?? Deno.pid;
  return {
    session_id: newId("ses"),
    url: null,
    pid,
    process_start: pid === Deno.pid ? ownStartToken() : startToken(pid) ?? "1",
    capsule_name: "demo",
    capsule_version: "1.0.0",
    workdir: "/w",
    records_dir: "/r",
    outlives_launcher: false,
    started_at: "2026-01-01T00:00:00Z",
    ...more,
  };
}

/** Frames of one task as the door writes them (spec door 12.3). */
export function taskFrames(taskId: string, contextId: string) {
  const said = (state: string, message: string | null) => ({
    state,
    ...(message === null ? {} : {
      message: {
        messageId: `msg_${taskId}`,
        contextId,
        taskId,
        role: "ROLE_AGENT",
        parts: [{ text: message, mediaType: "text/plain" }],
      },
    }),
    timestamp: "2026-01-01T00:00:00.000Z",
  });
  return {
    task: (state: string, more: JsonObject = {}): ScriptedEvent => ({
      event: "task",
      result: { task: { id: taskId, contextId, status: { state }, ...more } },
    }),
    status: (id: number | undefined, state: string, message: string, final = false): ScriptedEvent => ({
      ...(id === undefined ? {} : { id }),
      event: "status",
      result: {
        statusUpdate: {
          taskId,
          contextId,
          status: said(state, message),
          metadata: { murmur: { frame: "status", final } },
        },
      },
    }),
    frame: (id: number, frame: string, keys: JsonObject): ScriptedEvent => ({
      id,
      event: frame,
      result: {
        statusUpdate: {
          taskId,
          contextId,
          status: said("TASK_STATE_WORKING", null),
          metadata: { murmur: { frame, ...keys } },
        },
      },
    }),
    text: (id: number, text: string, final = false): ScriptedEvent => ({
      id,
      event: "text",
      result: {
        statusUpdate: {
          taskId,
          contextId,
          status: said("TASK_STATE_WORKING", null),
          metadata: { murmur: { frame: "text", text, final } },
        },
      },
    }),
    tool: (id: number, name: string, content: string, keys: JsonObject = {}): ScriptedEvent => ({
      id,
      event: "artifact",
      result: {
        artifactUpdate: {
          taskId,
          contextId,
          artifact: { artifactId: `tool-${id}`, name, parts: [{ text: content, mediaType: "text/plain" }] },
          append: false,
          lastChunk: true,
          metadata: {
            murmur: {
              frame: "artifact",
              tool_name: name,
              fence_source: null,
              tool_call_id: "c1",
              is_error: false,
              duration_ms: 12,
              exit_code: null,
              truncated: false,
              ...keys,
            },
          },
        },
      },
    }),
    response: (text: string, append = false, lastChunk = true): ScriptedEvent => ({
      event: "artifact",
      result: {
        artifactUpdate: {
          taskId,
          contextId,
          artifact: { artifactId: "response", name: "response", parts: [{ text, mediaType: "text/plain" }] },
          append,
          lastChunk,
        },
      },
    }),
  };
}

/** A notice of the watch stream: `connection-ack`, `gap`, `lagged`, `capsule-closed`. */
export function watchNotice(frame: string, keys: JsonObject = {}): ScriptedEvent {
  return {
    event: frame,
    result: {
      message: {
        messageId: `msg_${frame}_1`,
        role: "ROLE_AGENT",
        parts: [{ data: keys, mediaType: "application/json" }],
        metadata: { murmur: { frame } },
      },
    },
  };
}
