/**
 * A real HTTP server on this machine that keeps what it was sent, with the product's own client to reach it.
 *
 * @module
 */
import { createHttpClient, type HttpClient } from "../../base/http_client.ts";

/** What the server was sent. */
export interface SeenRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly authorization: string | null;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

export interface LocalServer {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  readonly seen: SeenRequest[];
}

/** Answers a request by its path and query. */
export type LocalAnswer = (path: string, request: Request) => Response | Promise<Response>;

/** Runs `work` while the server serves. */
export async function withLocalServer(
  answer: LocalAnswer,
  work: (server: LocalServer, client: HttpClient) => Promise<void>,
): Promise<void> {
  const seen: SeenRequest[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const url = new URL(request.url);
    const body = await request.bytes();
    const { method, headers } = request;
    seen.push({ method, path: url.pathname + url.search, authorization: headers.get("authorization"), headers, body });
    return await answer(url.pathname + url.search, request);
  });
  const client = createHttpClient();
  try {
    await work({ url: `http://127.0.0.1:${server.addr.port}`, seen }, client);
  } finally {
    client.close();
    await server.shutdown();
  }
}
