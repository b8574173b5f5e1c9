/**
 * Clients in C, for benchmarks of servers that answer faster than a client in Deno asks. Needs a C compiler.
 *
 * @module
 */
import type { Load } from "./raw_http.ts";

/** Builds `<name>.c` of this folder into a directory; the path of the program. */
export async function compiledClient(name: string, directory: string): Promise<string> {
  const program = `${directory}/${name}`;
  const source = decodeURIComponent(new URL(`./${name}.c`, import.meta.url).pathname);
  const { success, stderr } = await new Deno.Command("cc", {
    args: ["-O2", "-pthread", "-o", program, source],
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return program;
}

/**
 * Sends a request over so many kept connections at once, each waiting for its answer, for a while.
 *
 * @param client Command line of the built `keepalive_load`.
 */
export async function keepaliveLoad(
  client: readonly string[],
  port: number,
  request: Uint8Array,
  connections: number,
  durationMs: number,
): Promise<Load> {
  const [program, ...args] = [...client, ...[port, connections, durationMs].map(String)];
  const child = new Deno.Command(program!, { args, stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(request);
  await writer.close();
  const { success, stdout, stderr } = await child.output();
  if (!success) throw new Error(`port ${port}: ${new TextDecoder().decode(stderr)}`);
  const [count, ...latencies] = new Uint32Array(stdout.buffer);
  return { perSecond: count! / durationMs * 1_000, latencies: latencies.map((us) => us / 1_000).sort((a, b) => a - b) };
}
