/**
 * The first-party tools and the scripted driver, built and packed as `mur build` does and run by the component runtime.
 *
 * @module
 */
import assert from "node:assert/strict";
import { openPackage, readPayload } from "../../artifact/package.ts";
import { type CallContext, type OutgoingHttp, OutgoingHttpError } from "../../runtime/component/component_runtime.ts";
import { Harness } from "../../runtime/component/testing/harness.ts";
import { firstPartyComponents } from "../../scripts/build_components.ts";

type Changes = Parameters<Harness["spec"]>[1];
type Call = (
  input: unknown,
  context?: CallContext,
) => Promise<
  {
    status: string;
    data: string | null;
    dataPath: string | null;
    truncated: boolean;
    metadata: readonly (readonly [string, string])[];
  }
>;

async function withComponent(name: string, changes: Changes, use: (call: Call, harness: Harness) => Promise<void>) {
  const archive = (await firstPartyComponents([name])).get(name)!;
  const opened = await openPackage(await Deno.readFile(archive), name, 1 << 28);
  const component = await readPayload(opened);
  await using harness = new Harness();
  const spec = await harness.spec(component!, { name, preopens: [harness.preopen(".")], ...changes });
  await use((input, context) => harness.call(spec, input, context), harness);
}

Deno.test("the editor reads, writes, patches, lists, finds and searches", async () => {
  await withComponent(
    "murmur-tool-editor",
    { environment: { MURMUR_ARTIFACT_CONFIG: '{"max_output_bytes":2000}' } },
    async (call, harness) => {
      const ok = async (input: Record<string, unknown>) => {
        const result = await call(input);
        assert.equal(result.status, "passed", result.data ?? "");
        return result.data;
      };
      const refused = async (input: Record<string, unknown>) => {
        const result = await call(input);
        assert.equal(result.status, "failed", result.data ?? "");
        return result.data;
      };
      assert.equal(
        await ok({ operation: "write", target_path: "src/a.ts", content: "const a = 1;\nconst b = 2;\n" }),
        "created src/a.ts (2 lines, 26 bytes)",
      );
      assert.equal(await Deno.readTextFile(`${harness.work}/src/a.ts`), "const a = 1;\nconst b = 2;\n");
      assert.match(
        await refused({ operation: "write", target_path: "src/a.ts", content: "", create_only: true }) ?? "",
        /exists already/,
      );
      assert.equal(await ok({ operation: "read", path: "src/a.ts" }), "1\tconst a = 1;\n2\tconst b = 2;");
      assert.equal(
        await ok({ operation: "read", path: "src/a.ts", start_line: 2 }),
        "2\tconst b = 2;\n(lines 2 to 2 of 2 in src/a.ts)",
      );
      assert.match(await refused({ operation: "read", path: "src/a.ts", start_line: 9 }) ?? "", /has 2 lines/);
      assert.equal(
        await ok({ operation: "patch", target_path: "src/a.ts", patch: [{ old_text: "a = 1", new_text: "a = 7" }] }),
        "changed src/a.ts in 1 place",
      );
      const diff =
        "--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,3 @@\n const a = 7;\n-const b = 2;\n+const b = 3;\n+const c = 4;\n";
      assert.equal(
        await ok({ operation: "patch", target_path: "src/a.ts", patch: diff }),
        "changed src/a.ts in 1 place",
      );
      assert.equal(await Deno.readTextFile(`${harness.work}/src/a.ts`), "const a = 7;\nconst b = 3;\nconst c = 4;\n");
      assert.match(await refused({ operation: "patch", target_path: "src/a.ts", patch: diff }) ?? "", /does not fit/);
      await Deno.mkdir(`${harness.work}/node_modules/x`, { recursive: true });
      await Deno.writeTextFile(`${harness.work}/node_modules/x/i.ts`, "const a");
      await Deno.writeFile(`${harness.work}/src/image.bin`, Uint8Array.of(0, 1, 2));
      assert.equal(await ok({ operation: "list", path: "src" }), "a.ts (39 bytes)\nimage.bin (3 bytes)");
      assert.equal(await ok({ operation: "glob", pattern: "**/*.ts" }), "src/a.ts");
      assert.equal(await ok({ operation: "glob", pattern: "*.none" }), "no file matches");
      assert.equal(
        await ok({ operation: "search", pattern: "CONST [bc]", ignore_case: true, include: "**/*.ts" }),
        "src/a.ts:2:const b = 3;\nsrc/a.ts:3:const c = 4;",
      );
      assert.equal(
        await ok({ operation: "search", pattern: "b =", context_lines: 1 }),
        "src/a.ts-1-const a = 7;\nsrc/a.ts:2:const b = 3;\nsrc/a.ts-3-const c = 4;\n(1 binary or very large files were not searched)",
      );
      assert.match(await refused({ operation: "search", pattern: "(" }) ?? "", /no regular expression/);
      assert.match(await refused({ operation: "read", path: "src/image.bin" }) ?? "", /not a text file/);
      assert.match(await refused({ operation: "read", path: "../outside" }) ?? "", /outside the directories/);
      assert.match(
        await refused({ operation: "write", target_path: "/etc/x", content: "x" }) ?? "",
        /outside the directories/,
      );
      assert.match(await refused({ operation: "write", path: "x", content: "x" }) ?? "", /needs target_path/);
      assert.match(await refused({ operation: "toString" }) ?? "", /operation must be one of/);

      await ok({ operation: "write", target_path: "long.txt", content: "a line of some length\n".repeat(500) });
      const read = await call({ operation: "read", path: "long.txt" });
      assert.deepEqual([read.truncated, read.dataPath], [true, "long.txt"]);
      assert.match(read.data ?? "", /\(lines 1 to 7\d of 500 in long\.txt\)$/);
      const search = await call({ operation: "search", pattern: "line", max_results: 500 });
      assert.deepEqual([search.truncated, search.dataPath], [true, "editor-output/search-1.txt"]);
      assert.match(search.data ?? "", /all 500 are in editor-output\/search-1\.txt$/);
      const whole = await Deno.readTextFile(`${harness.work}/editor-output/search-1.txt`);
      assert.equal(whole.split("\n").length, 501);
      assert.deepEqual(read.metadata, [["state_effect", "read"]]);
    },
  );
});

