/**
 * A capsule that runs in the background and whose door a test calls: started with the real `mur run`, ended with the test.
 *
 * @module
 */
import { TextLineStream } from "./text_lines.ts";
import type { AgentProject, AgentRun } from "./agent_project.ts";
import { spawnMur } from "./mur_process.ts";

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

/** A running session. */
export interface DoorSession extends AsyncDisposable {
  /** `http://localhost:<port>`. */
  readonly url: string;
  readonly port: number;
  readonly sessionId: string;
  readonly pid: number;
  /** Calls a method of the door. */
  rpc(method: string, params?: unknown, headers?: Readonly<Record<string, string>>): Promise<RpcAnswer>;
  /** Sends a request as it is. */
  request(path: string, init?: RequestInit): Promise<Response>;
  /** Waits for the session's own end, then reads what it left. */
  ended(): Promise<AgentRun>;
  /** Sends `SIGTERM` and waits for the end. */
  stop(): Promise<AgentRun>;
}

let requests = 0;

/** Starts `mur run --json` in a project and waits until its door serves. */
export async function startSession(
  project: AgentProject,
  { args = [], env = {} }: { readonly args?: readonly string[]; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<DoorSession> {
  const child = spawnMur(["run", "--json", ...args], { cwd: project.project, home: project.home, env });
  const errors = new Response(child.stderr).text();
  const lines: string[] = [];
  const ready = Promise.withResolvers<string>();
  const output = (async () => {
    for await (const line of child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
      lines.push(line);
      ready.resolve(line);
    }
    ready.reject(new Error(`mur run ended before its door served: ${await errors}`));
  })();
  const { url: address, session_id: sessionId } = JSON.parse(await ready.promise) as {
    url: string;
    session_id: string;
  };
  const url = `http://${address}`;
  let finished: Promise<AgentRun> | undefined;
  const ended = () =>
    finished ??= (async () => {
      const { code, signal } = await child.status;
      await output;
      return await project.recordOf({
        status: code,
        signal,
        stdout: lines.join("\n"),
        stderr: await errors,
      });
    })();
  const stop = () => {
    try {
      child.kill("SIGTERM");
    } catch {
      // It has ended.
    }
    return ended();
  };
  return {
    url,
    port: Number(address.slice(address.lastIndexOf(":") + 1)),
    sessionId,
    pid: child.pid,
    request: (path, init) => fetch(`${url}${path}`, init),
    async rpc(method, params, headers = {}) {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", "a2a-version": "1.0", ...headers },
        body: JSON.stringify({ jsonrpc: "2.0", id: ++requests, method, ...(params === undefined ? {} : { params }) }),
      });
      return await response.json() as RpcAnswer;
    },
    ended,
    stop,
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended.
      }
      await ended();
    },
  };
}
