/**
 * A tool that exercises the guest library inside a component; each operation answers with what it saw.
 *
 * @module
 */
import { config, env, environment } from "murmur/environment";
import { FileError, files } from "murmur/files";
import { serverSentEvents } from "murmur/sse";
import { defineTool, ToolFailure } from "murmur/tool";

const startedAt = Date.now();
const firstRandom = Math.random();

interface Input {
  readonly op: string;
  readonly url?: string;
  readonly path?: string;
  readonly text?: string;
  readonly names?: readonly string[];
  readonly size?: number;
}

const sleep = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

async function* numbers(): AsyncGenerator<number> {
  for (let i = 0; i < 3; i++) {
    await sleep(1);
    yield i;
  }
}

class Counter {
  #value = 0;
  async add(by: number): Promise<number> {
    await null;
    return this.#value += by;
  }
}

function codeOf(action: () => unknown): string {
  try {
    action();
    return "ok";
  } catch (error) {
    return error instanceof FileError ? error.code : String(error);
  }
}

async function failure(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return "no failure";
  } catch (error) {
    const { name, message, code } = error as Error & { code?: unknown };
    return { name, message, code };
  }
}

const operations: Record<string, (input: Input, context: { emitChunk(text: string): void }) => unknown> = {
  halves(_input, context) {
    const half = "\u{1f600}".slice(0, 1);
    context.emitChunk(`chunk ${half}`);
    if (codeOf(() => files.write(`name ${half}`, "x")) !== "illegal-byte-sequence") throw new Error("a file was made");
    throw new ToolFailure(`cut ${half}`);
  },
  async order() {
    const log: string[] = [];
    setTimeout(() => log.push("timer 0"), 0);
    queueMicrotask(() => log.push("microtask"));
    const later = (async () => {
      log.push("sync part");
      await null;
      log.push("after await");
      return "returned";
    })();
    log.push("running");
    log.push(await later);
    await sleep(5);
    return log;
  },
  async parallel() {
    const start = performance.now();
    await Promise.all([sleep(120), sleep(120), sleep(120)]);
    return performance.now() - start;
  },
  async language() {
    const seen: number[] = [];
    for await (const number of numbers()) seen.push(number);
    const counter = new Counter();
    await counter.add(2);
    using resource = { [Symbol.dispose]: () => void seen.push(99) };
    return {
      seen,
      counted: await counter.add(3),
      resource: typeof resource,
      settled: await Promise.allSettled([Promise.resolve(1), Promise.reject(new Error("no"))])
        .then((all) => all.map(({ status }) => status)),
      any: await Promise.any([Promise.reject(1), Promise.resolve("first")]),
      race: await Promise.race([sleep(50).then(() => "slow"), sleep(1).then(() => "fast")]),
      iterable: await Promise.all(new Set([Promise.resolve("a"), "b"])),
      isPromise: sleep(0) instanceof Promise,
      at: [1, 2, 3].at(-1),
      grouped: Object.groupBy([1, 2, 3], (item) => (item % 2 === 0 ? "even" : "odd")),
      sets: [...new Set([1, 2, 3]).intersection(new Set([2, 3, 4]))],
      lazy: [1, 2, 3, 4].values().filter((item) => item > 2).toArray(),
      named: /(?<year>\d{4})/u.exec("in 2026")?.groups?.["year"],
      big: String(2n ** 70n),
    };
  },
  async unhandled() {
    void Promise.reject(new Error("nobody cares"));
    setTimeout(() => {
      throw new Error("from a timer");
    }, 0);
    await sleep(5);
    return "survived";
  },
  deadlock: () => new Promise(() => {}),
  clock: () => ({ startedAt, now: Date.now(), firstRandom, random: Math.random(), uuid: crypto.randomUUID() }),
  missing: ({ names = [] }) => names.filter((name) => !(name in globalThis)),
  text() {
    const encoder = new TextEncoder();
    const decoder = new TextDecoder();
    const parts = [0xf0, 0x9f, 0x98, 0x80].map((byte) => decoder.decode(Uint8Array.of(byte), { stream: true }));
    return {
      bytes: [...encoder.encode("aä€😀\ud800")],
      back: new TextDecoder().decode(encoder.encode("aä€😀")),
      parts,
      invalid: new TextDecoder().decode(Uint8Array.of(0x61, 0xff, 0xc3, 0x62)),
      fatal: codeOf(() => new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.of(0xff))),
      latin: new TextDecoder("windows-1252").decode(Uint8Array.of(0xe4, 0x80)),
      base64: [btoa("a\u00ff"), atob("Yf8=").charCodeAt(1)],
      long: new TextDecoder().decode(encoder.encode("grüße ".repeat(20_000))).length,
    };
  },
  urls() {
    const url = new URL("../c?q=ä b#x", "https://user@Bücher.example:443/a/b/");
    url.searchParams.append("n", "1&2");
    return { href: url.href, host: url.host, query: [...url.searchParams], invalid: URL.canParse("http://[::1") };
  },
  async abort() {
    const controller = new AbortController();
    const seen: string[] = [];
    controller.signal.addEventListener("abort", () => seen.push("heard"));
    controller.abort(new Error("enough"));
    const timed = AbortSignal.any([new AbortController().signal, AbortSignal.timeout(10)]);
    await sleep(30);
    return { seen, reason: String(controller.signal.reason), timed: (timed.reason as Error).name };
  },
  clone() {
    const value: Record<string, unknown> = { date: new Date(0), map: new Map([["a", new Set([1])]]) };
    value["self"] = value;
    const copy = structuredClone(value);
    return {
      same: copy === value,
      circle: copy["self"] === copy,
      date: copy["date"],
      refused: codeOf(() => structuredClone(() => 1)),
    };
  },
  surroundings: () => ({ config: config(), env: env("MURMUR_SESSION_ID"), absent: env("HOME"), all: environment() }),
  console() {
    console.log("out", { a: [1, "x"] }, new Error("shown").message);
    console.error("err");
    console.info("long ".repeat(2_000).length);
    return "printed";
  },
  chunks(_input, context) {
    context.emitChunk("one ");
    context.emitChunk("two");
    return "done";
  },
  files() {
    files.mkdir("a/b", { recursive: true });
    files.write("a/b/note.txt", "first\n");
    files.append("a/b/note.txt", "zweite Zeile ä\n");
    files.append("a/b/big.bin", new Uint8Array(300_000).fill(7));
    files.rename("a/b/note.txt", "a/moved.txt");
    const stat = files.stat("a/moved.txt");
    const seen = {
      text: files.readText("a/moved.txt"),
      range: new TextDecoder().decode(files.readBytes("a/moved.txt", { offset: 6, length: 6 })),
      big: files.readBytes("a/b/big.bin").every((byte) => byte === 7),
      size: files.stat("a/b/big.bin").size,
      kind: stat.kind,
      fresh: stat.modified !== null && Math.abs(Date.now() - stat.modified.getTime()) < 60_000,
      list: files.list("a"),
      exists: [files.exists("a/moved.txt"), files.exists("a/none"), files.exists("a/moved.txt/none")],
    };
    files.write("a/moved.txt", "x");
    const shorter = files.readText("a/moved.txt");
    files.remove("a", { recursive: true });
    return { ...seen, shorter, gone: !files.exists("a") };
  },
  refused: ({ names = [] }) =>
    names.map((path) => [
      path,
      codeOf(() => files.readText(path)),
      codeOf(() => files.write(path, "x")),
      codeOf(() => files.list(path)),
      codeOf(() => files.remove(path)),
    ]),
  fileErrors() {
    files.write("f", "x");
    const codes = [
      codeOf(() => files.readText("none")),
      codeOf(() => files.readText(".")),
      codeOf(() => files.list("f")),
      codeOf(() => files.mkdir("f")),
      codeOf(() => files.readText("")),
    ];
    files.remove("f");
    return codes;
  },
  async fetchJson({ url = "" }) {
    const response = await fetch(url, {
      method: "POST",
      headers: { "X-Probe": "yes" },
      body: JSON.stringify({ text: "grüße" }),
    });
    return { status: response.status, type: response.headers.get("content-type"), body: await response.json() };
  },
  async fetchStream({ url = "", size = 0 }) {
    async function* body() {
      for (let sent = 0; sent < size; sent += 50_000) {
        await sleep(0);
        yield new Uint8Array(Math.min(50_000, size - sent)).fill(1);
      }
    }
    const response = await fetch(url, { method: "PUT", body: body() });
    let received = 0;
    for await (const chunk of response.body ?? []) received += chunk.length;
    return { status: response.status, received };
  },
  async fetchMany({ url = "" }) {
    const start = Date.now();
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => fetch(`${url}?n=${i}`).then((r) => r.text())),
    );
    return { answers, milliseconds: Date.now() - start };
  },
  async events({ url = "" }) {
    const seen: { event: string; data: string; at: number }[] = [];
    for await (const { event, data } of serverSentEvents(await fetch(url))) {
      seen.push({ event, data, at: Date.now() });
      if (data === "stop") break;
    }
    return seen;
  },
  async redirect({ url = "" }) {
    const followed = await fetch(url, { method: "POST", body: "x", headers: { authorization: "secret" } });
    const manual = await fetch(url, { redirect: "manual" });
    return {
      followed: { url: followed.url, redirected: followed.redirected, body: await followed.json() },
      manual: { status: manual.status, location: manual.headers.get("location") },
      error: await failure(fetch(url, { redirect: "error" })),
    };
  },
  async timeout({ url = "" }) {
    const start = Date.now();
    const failed = await failure(fetch(url, { signal: AbortSignal.timeout(100) }));
    return { failed, milliseconds: Date.now() - start };
  },
  async abortBody({ url = "" }) {
    const controller = new AbortController();
    const response = await fetch(url, { signal: controller.signal });
    setTimeout(() => controller.abort(), 50);
    return await failure(response.text());
  },
  failure: ({ url = "" }) => failure(fetch(url)),
  fails: ({ text }) => {
    throw new ToolFailure(text);
  },
  throws: ({ text }) => {
    throw new RangeError(text);
  },
  async rejects({ text }) {
    await sleep(1);
    throw new Error(text);
  },
  nothing: () => undefined,
};

export default defineTool<Input>({
  async run(input, context) {
    const operation = operations[input.op];
    if (operation === undefined) throw new ToolFailure(`no such operation: ${input.op}`);
    const data = await operation(input, context);
    return data === undefined ? undefined : { data: JSON.stringify(data), metadata: { op: input.op } };
  },
});
