/**
 * The real `mur-roost` as a process of its own, with a home, a registry and running records that belong to the test.
 *
 * @module
 */
import assert from "node:assert/strict";
import { ArtifactStore } from "../../artifact/store.ts";
import { writeZip } from "../../artifact/zip_writer.ts";
import { newId } from "../../base/ids.ts";
import { denoDirectory } from "../../base/program.ts";
import type { RunningRecord } from "../../base/running_record.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { recordedProcess, writeRunningRecord } from "../../base/write_running_record.ts";

const MAIN = new URL("../main.ts", import.meta.url).pathname;
const WITH_BOUNDS = new URL("main_with_bounds.ts", import.meta.url).pathname;
/** As the task of the daemon starts it. */
const FLAGS = [
  "run",
  "--quiet",
  "-A",
  "--v8-flags=--max-semi-space-size=2,--single-threaded-gc,--no-lazy",
];
const CONFIG = new URL("../../deno.json", import.meta.url).pathname;

/** An answer of the daemon. */
export interface RoostReply {
  readonly status: number;
  // deno-lint-ignore no-explicit-any -- tests look into whatever came
  readonly body: any;
}

/** How a daemon is started. */
export interface RoostDaemonOptions {
  readonly home: string;
  /** Default: a free port. */
  readonly port?: number;
  /** Environment besides `HOME`; the daemon needs none. */
  readonly env?: Readonly<Record<string, string>>;
  /** Command line in front of the daemon's own, e.g. of another user. */
  readonly under?: readonly string[];
  /** A program to start in place of the checkout's. */
  readonly program?: readonly string[];
  /** Time bounds instead of the product's. */
  readonly bounds?: Partial<TimeBounds>;
}

