/**
 * `Deno.serve` that outlives a connection the system refuses it.
 *
 * At the first connection it cannot accept, for want of a descriptor say, Deno closes the listening socket, and an end that
 * nobody looks at is the end of the process. What is open by then is served on. So the socket is opened again, and idle
 * connections are closed, which gives descriptors back.
 *
 * @module
 */
import { reasonOf } from "../../base/errors.ts";

/** How soon after it was opened a socket is opened again, in milliseconds: connections may come faster than they go. */
const REOPEN_MS = 100;

/** How soon after one loss another is told, in milliseconds. */
const TELL_EVERY_MS = 60_000;

/** Where to listen, and who answers. */
export interface LastingServerOptions {
  /** Without brackets. */
  readonly hostname: string;
  /** 0: one the system chooses. */
  readonly port: number;
  readonly answer: (request: Request) => Response | Promise<Response>;
  /** Told why no connections are taken for now, once in a while. */
  readonly lost: (reason: string) => void;
}

/** A server on one port. */
export class LastingServer {
  readonly #options: LastingServerOptions;
  readonly port: number;
  /** The one that listens, and earlier ones that have open connections. */
  readonly #servers = new Set<Deno.HttpServer<Deno.NetAddr>>();
  #openedAt = 0;
  #toldAt = -Infinity;
  #reopening: ReturnType<typeof setTimeout> | undefined;
  #isClosing = false;

  /** Listens. @throws What Deno throws when the address cannot be bound. */
  constructor(options: LastingServerOptions) {
    this.#options = options;
    this.port = this.#listen(options.port);
  }

  /** Accepts no more, and settles when every open connection is done. */
  async shutdown(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#reopening);
    await Promise.all([...this.#servers].map((server) => this.#drain(server)));
  }

  #listen(port: number): number {
    const { hostname, answer } = this.#options;
    const server = Deno.serve({
      hostname,
      port,
      onListen: () => {},
      onError: () => new Response(null, { status: 500 }),
    }, answer);
    this.#openedAt = performance.now();
    this.#servers.add(server);
    server.finished.catch((cause) => this.#lost(server, cause));
    return server.addr.port;
  }

  #lost(server: Deno.HttpServer<Deno.NetAddr>, cause: unknown): void {
    if (this.#isClosing) return;
    void this.#drain(server);
    this.#tell(cause);
    this.#reopenSoon();
  }

  #reopenSoon(): void {
    const waitMs = Math.max(0, this.#openedAt + REOPEN_MS - performance.now());
    this.#reopening = setTimeout(() => {
      try {
        this.#listen(this.port);
      } catch (cause) {
        this.#openedAt = performance.now();
        this.#tell(cause);
        this.#reopenSoon();
      }
    }, waitMs);
  }

  #tell(cause: unknown): void {
    const now = performance.now();
    if (now - this.#toldAt < TELL_EVERY_MS) return;
    this.#toldAt = now;
    this.#options.lost(reasonOf(cause));
  }

  async #drain(server: Deno.HttpServer<Deno.NetAddr>): Promise<void> {
    try {
      await server.shutdown();
    } catch {
      // It has ended by itself.
    }
    this.#servers.delete(server);
  }
}
