/**
 * The HTTP listener of an agent capsule (spec door 1, 2): bound before the agent works, it answers the agent card, and
 * refuses everything a web page could send.
 *
 * @module
 */
import { MurError, reasonOf } from "../../base/errors.ts";
import { guardRequest, type GuardRules } from "./request_guard.ts";

/** Where to listen. */
export interface ListenerOptions {
  /** Address to bind, without brackets. */
  readonly hostname: string;
  /** `network.internal_port`, or `null` for one the system chooses. */
  readonly port: number | null;
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
  /** The current agent card; asked for at every request. */
  card(): Record<string, unknown>;
}

/** A bound listener. */
export interface Listener {
  readonly port: number;
  /** Stops accepting, lets open answers finish for `drainMs`, then cuts them. */
  close(drainMs: number): Promise<void>;
}

function json(status: number, value: unknown): Response {
  const body = new TextEncoder().encode(JSON.stringify(value));
  return new Response(body, {
    status,
    headers: {
      "content-type": "application/json",
      "content-length": String(body.length),
      "connection": "close",
    },
  });
}

/** Path of a request as it was sent, without its query; `new URL` would normalise it. */
export function rawPath(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  if (start < 0) return "/";
  const end = url.slice(start).search(/[?#]/);
  return end < 0 ? url.slice(start) : url.slice(start, start + end);
}

function answer(request: Request, options: ListenerOptions, rules: GuardRules): Response {
  const refusal = guardRequest(request.headers, rules);
  if (refusal !== null) return json(403, refusal);
  if (request.method === "GET" && rawPath(request.url) === "/.well-known/agent-card.json") {
    return json(200, options.card());
  }
  return new Response(null, { status: 404, headers: { "content-length": "0", "connection": "close" } });
}

/**
 * Binds the listener.
 *
 * @throws {MurError} `E-RUN-010` when the pinned port is taken, `E-IO-003` when the address cannot be bound.
 */
export function openListener(options: ListenerOptions): Listener {
  const rules: GuardRules = { boundAddress: options.hostname, hosts: options.hosts, origins: options.origins };
  let server: Deno.HttpServer<Deno.NetAddr>;
  try {
    server = Deno.serve({
      hostname: options.hostname,
      port: options.port ?? 0,
      onListen: () => {},
      onError: () => new Response(null, { status: 500 }),
    }, (request) => answer(request, options, rules));
  } catch (cause) {
    if (cause instanceof Deno.errors.AddrInUse && options.port !== null) {
      throw new MurError("E-RUN-010", `port ${options.port} is already in use (network.internal_port)`, {
        hint: "choose another network.internal_port, or leave it out to take a free one",
        cause,
      });
    }
    throw new MurError("E-IO-003", `cannot listen on ${options.hostname}: ${reasonOf(cause)}`, {
      hint: "choose another address with --bind",
      cause,
    });
  }
  return {
    port: server.addr.port,
    async close(drainMs) {
      const closed = server.shutdown();
      const cut = new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, drainMs);
        closed.finally(() => clearTimeout(timer));
      });
      await Promise.race([closed, cut]);
    },
  };
}
