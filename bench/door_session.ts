/**
 * A session that serves, for benchmarks of its door.
 *
 * @module
 */
import { type BenchProject, benchProject } from "./bundled_mur.ts";

/** A running session. */
export interface BenchSession extends AsyncDisposable {
  readonly pid: number;
  readonly port: number;
  /** Its work folder. */
  readonly workdir: string;
  /** Calls a method and gives its result. */
  // deno-lint-ignore no-explicit-any
  call(method: string, params?: object): Promise<any>;
  /** Resident memory, in MB. */
  residentMb(): number;
}

/**
 * Starts a capsule with the scripted driver.
 *
 * @param script The driver's configuration.
 * @param blocks Further lines of its manifest.
 */
export async function startBenchSession(script: object, blocks = ""): Promise<BenchSession> {
  const project: BenchProject = await benchProject(
    `name: bench
version: "0.1.0"
artifacts:
  - { name: murmur-driver-scripted, version: "0.1.0", runtime: driver, gateway: { endpoint: "http://127.0.0.1:1", keyless: true } }
lifecycle: { task_acceptance: queue, after_task: sleep, queue_depth: 4 }
inference:
  model: scripted
  driver: { artifact: murmur-driver-scripted, config: ${JSON.stringify(script)} }
${blocks}`,
    ["murmur-driver-scripted"],
  );
  const child = project.command("run", "--json").spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let line = "";
  while (!line.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the session did not start: ${await new Response(child.stderr).text()}`);
    line += value;
  }
  const { url, workdir } = JSON.parse(line.slice(0, line.indexOf("\n")));
  const port = Number(url.slice(url.lastIndexOf(":") + 1));
  return {
    pid: child.pid,
    port,
    workdir,
    async call(method, params = {}) {
      const response = await fetch(`http://127.0.0.1:${port}/`, {
        method: "POST",
        headers: { "content-type": "application/json", "a2a-version": "1.0" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      });
      return (await response.json()).result;
    },
    residentMb: () => Number(Deno.readTextFileSync(`/proc/${child.pid}/statm`).split(" ")[1]) * 4_096 / 1e6,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
      await reader.cancel();
      await child.stderr.cancel();
      await project[Symbol.asyncDispose]();
    },
  };
}

/** Parameters of a message. */
export function taskMessage(text: string, configuration?: object): object {
  return {
    message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text }] },
    ...(configuration === undefined ? {} : { configuration }),
  };
}
