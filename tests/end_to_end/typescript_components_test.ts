/**
 * Components written in TypeScript: built from a directory of their own, run by the component runtime.
 *
 * @module
 */
import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import {
  type CallContext,
  ComponentFailure,
  type OutgoingHttp,
  OutgoingHttpError,
} from "../../runtime/component/component_runtime.ts";
import { Harness } from "../../runtime/component/testing/harness.ts";
import { assets } from "../../toolchain/assets.ts";
import { AUTHOR_GLOBALS } from "../../toolchain/author_globals.ts";
import { buildComponent, type ComponentRole } from "../../toolchain/component_build.ts";
import { checkTypes, guestLib } from "../../toolchain/type_check.ts";

const FIXTURES = decodeURIComponent(new URL("./typescript_components/", import.meta.url).pathname);

async function inDirectory<T>(
  files: Readonly<Record<string, string>>,
  use: (directory: string) => Promise<T>,
): Promise<T> {
  const directory = await Deno.makeTempDir({ prefix: "murmur-typescript-" });
  try {
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${directory}/${name}`, text);
    return await use(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function buildSource(
  files: Readonly<Record<string, string>>,
  role: ComponentRole = "tool",
): Promise<Uint8Array<ArrayBuffer>> {
  return await inDirectory(
    files,
    async (directory) =>
      (await buildComponent({ entry: `${directory}/entry.ts`, role, name: "made", version: "1.2.3" })).wasm,
  );
}

async function buildFailure(
  files: Readonly<Record<string, string>>,
  role: ComponentRole = "tool",
): Promise<MurError> {
  try {
    await buildSource(files, role);
  } catch (error) {
    if (error instanceof MurError) return error;
    throw error;
  }
  throw new Error("the build succeeded");
}

let probe: Promise<Uint8Array<ArrayBuffer>> | null = null;

function probeTool(): Promise<Uint8Array<ArrayBuffer>> {
  probe ??= buildComponent({ entry: `${FIXTURES}guest_probe.ts`, role: "tool", name: "guest-probe", version: "0.1.0" })
    .then(({ wasm }) => wasm);
  return probe;
}

/** Passes requests on to servers of this machine. */
const localHttp: OutgoingHttp = async ({ method, url, headers, body, signal }) => {
  const init = {
    method,
    // A streamed body is sent in chunks, so the length the guest gave is passed on under another name.
    headers: headers.map(([name, value]): [string, string] => [name === "content-length" ? "x-length" : name, value]),
    body,
    signal,
    redirect: "manual" as const,
    duplex: "half",
  };
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    throw new OutgoingHttpError("connection-refused", String(error));
  }
  return {
    status: response.status,
    headers: [...response.headers],
    body: response.body ?? new Blob([]).stream(),
  };
};

type Operate = (op: string, input?: Readonly<Record<string, unknown>>, context?: CallContext) => Promise<unknown>;

async function withProbe(
  changes: Parameters<Harness["spec"]>[1],
  use: (operate: Operate, harness: Harness) => Promise<void>,
  preopened = false,
): Promise<void> {
  await using harness = new Harness();
  const preopens = preopened ? [harness.preopen(".")] : [];
  const spec = await harness.spec(await probeTool(), { preopens, http: localHttp, ...changes });
  await use(async (op, input = {}, context = {}) => {
    const result = await harness.call(spec, { op, ...input }, context);
    assert.equal(result.status, "passed", result.data ?? "");
    return JSON.parse(result.data ?? "null");
  }, harness);
}

Deno.test("a tool in a directory of its own builds, runs, and builds to the same bytes again", async () => {
  const files = {
    "entry.ts": `import { defineTool } from "murmur/tool";
import { shout } from "./shout.ts";
export default defineTool<{ name: string }>({ run: ({ name }) => shout(\`hello \${name}\`) });
`,
    "shout.ts": "export const shout = (text: string): string => text.toUpperCase();\n",
  };
  const wasm = await buildSource(files);
  // From another directory and at another time: neither may leave a trace.
  assert.deepEqual(await buildSource(files), wasm);
  await using harness = new Harness();
  const spec = await harness.spec(wasm);
  assert.deepEqual(spec.compiled.exports.filter((name) => name.includes(":")), ["murmur:tool/run@0.1.0"]);
  for (const name of spec.compiled.imports) {
    assert.match(name, /^(?:wasi:[a-z]+\/[a-z-]+@0\.2\.|murmur:(?:task\/task|text\/chunks)@0\.1\.0$)/);
  }
  const result = await harness.call(spec, { name: "you" });
  assert.deepEqual(result, {
    status: "passed",
    summary: null,
    data: "HELLO YOU",
    dataPath: null,
    truncated: false,
    metadata: [],
  });
});

Deno.test("asynchronous code runs in the order every engine gives", async () => {
  await withProbe({}, async (operate) => {
    assert.deepEqual(await operate("order"), [
      "sync part",
      "running",
      "microtask",
      "after await",
      "returned",
      "timer 0",
    ]);
    const parallel = await operate("parallel") as number;
    assert.ok(parallel >= 119 && parallel < 330, String(parallel));
    assert.deepEqual(await operate("language"), {
      // 99 comes from the end of a `using` declaration.
      seen: [0, 1, 2, 99],
      counted: 5,
      resource: "object",
      settled: ["fulfilled", "rejected"],
      any: "first",
      race: "fast",
      iterable: ["a", "b"],
      isPromise: true,
      at: 3,
      grouped: { odd: [1, 3], even: [2] },
      sets: [2, 3],
      lazy: [3, 4],
      named: "2026",
      big: "1180591620717411303424",
    });
  });
});

Deno.test("errors become results, and what no one catches is logged", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await probeTool());
  const lines: string[] = [];
  const call = async (input: unknown) => {
    const { status, data } = await harness.call(spec, input, {
      output: (stream, line) => lines.push(`${stream} ${line}`),
    });
    return [status, data];
  };
  assert.deepEqual(await call({ op: "fails", text: "not today" }), ["failed", "not today"]);
  assert.equal(lines.length, 0);
  assert.deepEqual(await call({ op: "throws", text: "too far" }), ["error", "RangeError: too far"]);
  assert.equal(lines[0], "stderr RangeError: too far");
  assert.deepEqual(await call({ op: "rejects", text: "later" }), ["error", "later"]);
  assert.deepEqual(await call({ op: "nothing" }), ["passed", null]);
  const [status, text] = await call({ op: "deadlock" });
  assert.equal(status, "error");
  assert.match(String(text), /nothing can settle/);
  lines.length = 0;
  assert.deepEqual(await call({ op: "unhandled" }), ["passed", '"survived"']);
  assert.ok(lines.some((line) => line.includes("uncaught: Error: nobody cares")), lines.join("\n"));
  assert.ok(lines.some((line) => line.includes("uncaught: Error: from a timer")), lines.join("\n"));
});

