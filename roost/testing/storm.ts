/**
 * Many requests at a real `mur-roost`: formations that come and go, parents that race for the last slots, tokens and bodies
 * that were changed. The tests run them for a while, the benchmarks for long.
 *
 * @module
 */
import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { removeRunningRecord } from "../../base/running_record.ts";
import { type RoostDaemon, type RoostHome, type RoostReply } from "./daemon.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * A connection that is kept, for one request after the other. Each is written and its answer read in one call wherever it
 * goes, and what was read is looked at once: hundreds of these must not be what a storm waits for.
 */
export class StormConnection implements Disposable {
  readonly #connection: Deno.TcpConn;
  /** Every answer of the daemon is shorter than this. */
  readonly #buffer = new Uint8Array(4_096);

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  static async open(port: number): Promise<StormConnection> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    connection.setNoDelay(true);
    return new StormConnection(connection);
  }

  async request(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body: string | Uint8Array = "",
  ): Promise<RoostReply> {
    return await this.exchange(requestBytes(method, path, headers, body));
  }

  /** Sends a request as {@linkcode requestBytes} makes it. */
  async exchange(request: Uint8Array): Promise<RoostReply> {
    for (let rest = request; rest.length > 0;) rest = rest.subarray(await this.#connection.write(rest));
    for (let held = 0;;) {
      const count = await this.#connection.read(this.#buffer.subarray(held));
      if (count === null) throw new Error("the daemon closed the connection");
      held += count;
      const text = decoder.decode(this.#buffer.subarray(0, held));
      const end = text.indexOf("\r\n\r\n");
      if (end < 0) continue;
      const at = text.indexOf(LENGTH) + LENGTH.length;
      // Answers are ASCII.
      if (held < end + 4 + parseInt(text.slice(at, at + 8))) continue;
      return { status: Number(text.slice(9, 12)), body: JSON.parse(text.slice(end + 4)) };
    }
  }

  async post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<RoostReply> {
    return await this.request("POST", path, headers, JSON.stringify(body));
  }

  spawn(credential: string, name: string, version = "1.0.0"): Promise<RoostReply> {
    return this.exchange(spawnBytes(credential, name, version));
  }

  async register(name: string, approval?: string, id = newId("ses")): Promise<{ id: string; credential: string }> {
    const headers: Record<string, string> = approval === undefined ? {} : { "x-murmur-spawn-approval": approval };
    const { status, body } = await this.post("/register", { session_id: id, name, version: "1.0.0" }, headers);
    assert.equal(status, 200, JSON.stringify(body));
    return { id, credential: body.credential };
  }

  async deregister(credential: string): Promise<void> {
    const headers = { "x-murmur-spawn-credential": credential };
    assert.equal((await this.post("/deregister", { outcome: "complete" }, headers)).status, 200);
  }

  [Symbol.dispose](): void {
    this.#connection.close();
  }
}

const LENGTH = "content-length: ";

/** A request as it is sent. */
export function requestBytes(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body: string | Uint8Array = "",
): Uint8Array<ArrayBuffer> {
  const content = typeof body === "string" ? encoder.encode(body) : body;
  const lines = [`${method} ${path} HTTP/1.1`, "host: localhost", `${LENGTH}${content.length}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  const head = encoder.encode(`${lines.join("\r\n")}\r\n\r\n`);
  const bytes = new Uint8Array(head.length + content.length);
  bytes.set(head);
  bytes.set(content, head.length);
  return bytes;
}

/** Bytes of a `POST /spawn`. */
function spawnBytes(credential: string, name: string, version = "1.0.0"): Uint8Array<ArrayBuffer> {
  return requestBytes("POST", "/spawn", { "x-murmur-spawn-credential": credential }, JSON.stringify({ name, version }));
}

/** Resident memory of a process, in bytes. */
export function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1]) * 1_024;
}

/** Manifest of a capsule that may spawn `local/child`. */
export const PARENT = "capabilities: { spawn: { allow: [local/child] } }\n";

/**
 * Lets formations of a parent and one child come and go, over so many connections at once. Each session has its running record
 * from before it registers until it has deregistered, as real ones do.
 */
export async function cycleFormations(
  daemon: RoostDaemon,
  home: RoostHome,
  count: number,
  connections = 8,
): Promise<void> {
  let left = count;
  await Promise.all(Array.from({ length: connections }, async () => {
    using connection = await StormConnection.open(daemon.port);
    const register = (name: string, approval?: string) => {
      const id = newId("ses");
      home.record(id, Deno.pid);
      return connection.register(name, approval, id);
    };
    const deregister = async ({ id, credential }: { readonly id: string; readonly credential: string }) => {
      await connection.deregister(credential);
      removeRunningRecord(home.running, id);
    };
    while (left-- > 0) {
      const parent = await register("local/parent");
      const { status, body } = await connection.spawn(parent.credential, "local/child");
      assert.equal(status, 200, JSON.stringify(body));
      const child = await register("local/child", body.approval);
      await deregister(child);
      await deregister(parent);
    }
  }));
}

/**
 * Lets parents race for the last slots of the host, round by round. The daemon's ceiling is `parents + free`, so that as
 * many slots are free at the start of each round. In every other round the child's artifact has just changed, so that the
 * slots are asked for while it is being read.
 */
export async function raceForSlots(
  daemon: RoostDaemon,
  home: RoostHome,
  { parents, free, rounds }: { readonly parents: number; readonly free: number; readonly rounds: number },
): Promise<void> {
  const racers = await Promise.all(Array.from({ length: parents }, async () => {
    const connection = await StormConnection.open(daemon.port);
    const { id, credential } = await connection.register("local/parent");
    return { connection, id, spawn: spawnBytes(credential, "local/child") };
  }));
  try {
    for (let round = 0; round < rounds; round++) {
      if (round % 2 === 0) await home.install("child", `# ${round}\n`);
      const replies = await Promise.all(racers.map(({ connection, spawn }) => connection.exchange(spawn)));
      const granted = replies.flatMap(({ status, body }, index) => status === 200 ? [{ index, body }] : []);
      assert.equal(granted.length, free, `round ${round}`);
      for (const { status, body } of replies) {
        if (status === 200) continue;
        assert.equal(status, 403);
        assert.ok(body.error.startsWith("machine capsule ceiling "), body.error);
        assert.ok(body.error.includes(` already holding ${parents + free} `), body.error);
      }
      const { body } = await racers[0]!.connection.request("GET", `/status/${racers[0]!.id}`);
      assert.equal(body.live_capsules, parents + free, `round ${round}`);
      // All at once again: every slot comes back, and none twice.
      await Promise.all(granted.map(async ({ index, body }) => {
        const { connection } = racers[index]!;
        const child = await connection.register("local/child", body.approval);
        await connection.deregister(child.credential);
      }));
    }
    const { body } = await racers[0]!.connection.request("GET", `/status/${racers[0]!.id}`);
    assert.equal(body.live_capsules, parents);
  } finally {
    for (const { connection } of racers) connection[Symbol.dispose]();
  }
}