const http: OutgoingHttp = async ({ method, url, headers, body, signal }) => {
  const allowed = headers.map(([name, value]): [string, string] => [name, value]);
  let response: Response;
  try {
    const init = { method, headers: allowed, body, signal, redirect: "manual" as const, duplex: "half" };
    response = await fetch(url, init);
  } catch (error) {
    throw new OutgoingHttpError("connection-refused", String(error));
  }
  return { status: response.status, headers: [...response.headers], body: response.body ?? new Blob([]).stream() };
};

Deno.test("the fetch tool returns text, saves the rest and says what it got", async () => {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/echo") {
      return Response.json({ method: request.method, body: await request.text(), x: request.headers.get("x-a") });
    }
    if (pathname === "/image") {
      return new Response(Uint8Array.of(0x89, 0, 1), { headers: { "content-type": "image/png" } });
    }
    if (pathname === "/long") return new Response("grün ".repeat(40_000));
    if (pathname === "/latin") {
      return new Response(Uint8Array.of(0xe4), { headers: { "content-type": "text/plain; charset=iso-8859-1" } });
    }
    if (pathname === "/slow") await new Promise((resolve) => setTimeout(resolve, 1_500));
    return new Response("not here", { status: 404 });
  });
  const origin = `http://127.0.0.1:${server.addr.port}`;
  try {
    await withComponent("murmur-tool-fetch", { http }, async (call, harness) => {
      const echo = await call({ url: `${origin}/echo`, method: "PUT", headers: { "x-a": "1" }, body: "hello" });
      assert.equal(echo.data, 'HTTP 200\ncontent-type: application/json\n\n{"method":"PUT","body":"hello","x":"1"}');
      assert.deepEqual(echo.metadata, [["state_effect", "mutate"]]);
      const image = await call({ url: `${origin}/image` });
      assert.equal(image.data, "HTTP 200\ncontent-type: image/png\n3 bytes written to fetched/image.png");
      assert.equal((await call({ url: `${origin}/image` })).dataPath, "fetched/image-2.png");
      assert.deepEqual([...await Deno.readFile(`${harness.work}/fetched/image.png`)], [0x89, 0, 1]);
      const long = await call({ url: `${origin}/long`, max_bytes: 5_000 });
      assert.deepEqual([long.truncated, long.dataPath], [true, "fetched/long.txt"]);
      assert.match(long.data ?? "", /240000 bytes written to fetched\/long\.txt\n\nThe first 2000 bytes:\ngrün grün/);
      assert.equal((await Deno.stat(`${harness.work}/fetched/long.txt`)).size, 240_000);
      const saved = await call({ url: `${origin}/echo`, save_to: "out/echo.json" });
      assert.deepEqual([saved.truncated, saved.dataPath, saved.metadata], [false, "out/echo.json", [[
        "state_effect",
        "read",
      ]]]);
      assert.equal(JSON.parse(await Deno.readTextFile(`${harness.work}/out/echo.json`)).method, "GET");
      assert.match((await call({ url: `${origin}/latin` })).data ?? "", /\n\nä$/);
      const missing = await call({ url: `${origin}/none` });
      assert.deepEqual([missing.status, missing.data?.split("\n").at(-1)], ["failed", "not here"]);
      const slow = await call({ url: `${origin}/slow`, timeout_seconds: 0.1 });
      assert.deepEqual([slow.status, slow.data], ["failed", "no answer within 0.1 s"]);
      for (const url of ["file:///etc/passwd", "nonsense", 5]) assert.equal((await call({ url })).status, "failed");
      const outside = await call({ url: `${origin}/echo`, save_to: "../echo.json" });
      assert.notEqual(outside.status, "passed");
      await assert.rejects(Deno.stat(`${harness.directory}/echo.json`));
    });
    const environment = { MURMUR_ARTIFACT_CONFIG: '{"max_file_bytes":1000}' };
    await withComponent("murmur-tool-fetch", { http, environment }, async (call, harness) => {
      const result = await call({ url: `${origin}/long`, save_to: "long.txt" });
      assert.deepEqual([result.status, result.data], [
        "failed",
        "the body is larger than 1000 bytes; nothing was kept",
      ]);
      await assert.rejects(Deno.stat(`${harness.work}/long.txt`));
    });
  } finally {
    await server.shutdown();
  }
});

