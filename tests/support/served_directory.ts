/**
 * A directory served over HTTP on loopback, byte by byte as it lies there.
 *
 * @module
 */

/** Serves it while `action` runs. `cut` says how much of a file is sent before the connection breaks off. */
export async function served<T>(
  directory: string,
  action: (url: string) => Promise<T>,
  cut: (name: string, size: number) => number | null = () => null,
): Promise<T> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    for await (const connection of listener) answer(connection, directory, cut).catch(() => {});
  })();
  try {
    return await action(`http://127.0.0.1:${listener.addr.port}`);
  } finally {
    listener.close();
    await serving;
  }
}

async function answer(
  connection: Deno.TcpConn,
  directory: string,
  cut: (name: string, size: number) => number | null,
): Promise<void> {
  using open = connection;
  let request = "";
  const chunk = new Uint8Array(4096);
  while (!request.includes("\r\n\r\n")) {
    const got = await open.read(chunk);
    if (got === null) return;
    request += new TextDecoder().decode(chunk.subarray(0, got));
  }
  const name = decodeURIComponent(request.split(" ")[1]!.slice(1));
  const bytes = await Deno.readFile(`${directory}/${name}`).catch(() => null);
  const status = bytes === null ? "404 Not Found" : "200 OK";
  const head = `HTTP/1.1 ${status}\r\ncontent-length: ${bytes?.length ?? 0}\r\nconnection: close\r\n\r\n`;
  await open.write(new TextEncoder().encode(head));
  if (bytes === null) return;
  let rest = bytes.subarray(0, cut(name, bytes.length) ?? bytes.length);
  while (rest.length > 0) rest = rest.subarray(await open.write(rest));
}
