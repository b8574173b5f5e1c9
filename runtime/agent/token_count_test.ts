import assert from "node:assert/strict";
import { countTokens } from "gpt-tokenizer/encoding/cl100k_base";
import { buildDriverPayload, type DriverRequest } from "./driver_protocol.ts";
import { assistantMessage, type Message, toolMessage, userMessage } from "./message.ts";
import { estimatedTokens, TokenCounter, type TokenCounterOptions } from "./token_count.ts";

async function withCounter(
  work: (counter: TokenCounter, reports: string[]) => Promise<void>,
  options: TokenCounterOptions = {},
): Promise<void> {
  const reports: string[] = [];
  const counter = new TokenCounter({ report: (text) => void reports.push(text), ...options });
  try {
    await work(counter, reports);
  } finally {
    counter.close();
  }
}

const REQUEST: DriverRequest = {
  model: "m",
  maxTokens: 8192,
  messages: [],
  tools: [{ name: "t", parameters: { type: "object", properties: { b: {}, a: {} } } }],
  system: "[Capsule]\nName: demo",
  promptCacheKey: "demo:1:ctx",
  continuationId: null,
  sendFrom: 0,
};

Deno.test("a worker counts as the library does", () =>
  withCounter(async (counter, reports) => {
    for (const text of ["", "hello world", '{"a":"ä😀"}', "x ".repeat(10_000)]) {
      assert.equal(await counter.text(text), countTokens(text));
    }
    assert.deepEqual(reports, []);
  }));

Deno.test("questions asked together are answered each with its own count", () =>
  withCounter(async (counter) => {
    const texts = Array.from({ length: 50 }, (_, index) => "word ".repeat(index));
    assert.deepEqual(
      await Promise.all(texts.map((text) => counter.text(text))),
      texts.map((text) => countTokens(text)),
    );
  }));

Deno.test("a request is the sum of its parts with sorted keys, and envelope keys do not count", () =>
  withCounter(async (counter) => {
    const messages = [
      userMessage("hi", { fence: "task:event" }),
      assistantMessage([{ type: "tool_call", name: "t", id: "c", input: { z: 1, a: 2 } }]),
      toolMessage({ callId: "c", isError: false, text: "out" }),
    ];
    const payload = buildDriverPayload({ ...REQUEST, messages, continuationId: "k", sendFrom: 2 });
    const parts = [
      '[{"name":"t","parameters":{"properties":{"a":{},"b":{}},"type":"object"}}]',
      '"[Capsule]\\nName: demo"',
      '{"continuation_id":"k","max_tokens":8192,"model":"m","params":{},"prompt_cache_key":"demo:1:ctx"}',
      '{"content":[{"text":"hi","type":"text"}],"role":"user"}',
      '{"content":[{"id":"c","input":{"a":2,"z":1},"name":"t","type":"tool_call"}],"role":"assistant"}',
      '{"content":[{"text":"out","type":"text"}],"is_error":false,"role":"tool","tool_call_id":"c"}',
    ];
    assert.equal(
      await counter.request(payload, messages, REQUEST.system),
      parts.reduce((sum, part) => sum + countTokens(part), 0),
    );
  }));

Deno.test("a turn counts only what is new", async () => {
  const asked: string[][] = [];
  const source = `self.onmessage = ({ data }) => self.postMessage(data.map((text) => text.length));`;
  const start = () => {
    const worker = new Worker(`data:text/javascript,${encodeURIComponent(source)}`, { type: "module" });
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (message: string[]) => {
      asked.push(message);
      post(message);
    };
    return Promise.resolve(worker);
  };
  await withCounter(async (counter) => {
    const messages: Message[] = [userMessage("one")];
    const payload = () => buildDriverPayload({ ...REQUEST, messages });
    const first = await counter.request(payload(), messages, REQUEST.system);
    messages.push(assistantMessage([{ type: "text", text: "two" }]));
    const second = await counter.request(payload(), messages, REQUEST.system);
    const third = await counter.request(payload(), [...messages, messages[0]!], REQUEST.system);
    assert.deepEqual(asked.map((texts) => texts.length), [4, 1]);
    assert.equal(second - first, asked[1]![0]!.length);
    // A message that stands twice in the list counts twice.
    assert.equal(third - second, asked[0]![3]!.length);
  }, { start });
});