/** A generator of numbers that gives the same ones for the same seed (xorshift32). */
export function seededRandom(seed: number): (below: number) => number {
  let state = seed | 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

const TOKEN_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ ";

/** A token changed in one to three places, and not in blanks around it, which no header keeps. */
export function mutatedToken(token: string, random: (below: number) => number): string {
  for (;;) {
    let text = token;
    for (let change = 1 + random(3); change > 0; change--) {
      const at = random(text.length);
      const letter = TOKEN_LETTERS[random(TOKEN_LETTERS.length)]!;
      switch (random(6)) {
        case 0:
          text = text.slice(0, at) + text.slice(at + 1);
          break;
        case 1:
          text = text.slice(0, at) + letter + text.slice(at);
          break;
        case 2:
          text = text.slice(0, at);
          break;
        case 3: {
          const segments = text.split(".");
          const first = random(segments.length), second = random(segments.length);
          [segments[first], segments[second]] = [segments[second]!, segments[first]!];
          text = segments.join(".");
          break;
        }
        default:
          text = text.slice(0, at) + letter + text.slice(at + 1);
      }
    }
    if (text.trim() !== token) return text;
  }
}

/**
 * Sends changed credentials and approvals wherever one is asked for. What the true ones may do, they may do afterwards.
 *
 * @returns The different answers.
 */
export async function sendChangedTokens(daemon: RoostDaemon, count: number): Promise<ReadonlySet<string>> {
  using connection = await StormConnection.open(daemon.port);
  const { id, credential } = await connection.register("local/parent");
  const { approval } = (await connection.spawn(credential, "local/child")).body;
  const random = seededRandom(1);
  const answers = new Set<string>();
  for (let sent = 0; sent < count; sent++) {
    const reply = sent % 3 === 0
      ? await connection.spawn(mutatedToken(credential, random), "local/child")
      : sent % 3 === 1
      ? await connection.post("/deregister", { outcome: "complete" }, {
        "x-murmur-spawn-credential": mutatedToken(credential, random),
      })
      : await connection.post("/register", { session_id: `s${sent}`, name: "local/child", version: "1.0.0" }, {
        "x-murmur-spawn-approval": mutatedToken(approval, random),
      });
    answers.add(`${reply.status} ${JSON.stringify(reply.body)}`);
  }
  const { body } = await connection.request("GET", `/status/${id}`);
  assert.deepEqual([body.status, body.live_children, body.live_capsules], ["running", 1, 2]);
  assert.equal((await connection.register("local/child", approval)).credential.slice(0, 5), "msc1.");
  return answers;
}

/** A body changed in a few bytes, cut or doubled. */
export function mutatedBody(body: string, random: (below: number) => number): Uint8Array<ArrayBuffer> {
  let bytes = encoder.encode(body);
  for (let change = 1 + random(4); change > 0; change--) {
    const at = random(bytes.length + 1);
    switch (random(5)) {
      case 0:
        bytes = bytes.slice(0, at);
        break;
      case 1:
        bytes = Uint8Array.of(
          ...bytes.subarray(0, at),
          ...encoder.encode(FRAGMENTS[random(FRAGMENTS.length)]),
          ...bytes.subarray(at),
        );
        break;
      case 2:
        bytes = Uint8Array.of(...bytes, ...bytes);
        break;
      default:
        bytes[at] = random(256);
    }
  }
  return bytes;
}

const FRAGMENTS = [
  '"',
  "\\u0000",
  "\\ud800",
  "{",
  "}",
  "[[[[",
  "null",
  "1e999",
  '"name":',
  "__proto__",
  "\u{1f600}",
  ",",
  "/",
  "..",
];