Deno.test("request-input gives the reply", async () => {
  await withComponent("murmur-tool-request-input", {}, async (call) => {
    const asked: string[] = [];
    const requestInput = (prompt: string) => {
      asked.push(prompt);
      return Promise.resolve("blue");
    };
    const result = await call({ prompt: "Which colour?" }, { requestInput });
    assert.deepEqual([result.status, result.data, asked], ["passed", "blue", ["Which colour?"]]);
    assert.equal((await call({ prompt: " " }, { requestInput })).status, "failed");
  });
});

Deno.test("the scripted driver plays its turns", async () => {
  const config = {
    scripts: [
      { when: "fail", turns: [{ error: "out of order: {{task}}" }] },
      {
        turns: [
          {
            thinking: ["hm"],
            text: "I look.",
            chunks: ["I ", "look."],
            tool_calls: [{ name: "bash", input: { command: "ls # {{task}}" } }],
            usage: { input_tokens: 9, output_tokens: 3 },
            continuation_id: "k",
          },
          { text: "It holds {{results.0.stdout}}." },
        ],
      },
    ],
  };
  const environment = { MURMUR_INFERENCE_DRIVER_CONFIG: JSON.stringify(config) };
  const request = (messages: unknown[], more = {}) => ({
    model: "scripted",
    max_tokens: 1,
    params: {},
    tools: [],
    messages,
    ...more,
  });
  const user = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
  const shell =
    "<untrusted-content source=tool:bash>\n$ ls\nExit code: 0\nStdout:\na.txt\n\nStderr:\n\n</untrusted-content>";
  const result = { role: "tool", tool_call_id: "call_1_1", is_error: false, content: [{ type: "text", text: shell }] };
  await withComponent("murmur-driver-scripted", { role: "driver", environment }, async (call) => {
    const chunks: string[] = [];
    const context: CallContext = {
      emitChunk: (text) => chunks.push(text),
      emitThinkingChunk: (text) => chunks.push(`(${text})`),
    };
    const first = await call(request([user("look around")]), context);
    assert.deepEqual(JSON.parse(first.data ?? ""), {
      stop_reason: "tool_call",
      content: [
        { type: "text", text: "I look." },
        { type: "tool_call", id: "call_1_1", name: "bash", input: { command: "ls # look around" } },
      ],
      usage: { input_tokens: 9, output_tokens: 3 },
    });
    assert.deepEqual([chunks, first.metadata], [["(hm)", "I ", "look."], [["continuation_id", "k:1:1"]]]);
    const answer = { role: "assistant", content: JSON.parse(first.data ?? "").content };
    const full = await call(request([user("look around"), answer, result]));
    const tail = await call(request([result], { continuation_id: "k:1:1" }));
    for (const second of [full, tail]) {
      assert.deepEqual(JSON.parse(second.data ?? ""), {
        stop_reason: "end_turn",
        content: [{ type: "text", text: "It holds a.txt." }],
      });
    }
    assert.deepEqual(JSON.parse((await call(request([user("please fail")]))).data ?? ""), {
      stop_reason: "error",
      content: [],
      error: "out of order: please fail",
    });
    const third = await call(request([user("x"), answer, result, { role: "assistant", content: [] }]));
    assert.deepEqual([third.status, third.data], [
      "error",
      "ScriptError: the script has 2 turns and the task asks for turn 3",
    ]);
  });
});

Deno.test("two builds of an archive are the same bytes, and a current one is left alone", async () => {
  const seen: [string, boolean][] = [];
  const names = ["murmur-tool-request-input"];
  const archive = (await firstPartyComponents(names)).get(names[0]!)!;
  const bytes = await Deno.readFile(archive);
  await firstPartyComponents(names, (name, built) => seen.push([name, built]));
  await Deno.remove(archive);
  await firstPartyComponents(names, (name, built) => seen.push([name, built]));
  assert.deepEqual(seen, [[names[0], false], [names[0], true]]);
  assert.deepEqual(await Deno.readFile(archive), bytes);
});
