/**
 * The other side of an HTTP connection, played by hand.
 *
 * @module
 */

/** A peer that plays a connection by hand: what it was sent, and how it answers. */
export async function withPeer(
  play: (conn: Deno.TcpConn, seen: (text: string) => void) => Promise<void>,
  work: (port: number, seen: () => string) => Promise<void>,
  hostname = "127.0.0.1",
): Promise<void> {
  using listener = Deno.listen({ hostname, port: 0 });
  let seen = "";
  const serving = (async () => {
    for await (const conn of listener) {
      await play(conn, (text) => seen += text).catch(() => {});
      try {
        conn.close();
      } catch {
        // It was closed by hand.
      }
    }
  })();
  try {
    await work(listener.addr.port, () => seen);
  } finally {
    listener.close();
    await serving.catch(() => {});
  }
}

/** Reads a request's head. */
export async function readHead(conn: Deno.TcpConn, seen: (text: string) => void = () => {}): Promise<void> {
  const buffer = new Uint8Array(65_536);
  let text = "";
  while (!text.includes("\r\n\r\n")) {
    const count = await conn.read(buffer);
    if (count === null) return;
    text += new TextDecoder().decode(buffer.subarray(0, count));
  }
  seen(text);
}

export async function writeAll(conn: Deno.TcpConn, bytes: Uint8Array | string): Promise<void> {
  let rest = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
  while (rest.length > 0) rest = rest.subarray(await conn.write(rest));
}

/** Answers every request with the same bytes, in pieces cut at the given places, then closes. */
export function answering(bytes: string, cuts: readonly number[] = []) {
  return async (conn: Deno.TcpConn, seen: (text: string) => void) => {
    await readHead(conn, seen);
    const whole = new TextEncoder().encode(bytes);
    let at = 0;
    for (const cut of [...cuts, whole.length]) {
      if (cut <= at) continue;
      await writeAll(conn, whole.subarray(at, cut));
      await new Promise((resolve) => setTimeout(resolve, 1));
      at = cut;
    }
  };
}