Deno.test("half a surrogate pair, as a cut emoji leaves one, ends no component", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await probeTool(), { preopens: [harness.preopen(".")] });
  const chunks: string[] = [];
  const { status, data } = await harness.call(spec, { op: "halves" }, { emitChunk: (text) => chunks.push(text) });
  assert.deepEqual([status, data, chunks], ["failed", "cut \ufffd", ["chunk \ufffd"]]);
});

Deno.test("clock and randomness are those of the instance", async () => {
  await withProbe({}, async (operate) => {
    interface Clock {
      startedAt: number;
      now: number;
      firstRandom: number;
      random: number;
      uuid: string;
    }
    const before = Date.now();
    const first = await operate("clock") as Clock;
    const second = await operate("clock") as Clock;
    assert.ok(first.startedAt >= before - 5 && first.now <= Date.now() + 5, JSON.stringify(first));
    assert.ok(second.startedAt >= first.now);
    assert.equal(new Set([first.firstRandom, first.random, second.firstRandom, second.random]).size, 4);
    assert.match(first.uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.notEqual(first.uuid, second.uuid);
  });
});

Deno.test("every global an author is promised is there", async () => {
  const { lib } = await assets();
  const ours = [...AUTHOR_GLOBALS.matchAll(/^ {2}(?:const|class|function) (\w+)/gm)].map(([, name]) => name);
  const seen = new Set<string>();
  const language: string[] = [];
  const collect = (name: string) => {
    if (seen.has(name)) return;
    seen.add(name);
    const text = guestLib(lib[name] ?? "");
    for (const [, reference] of text.matchAll(/<reference lib="([^"]+)"/g)) collect(`lib.${reference}.d.ts`);
    for (const [, found = ""] of text.matchAll(/^(?:declare )(?:var|function|const) (\w+)/gm)) language.push(found);
  };
  collect("lib.es2025.d.ts");
  collect("lib.esnext.disposable.d.ts");
  assert.ok(ours.length > 20 && language.length > 50, `${ours.length} ${language.length}`);
  await withProbe({}, async (operate) => {
    assert.deepEqual(await operate("missing", { names: [...ours, ...language] }), []);
  });
});

Deno.test("text, URLs, signals and clones", async () => {
  await withProbe({}, async (operate) => {
    assert.deepEqual(await operate("text"), {
      bytes: [97, 195, 164, 226, 130, 172, 240, 159, 152, 128, 239, 191, 189],
      back: "aä€😀",
      parts: ["", "", "", "😀"],
      invalid: "a\ufffd\ufffdb",
      fatal: (await operate("text") as { fatal: string }).fatal,
      latin: "ä€",
      base64: ["Yf8=", 255],
      long: 120_000,
    });
    assert.match((await operate("text") as { fatal: string }).fatal, /^TypeError/);
    assert.deepEqual(await operate("urls"), {
      href: "https://user@xn--bcher-kva.example/a/c?q=%C3%A4+b&n=1%262#x",
      host: "xn--bcher-kva.example",
      query: [["q", "ä b"], ["n", "1&2"]],
      invalid: false,
    });
    assert.deepEqual(await operate("abort"), { seen: ["heard"], reason: "Error: enough", timed: "TimeoutError" });
    assert.deepEqual(await operate("clone"), {
      same: false,
      circle: true,
      date: "1970-01-01T00:00:00.000Z",
      refused: "DataCloneError: a function cannot be cloned",
    });
  });
});

Deno.test("environment, configuration, console and chunks", async () => {
  const environment = { MURMUR_SESSION_ID: "ses_1", MURMUR_ARTIFACT_CONFIG: '{"limit":3}' };
  await withProbe({ environment }, async (operate) => {
    assert.deepEqual(await operate("surroundings"), { config: { limit: 3 }, env: "ses_1", all: environment });
    const lines: string[] = [];
    const chunks: string[] = [];
    const context: CallContext = {
      output: (stream, line) => lines.push(`${stream}: ${line}`),
      emitChunk: (text) => chunks.push(text),
    };
    await operate("console", {}, context);
    assert.deepEqual(lines, ['stdout: out { a: [ 1, "x" ] } shown', "stderr: err", "stdout: 10000"]);
    await operate("chunks", {}, context);
    assert.deepEqual(chunks, ["one ", "two"]);
  });
});

Deno.test("files of the work folder, and no others", async () => {
  await withProbe({}, async (operate, harness) => {
    assert.deepEqual(await operate("files"), {
      text: "first\nzweite Zeile ä\n",
      range: "zweite",
      big: true,
      size: 300_000,
      kind: "file",
      fresh: true,
      list: [{ name: "b", kind: "directory" }, { name: "moved.txt", kind: "file" }],
      exists: [true, false, false],
      shorter: "x",
      gone: true,
    });
    assert.deepEqual(await operate("fileErrors"), ["no-entry", "is-directory", "not-directory", "exist", "invalid"]);
    await Deno.writeTextFile(`${harness.directory}/secret.txt`, "secret");
    await Deno.symlink(`${harness.directory}/secret.txt`, `${harness.work}/link`);
    await Deno.symlink(harness.directory, `${harness.work}/up`);
    const names = [
      "../secret.txt",
      "/etc/passwd",
      "a/../../secret.txt",
      "link",
      "up/secret.txt",
      "./../secret.txt",
      "state/x",
    ];
    for (const [path, ...codes] of await operate("refused", { names }) as string[][]) {
      // The link itself is an entry of the work folder and may be removed.
      const own = path === "link" ? codes.slice(0, 3) : codes;
      assert.ok(own.every((code) => code !== "ok"), `${path}: ${codes.join(" ")}`);
    }
    assert.equal(await Deno.readTextFile(`${harness.directory}/secret.txt`), "secret");
  }, true);
  await withProbe({}, async (operate) => {
    assert.deepEqual(await operate("refused", { names: ["a.txt"] }), [
      ["a.txt", "not-permitted", "not-permitted", "not-permitted", "not-permitted"],
    ]);
  });
});

async function withServer(
  handler: (request: Request, url: URL) => Response | Promise<Response>,
  use: (origin: string) => Promise<void>,
): Promise<void> {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => handler(request, new URL(request.url)),
  );
  try {
    await use(`http://127.0.0.1:${server.addr.port}`);
  } finally {
    await server.shutdown();
  }
}

