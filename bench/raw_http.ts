/**
 * A client for benchmarks that costs little itself: requests written as bytes, answers read by their length.
 *
 * @module
 */

/** A `POST /` as it goes over the wire. */
export function rawPost(port: number, body: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(
    `POST / HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n` +
      `Content-Length: ${new TextEncoder().encode(body).length}\r\n\r\n${body}`,
  );
}

/** One connection that sends the same request again and again. */
export class RawConnection implements Disposable {
  readonly #connection: Deno.TcpConn;
  readonly #buffer = new Uint8Array(65_536);

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  static async open(port: number): Promise<RawConnection> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    connection.setNoDelay(true);
    return new RawConnection(connection);
  }

  /** Sends a request and reads its answer; gives the answer's length, head included. */
  async exchange(request: Uint8Array): Promise<number> {
    await this.#connection.write(request);
    let got = 0;
    for (let whole = Infinity; got < whole;) {
      const count = await this.#connection.read(this.#buffer.subarray(got));
      if (count === null) throw new Error("the connection was closed");
      got += count;
      if (whole === Infinity) {
        const text = new TextDecoder().decode(this.#buffer.subarray(0, got));
        const end = text.indexOf("\r\n\r\n");
        if (end >= 0) whole = end + 4 + Number(/^content-length: (\d+)/im.exec(text)![1]);
      }
    }
    return got;
  }

  [Symbol.dispose](): void {
    this.#connection.close();
  }
}

/** What some seconds of load gave. */
export interface Load {
  readonly perSecond: number;
  /** Latencies in milliseconds, ascending. */
  readonly latencies: readonly number[];
}

/** Sends a request over so many connections at once, each waiting for its answer, for a while. */
export async function load(port: number, request: Uint8Array, connections: number, durationMs: number): Promise<Load> {
  const latencies: number[] = [];
  const end = performance.now() + durationMs;
  await Promise.all(Array.from({ length: connections }, async () => {
    using connection = await RawConnection.open(port);
    for (let now = performance.now(); now < end;) {
      await connection.exchange(request);
      const after = performance.now();
      latencies.push(after - now);
      now = after;
    }
  }));
  return { perSecond: latencies.length / durationMs * 1_000, latencies: latencies.sort((a, b) => a - b) };
}