Deno.test("the event loop goes on while a large text is counted", () =>
  withCounter(async (counter) => {
    await counter.text("warm");
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    await counter.text(`${"abcdefgh".repeat(60)} `.repeat(4_000));
    clearInterval(timer);
    assert.ok(ticks >= 3, `${ticks} ticks`);
  }));

Deno.test("without a tokenizer a text counts as a quarter of its bytes, told once", async () => {
  const failing: TokenCounterOptions[] = [
    { start: () => Promise.reject(new Error("no workers here")) },
    {
      // Not before it is asked: an error that nobody listens for yet ends the program.
      start: () =>
        Promise.resolve(
          new Worker("data:text/javascript,self.onmessage=()=>{throw new Error('broken')}", { type: "module" }),
        ),
    },
    {
      start: () =>
        Promise.resolve(new Worker("data:text/javascript,self.onmessage=()=>self.postMessage(1)", { type: "module" })),
    },
  ];
  for (const options of failing) {
    await withCounter(async (counter, reports) => {
      assert.equal(await counter.text("ä😀xyz"), Math.ceil(9 / 4));
      assert.equal(await counter.text(""), 0);
      assert.equal(reports.length, 1);
      assert.match(reports[0]!, /estimates/);
    }, options);
  }
  assert.equal(estimatedTokens("abcde"), 2);
});

Deno.test("the worker is not started before it may be", async () => {
  const allowed = Promise.withResolvers<void>();
  let starts = 0;
  const start = () => {
    starts++;
    return Promise.reject(new Error("none here"));
  };
  await withCounter(async (counter) => {
    const count = counter.text("abcdefgh");
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(starts, 0);
    allowed.resolve();
    assert.equal(await count, 2);
    assert.equal(starts, 1);
  }, { start, startAfter: allowed.promise });
});

Deno.test("an idle worker is let go of and comes back when it is needed", async () => {
  let starts = 0;
  let terminated = 0;
  const start = () => {
    starts++;
    const worker = new Worker("data:text/javascript,self.onmessage=({data})=>self.postMessage(data.map(()=>7))", {
      type: "module",
    });
    const terminate = worker.terminate.bind(worker);
    worker.terminate = () => {
      terminated++;
      terminate();
    };
    return Promise.resolve(worker);
  };
  await withCounter(async (counter) => {
    assert.equal(await counter.text("a"), 7);
    await new Promise((resolve) => setTimeout(resolve, 60));
    assert.deepEqual([starts, terminated], [1, 1]);
    assert.equal(await counter.text("a"), 7);
    assert.equal(starts, 2);
  }, { start, idleMs: 20 });
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(terminated, 2);
});

Deno.test("it works in one bundled, minified file", async () => {
  const { build, stop } = await import("esbuild");
  const directory = await Deno.makeTempDir();
  try {
    for (const settings of [{ minify: true }, { target: "es2020" }]) {
      const result = await build({
        stdin: {
          contents: `import { TokenCounter } from "./token_count.ts";
            const counter = new TokenCounter({ report: (text) => console.log(text) });
            console.log(await counter.text("hello bundled world"));
            counter.close();`,
          resolveDir: new URL(".", import.meta.url).pathname,
          loader: "ts",
        },
        bundle: true,
        format: "esm",
        write: false,
        target: "esnext",
        supported: { "top-level-await": true },
        ...settings,
      });
      const file = `${directory}/bundle.js`;
      await Deno.writeFile(file, result.outputFiles[0]!.contents);
      const output = await new Deno.Command(Deno.execPath(), {
        args: ["run", "--no-config", "--cached-only", file],
        env: { DENO_NO_PROMPT: "1" },
      }).output();
      assert.equal(
        new TextDecoder().decode(output.stdout),
        `${countTokens("hello bundled world")}\n`,
        new TextDecoder().decode(output.stderr),
      );
    }
  } finally {
    await stop();
    await Deno.remove(directory, { recursive: true });
  }
});