function events(pause: number): Response {
  const encoder = new TextEncoder();
  return new Response(
    new ReadableStream<Uint8Array>({
      async start(controller) {
        // Never closed: the reader leaves.
        const parts = [
          ": hello\n\nevent: greet",
          "ing\ndata: one\n\n",
          "data: two\r\ndata: lines\r\n\r\n",
          "data: stop\n\n",
        ];
        for (const part of parts) {
          controller.enqueue(encoder.encode(part));
          await new Promise((resolve) => setTimeout(resolve, pause));
        }
      },
    }),
    { headers: { "content-type": "text/event-stream" } },
  );
}

Deno.test("requests, streams, events, redirects and time-outs", async () => {
  let abandoned = 0;
  const handler = async (request: Request, url: URL): Promise<Response> => {
    switch (url.pathname) {
      case "/echo":
        return Response.json({
          method: request.method,
          probe: request.headers.get("x-probe"),
          type: request.headers.get("content-type"),
          length: request.headers.get("x-length"),
          encoding: request.headers.get("accept-encoding"),
          authorization: request.headers.get("authorization"),
          body: await request.text(),
        });
      case "/double": {
        const length = (await request.arrayBuffer()).byteLength;
        return new Response(new Uint8Array(2 * length));
      }
      case "/slow-number":
        await new Promise((resolve) => setTimeout(resolve, 150));
        return new Response(url.searchParams.get("n"));
      case "/events":
        return events(60);
      case "/moved":
        return new Response(null, { status: 302, headers: { location: "/echo" } });
      case "/never":
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        return new Response("late");
      case "/endless": {
        let open = true;
        return new Response(
          new ReadableStream({
            async pull(controller) {
              await new Promise((resolve) => setTimeout(resolve, 10));
              if (open) controller.enqueue(new Uint8Array(10));
            },
            cancel() {
              open = false;
              abandoned++;
            },
          }),
        );
      }
      default:
        return new Response("no", { status: 404 });
    }
  };
  await withServer(handler, (origin) =>
    withProbe({}, async (operate) => {
      assert.deepEqual(await operate("fetchJson", { url: `${origin}/echo` }), {
        status: 200,
        type: "application/json",
        body: {
          method: "POST",
          probe: "yes",
          type: "text/plain;charset=UTF-8",
          length: "18",
          encoding: "identity",
          authorization: null,
          body: '{"text":"grüße"}',
        },
      });
      assert.deepEqual(await operate("fetchStream", { url: `${origin}/double`, size: 1_234_567 }), {
        status: 200,
        received: 2_469_134,
      });
      const many = await operate("fetchMany", { url: `${origin}/slow-number` }) as {
        answers: string[];
        milliseconds: number;
      };
      assert.deepEqual(many.answers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
      assert.ok(many.milliseconds < 900, `one after the other: ${many.milliseconds} ms`);
      const seen = await operate("events", { url: `${origin}/events` }) as {
        event: string;
        data: string;
        at: number;
      }[];
      assert.deepEqual(seen.map(({ event, data }) => [event, data]), [
        ["greeting", "one"],
        ["message", "two\nlines"],
        ["message", "stop"],
      ]);
      assert.ok(seen[2]!.at - seen[0]!.at >= 80, "the events came all at once");
      assert.deepEqual(await operate("redirect", { url: `${origin}/moved` }), {
        followed: {
          url: `${origin}/echo`,
          redirected: true,
          body: {
            method: "GET",
            probe: null,
            type: null,
            length: null,
            encoding: "identity",
            authorization: "secret",
            body: "",
          },
        },
        manual: { status: 302, location: "/echo" },
        error: { name: "TypeError", message: `${origin} answered with a redirect` },
      });
      const timed = await operate("timeout", { url: `${origin}/never` }) as {
        failed: { name: string };
        milliseconds: number;
      };
      assert.equal(timed.failed.name, "TimeoutError");
      assert.ok(timed.milliseconds < 900, String(timed.milliseconds));
      assert.deepEqual(await operate("abortBody", { url: `${origin}/endless` }), {
        name: "AbortError",
        message: "The operation was aborted",
        code: 20,
      });
      assert.deepEqual(await operate("failure", { url: "ftp://127.0.0.1/" }), {
        name: "TypeError",
        message: "fetch speaks http and https, not ftp:",
      });
    }));
  assert.equal(abandoned, 1);
});

Deno.test("a request outside the rules says so", async () => {
  const http: OutgoingHttp = () => Promise.reject(new OutgoingHttpError("HTTP-request-denied", "no"));
  await withProbe({ http }, async (operate) => {
    assert.deepEqual(await operate("failure", { url: "https://example.com:444/x?secret" }), {
      name: "FetchError",
      message: "the request to https://example.com:444 was refused: no network.allow covers it",
      code: "HTTP-request-denied",
    });
  });
});

Deno.test("a script capsule calls tools and reads its input", async () => {
  const wasm = await buildSource({
    "entry.ts": `import { defineCapsule } from "murmur/capsule";
export default defineCapsule({
  async run({ invoke, readStdin }) {
    const input = await readStdin();
    const answer = invoke("count", { text: input });
    console.log(answer.status, answer.data);
    try { invoke("other"); } catch (error) { console.log((error as Error).message); }
    if (input.includes("fail")) throw new Error("asked to fail");
  },
});
`,
  }, "capsule");
  await using harness = new Harness();
  const spec = await harness.spec(wasm, { role: "capsule" });
  const run = async (stdin: string[]) => {
    const lines: string[] = [];
    await harness.runtime.runCapsule(spec, {
      output: (_stream, line) => lines.push(line),
      readStdin: () => Promise.resolve(stdin.length === 0 ? null : new TextEncoder().encode(stdin.shift())),
      invoke: (name, input) =>
        name === "count"
          ? Promise.resolve({
            status: "passed",
            summary: null,
            data: String(JSON.parse(input.data ?? "").text.length),
            dataPath: null,
            truncated: false,
            metadata: [],
          })
          : Promise.reject(`tool '${name}' is not declared in manifest allowlist`),
    });
    return lines;
  };
  assert.deepEqual(await run(["four", "teen letters"]), [
    "passed 16",
    "tool 'other' is not declared in manifest allowlist",
  ]);
  await assert.rejects(run(["fail"]), (error) => error instanceof ComponentFailure && error.kind === "trap");
});

Deno.test("a build names what is wrong, where, and how", async (t) => {
  await t.step("types", async () => {
    const error = await buildFailure({
      "entry.ts":
        'import { defineTool } from "murmur/tool";\nimport { size } from "./helper.ts";\nexport default defineTool({ run: () => `${size}` });\n',
      "helper.ts": 'export const ok = 1;\n\texport const size: number = "ä", b = 2;\n',
    });
    assert.equal(error.code, "E-BLD-005");
    assert.match(error.message, /entry\.ts does not type-check: Type 'string' is not assignable to type 'number'/);
    assert.match(error.place?.file ?? "", /\/helper\.ts$/);
    assert.deepEqual([error.place?.line, error.place?.column], [2, 15]);
    assert.equal(error.place?.text, '\texport const size: number = "ä", b = 2;');
  });
  const cases: Record<string, [string, RegExp, number]> = {
    "syntax": ["export default {\n  run( {\n", /does not bundle/, 3],
    "a missing file": ['\nimport "./none.ts";\n', /Could not resolve "\.\/none\.ts"/, 2],
    "Node": [
      'import { readFileSync } from "node:fs";\nexport default readFileSync;\n',
      /node:fs is not available: a component runs without Node/,
      1,
    ],
    "an import from elsewhere": [
      'import x from "https://example.com/x.ts";\nexport default x;\n',
      /is not available: import files beside/,
      1,
    ],
    "an interface": ['import * as x from "wasi:http/types";\nexport default x;\n', /cannot be imported directly/, 1],
    "an unknown module": ['import "murmur/none";\n', /there is no module murmur\/none/, 1],
    "an await outside a function": ["await 1;\nexport default {};\n", /top-level await is not available/, 1],
    "the DOM": ["document.title;\nexport default {};\n", /Cannot find name 'document'/, 1],
    "Deno": ["export default Deno.cwd();\n", /Cannot find name 'Deno'/, 1],
    "Intl": ["export default new Intl.NumberFormat();\n", /does not type-check/, 1],
  };
  for (const [name, [source, message, line]] of Object.entries(cases)) {
    await t.step(name, async () => {
      const error = await buildFailure({ "entry.ts": source });
      assert.equal(error.code, "E-BLD-005");
      assert.match(error.message, message);
      assert.equal(error.place?.line, line);
    });
  }
});

Deno.test("a directory's name may hold any letter", async () => {
  await inDirectory({}, async (directory) => {
    const odd = `${directory}/back\\slash %20 #?é`;
    await Deno.mkdir(`${odd}/node_modules/packed`, { recursive: true });
    await Deno.writeTextFile(`${odd}/node_modules/packed/index.ts`, "export const one: number = 1;\n");
    await Deno.writeTextFile(`${odd}/node_modules/packed/package.json`, '{"name":"packed","main":"index.ts"}');
    await Deno.writeTextFile(
      `${odd}/entry.ts`,
      `import { defineTool } from "murmur/tool";
import { one } from "packed";
import { two } from "./two.ts";
export default defineTool({ run: () => \`\${one}\${two}\` });
`,
    );
    await Deno.writeTextFile(`${odd}/two.ts`, "export const two = 2;\n");
    const source = { entry: `${odd}/entry.ts`, role: "tool", name: "made", version: "1.2.3" } as const;
    await buildComponent(source);
    await Deno.writeTextFile(`${odd}/two.ts`, "export const two: string = 2;\n");
    await assert.rejects(buildComponent(source), (error) => {
      assert.ok(error instanceof MurError);
      assert.deepEqual([error.place?.file, error.place?.line], [`${odd}/two.ts`, 1]);
      return true;
    });
  });
});

Deno.test("an entry that is not there is an error of files", async () => {
  await assert.rejects(
    buildComponent({ entry: "/none/entry.ts", role: "tool", name: "x", version: "1" }),
    (error) => error instanceof MurError && error.code === "E-IO-001",
  );
});

Deno.test("a file whose default export is not what its role needs is refused", async (t) => {
  const tool = 'import { defineTool } from "murmur/tool";\n';
  const refused: Record<string, [ComponentRole, string, RegExp, number | undefined]> = {
    "none": ["tool", "export const tool = 1;\n", /entry\.ts has no default export, and a tool is one/, undefined],
    "an empty file": ["tool", "", /has no default export/, undefined],
    "a type": ["tool", "\nexport default interface X { run(): string }\n", /has only a type as its default/, 2],
    "text": ["tool", '\nexport default "hello";\n', /has a default export that is not made by defineTool/, 2],
    "the function itself": ["tool", `${tool}export default () => defineTool({ run: () => "" });\n`, /not made by/, 2],
    "a promise": [
      "tool",
      `${tool}export default Promise.resolve(defineTool({ run: () => "" }));\n`,
      /not made by defineTool/,
      2,
    ],
    "no function": ["tool", "export default { run: 5 };\n", /not made by defineTool/, 1],
    "perhaps a function": [
      "tool",
      "const t: { run?: () => string } = {};\nexport default t;\n",
      /not made by defineTool/,
      2,
    ],
    "a tool as a driver": [
      "driver",
      `${tool}export default defineTool({ run: () => "" });\n`,
      /is a tool by its default export, and a driver by its manifest/,
      2,
    ],
    "a tool as a hook": [
      "hook",
      `${tool}export default defineTool({ run: () => "" });\n`,
      /is a tool by its default export, and a hook by its manifest/,
      2,
    ],
    "no event": ["hook", "export default { onTea() {} };\n", /not made by defineHook/, 1],
    "a capsule as a tool": [
      "tool",
      'import { defineCapsule } from "murmur/capsule";\nexport default defineCapsule({ run() {} });\n',
      /is a capsule by its default export, and a tool by its manifest/,
      2,
    ],
    "a tool as a capsule": [
      "capsule",
      `${tool}const t = defineTool({ run: () => "" });\nexport { t as default };\n`,
      /is a tool by its default export, and a capsule by its manifest/,
      3,
    ],
  };
  for (const [name, [role, source, message, line]] of Object.entries(refused)) {
    await t.step(name, async () => {
      const error = await buildFailure({ "entry.ts": source }, role);
      assert.equal(error.code, "E-BLD-005");
      assert.match(error.message, message);
      assert.equal(error.place?.line, line);
      assert.match(error.hint ?? "", new RegExp(`murmur/${role}".*export default define`));
    });
  }
  const accepted: Record<string, Readonly<Record<string, string>>> = {
    "one made elsewhere": {
      "entry.ts": 'export { made as default } from "./made.ts";\n',
      "made.ts": `${tool}export const made = defineTool({ run: () => "ok" });\n`,
    },
    "one of its own": { "entry.ts": 'export default { run: () => "ok" };\n' },
    "one that cannot be known": { "entry.ts": 'export default JSON.parse("{}");\n' },
  };
  const { types, lib } = await assets();
  for (const [name, files] of Object.entries(accepted)) {
    await t.step(
      name,
      () => inDirectory(files, (directory) => checkTypes(`${directory}/entry.ts`, "tool", types, lib)),
    );
  }
});

Deno.test("an answer that its event does not take does not build", async () => {
  const source =
    'import { defineHook, deny } from "murmur/hook";\nexport default defineHook({ onTaskEnd: () => deny("") });\n';
  const error = await buildFailure({ "entry.ts": source }, "hook");
  assert.equal(error.code, "E-BLD-005");
  assert.match(error.message, /'Deny' is not assignable to type 'ReopenTask'/);
  assert.equal(error.place?.line, 2);
});

Deno.test("a module whose default export turns out wrong fails its calls, not the runtime", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await buildSource({ "entry.ts": 'export default JSON.parse("{}");\n' }));
  const result = await harness.call(spec, {});
  assert.deepEqual([result.status, result.data], [
    "error",
    "TypeError: the module has no default export made by defineTool",
  ]);
});

Deno.test("an error of the top level belongs to the call", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(
    await buildSource({
      "entry.ts":
        'const fail = (): void => {\n  throw new Error("at the top");\n};\nfail();\nexport default { run: () => "" };\n',
    }),
  );
  const result = await harness.call(spec, {});
  assert.deepEqual([result.status, result.data], ["error", "at the top"]);
});

async function wasmtimeVersion(): Promise<string | null> {
  try {
    const { stdout } = await new Deno.Command("wasmtime", { args: ["--version"] }).output();
    return new TextDecoder().decode(stdout).trim();
  } catch {
    return null;
  }
}

Deno.test({
  name: "another host accepts the component",
  ignore: await wasmtimeVersion() === null,
  fn: async () => {
    const directory = await Deno.makeTempDir({ prefix: "murmur-wasmtime-" });
    try {
      await Deno.writeFile(`${directory}/probe.wasm`, await probeTool());
      const args = ["compile", "-o", `${directory}/probe.cwasm`, `${directory}/probe.wasm`];
      const { success, stderr } = await new Deno.Command("wasmtime", { args }).output();
      assert.ok(success, new TextDecoder().decode(stderr));
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});