/** A command of `mur-roost`, whatever it does. */
export function roostCommand(
  args: readonly string[],
  { home, env = {}, under = [], program, bounds }: RoostDaemonOptions,
): Deno.Command {
  const main = bounds === undefined ? [MAIN] : [WITH_BOUNDS, JSON.stringify(bounds)];
  const own = program ?? [Deno.execPath(), ...FLAGS, "--config", CONFIG, ...main];
  const [command, ...rest] = [...under, ...own, ...args];
  return new Deno.Command(command!, {
    args: rest,
    clearEnv: true,
    env: { ...keptEnvironment(), HOME: home, NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

/** What `deno` needs to start a checkout, whatever the home is. */
function keptEnvironment(): Record<string, string> {
  const kept: Record<string, string> = { DENO_DIR: denoDirectory()! };
  for (const name of ["PATH", "NPM_CONFIG_REGISTRY"]) {
    const value = Deno.env.get(name);
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}

/** A component without imports and exports: enough to be stored, not to be run. */
const EMPTY_COMPONENT = Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00);

/** A daemon that answers. */
export class RoostDaemon implements AsyncDisposable {
  readonly child: Deno.ChildProcess;
  readonly url: string;
  readonly port: number;
  /** The three lines it started with. */
  readonly startLines: readonly string[];
  readonly #stderr: () => string;
  readonly #drained: Promise<void>;

  private constructor(child: Deno.ChildProcess, port: number, lines: string[], text: () => string, end: Promise<void>) {
    this.child = child;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.startLines = lines;
    this.#stderr = text;
    this.#drained = end;
  }

  /** Starts one and waits for its three lines. */
  static async start(args: readonly string[], options: RoostDaemonOptions): Promise<RoostDaemon> {
    const child = roostCommand(["--port", String(options.port ?? 0), ...args], options).spawn();
    child.stdout.cancel().catch(() => {});
    let text = "";
    let isStarted = false;
    const started = Promise.withResolvers<void>();
    const drained = (async () => {
      const decoder = new TextDecoder();
      for await (const chunk of child.stderr) {
        text += decoder.decode(chunk, { stream: true });
        // Looking at it puts it together, which takes longer and longer for a daemon that logs much.
        if (isStarted) continue;
        isStarted = text.includes("machine ceiling");
        if (isStarted) started.resolve();
      }
      started.reject(new Error(`mur-roost did not start: ${text}`));
    })();
    await started.promise;
    const lines = text.split("\n").filter((line) => line.startsWith("mur-roost: "));
    const port = Number(/listening on 127\.0\.0\.1:(\d+)$/.exec(lines[1] ?? "")?.[1]);
    assert.ok(port > 0, text);
    return new RoostDaemon(child, port, lines, () => text, drained);
  }

  /** All it wrote on standard error. */
  get stderr(): string {
    return this.#stderr();
  }

  async request(method: string, path: string, init: RequestInit = {}): Promise<RoostReply> {
    const response = await fetch(`${this.url}${path}`, { method, ...init });
    const body = await response.text();
    assert.equal(response.headers.get("content-type"), "application/json");
    return { status: response.status, body: method === "HEAD" ? null : JSON.parse(body) };
  }

  /** Sends bytes as they are and reads until the daemon closes; every answer that came, in order. */
  async raw(text: string | Uint8Array): Promise<readonly RoostReply[]> {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port: this.port });
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    // A refusal may come, and the connection go, before all was taken.
    const sent = (async () => {
      for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await connection.write(rest));
    })().catch(() => {});
    const got = await new Response(connection.readable).text();
    await sent;
    return parseReplies(got);
  }

  async post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<RoostReply> {
    return await this.request("POST", path, { body: typeof body === "string" ? body : JSON.stringify(body), headers });
  }

  /** Asks to spawn `local/<name>`. */
  spawn(credential: string, name: string, version = "1.0.0"): Promise<RoostReply> {
    return this.post("/spawn", { name: fullName(name), version }, { "x-murmur-spawn-credential": credential });
  }

  /** Registers a session of `local/<name>`. */
  register(sessionId: string, name: string, approval?: string, version = "1.0.0"): Promise<RoostReply> {
    return this.post(
      "/register",
      { session_id: sessionId, name: fullName(name), version },
      approval === undefined ? {} : { "x-murmur-spawn-approval": approval },
    );
  }

  deregister(credential: string, outcome = "complete"): Promise<RoostReply> {
    return this.post("/deregister", { outcome }, { "x-murmur-spawn-credential": credential });
  }

  status(sessionId: string): Promise<RoostReply> {
    return this.request("GET", `/status/${sessionId}`);
  }

  /** Registers a session that nobody launched, and answers its id and credential. */
  async root(name: string): Promise<{ readonly id: string; readonly credential: string }> {
    const id = newId("ses");
    const { status, body } = await this.register(id, name);
    assert.equal(status, 200, JSON.stringify(body));
    return { id, credential: body.credential };
  }

  /** Spawns a child and registers it. */
  async delegate(parent: string, name: string): Promise<{ readonly id: string; readonly credential: string }> {
    const granted = await this.spawn(parent, name);
    assert.equal(granted.status, 200, JSON.stringify(granted.body));
    const id = newId("ses");
    const { status, body } = await this.register(id, name, granted.body.approval);
    assert.equal(status, 200, JSON.stringify(body));
    return { id, credential: body.credential };
  }

  /** Ends it with a signal and answers its exit status. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<Deno.CommandStatus> {
    try {
      this.child.kill(signal);
    } catch {
      // It has ended already.
    }
    const status = await this.child.status;
    await this.#drained.catch(() => {});
    return status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
  }
}

function parseReplies(text: string): RoostReply[] {
  const replies: RoostReply[] = [];
  for (let rest = text; rest !== "";) {
    const end = rest.indexOf("\r\n\r\n") + 4;
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(rest)![1]);
    const length = Number(/^content-length: (\d+)$/im.exec(rest.slice(0, end))?.[1] ?? 0);
    // Bodies here are ASCII, or the last of their connection.
    const body = rest.slice(end, end + length);
    if (status >= 200) replies.push({ status, body: body === "" ? null : JSON.parse(body) });
    rest = rest.slice(end + length);
  }
  return replies;
}

function fullName(name: string): string {
  return name.includes("/") ? name : `local/${name}`;
}

/** A home directory of its own, with a registry of capsules. */
export class RoostHome implements AsyncDisposable {
  readonly path: string;
  readonly running: string;
  readonly store: ArtifactStore;

  constructor(path: string = Deno.makeTempDirSync()) {
    this.path = path;
    this.running = `${path}/.murmur/running`;
    this.store = new ArtifactStore(`${path}/.murmur/artifacts`);
  }

  /** Installs a capsule whose manifest has further lines. Answers its content hash. */
  async install(name: string, manifest: string = "", version = "1.0.0"): Promise<string> {
    const text = `name: ${name}\nversion: ${JSON.stringify(version)}\nruntime: capsule\n${manifest}`;
    const bytes = await writeZip([
      { name: "murmur.yaml", bytes: new TextEncoder().encode(text) },
      { name: "capsule.wasm", bytes: EMPTY_COMPONENT },
    ]);
    const { sha256 } = await this.store.put({
      metadata: {
        name,
        version,
        kind: "wasm",
        role: "capsule",
        platforms: [],
        description: null,
        tags: [],
        contracts: null,
      },
      platform: null,
      bytes,
    }, "install");
    return sha256;
  }

  /** Writes the running record of a process. */
  record(id: string, pid: number, changes: Partial<RunningRecord> = {}): void {
    writeRunningRecord(this.running, {
      session_id: id,
      url: null,
      // One that is changed is told by what was changed.
      ...("process_start" in changes ? { pid, process_start: "" } : recordedProcess(pid)),
      capsule_name: "demo",
      capsule_version: "1.0.0",
      workdir: "/w",
      records_dir: "/r",
      outlives_launcher: false,
      started_at: "2026-01-01T00:00:00Z",
      ...changes,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}

/** A process that does nothing until it is killed. */
export function idleProcess(): Deno.ChildProcess {
  return new Deno.Command("sleep", { args: ["600"], stdin: "null", stdout: "null", stderr: "null" }).spawn();
}
