import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { writeRunningRecord } from "../base/write_running_record.ts";
import { ownStartToken } from "../base/process_identity.ts";
import { PlaneEndpoint } from "../runtime/door/plane_endpoint.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { type ExportFolder, exportFolder } from "../tests/support/export_folder.ts";
import { openLocalDoor } from "../tests/support/local_door.ts";
import { scriptedDoor } from "../tests/support/scripted_door.ts";
import { spawnMur } from "../tests/support/mur_process.ts";
import { main } from "./main.ts";
import { printTable } from "./text_table.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

interface Ran {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

/** Runs `mur files @1 …` against a real door with a real operator plane. */
async function withPlane(
  work: (run: (...args: string[]) => Promise<Ran>, folder: ExportFolder, directory: string) => Promise<void>,
  { declared = true, credentials }: { readonly declared?: boolean; readonly credentials?: Record<string, string[]> } =
    {},
): Promise<void> {
  using folder = exportFolder();
  await withTempDir(async (directory) => {
    await using door = openLocalDoor({
      ...(credentials === undefined ? {} : { credentials }),
      ...(declared
        ? {
          planes: new PlaneEndpoint({
            operator: folder.plane("followed-inside", 1_000),
            peer: null,
            record: () => {},
            stallMs: 5_000,
            roomMs: 5_000,
          }),
        }
        : {}),
    });
    Deno.mkdirSync(`${directory}/.murmur/running`, { recursive: true });
    writeRunningRecord(`${directory}/.murmur/running`, {
      session_id: door.sessionId,
      url: `localhost:${door.port}`,
      pid: Deno.pid,
      process_start: ownStartToken(),
      capsule_name: "probe",
      capsule_version: "0.1.0",
      workdir: folder.work,
      records_dir: directory,
      outlives_launcher: false,
      started_at: new Date().toISOString(),
      ...(door.tokens === null ? {} : { door_token: door.tokens.operator() }),
    });
    await work(
      async (...args) => {
        const context = testContext(directory, { HOME: directory });
        const status = await main(["files", ...args], context);
        return { status, out: context.out(), err: context.err() };
      },
      folder,
      directory,
    );
  });
}

Deno.test("files are listed as a table, or as the plane's own object", () =>
  withPlane(async (run, { out }) => {
    assert.deepEqual(await run("@1"), { status: 0, out: "PATH  SIZE  MODIFIED  SHA256\n", err: "" });
    Deno.mkdirSync(`${out}/dir`);
    Deno.writeTextFileSync(`${out}/dir/b.txt`, "hello");
    Deno.writeTextFileSync(`${out}/a\x1b[2J`, "");
    Deno.utimeSync(`${out}/dir/b.txt`, 0, 1_787_577_327);
    Deno.utimeSync(`${out}/a\x1b[2J`, 0, 1_787_577_327);
    assert.equal(
      (await run("@1")).out,
      `PATH       SIZE  MODIFIED              SHA256\n` +
        `a [2J      0     2026-08-24T13:15:27Z  ${sha256("").slice(0, 12)}\n` +
        `dir/b.txt  5     2026-08-24T13:15:27Z  ${sha256("hello").slice(0, 12)}\n`,
    );
    const listing = JSON.parse((await run("@1", "--json")).out);
    assert.deepEqual([listing.root, listing.entries[1].path, listing.generation], ["out/", "dir/b.txt", 7]);
  }));

Deno.test("a file goes to stdout, or whole to a file beside nothing else", () =>
  withPlane(async (run, { out }, directory) => {
    Deno.mkdirSync(`${out}/dir`);
    Deno.writeTextFileSync(`${out}/dir/100% ä?.txt`, "hello");
    assert.deepEqual(await run("@1", "dir/100% ä?.txt"), { status: 0, out: "hello", err: "" });
    Deno.writeTextFileSync(`${directory}/copy`, "older and longer");
    assert.deepEqual(await run("@1", "dir/100% ä?.txt", "-o", "copy"), { status: 0, out: "", err: "" });
    assert.equal(Deno.readTextFileSync(`${directory}/copy`), "hello");
    const json = await run("@1", "dir/100% ä?.txt", "-o", `${directory}/other`, "--json");
    const { mtime_ms, ...told } = JSON.parse(json.out);
    assert.deepEqual(told, {
      path: "dir/100% ä?.txt",
      output: `${directory}/other`,
      size_bytes: 5,
      sha256: sha256("hello"),
      generation: 7,
      containment_achieved: "sealed",
    });
    assert.equal(mtime_ms, Deno.statSync(`${out}/dir/100% ä?.txt`).mtime!.getTime());
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name).sort(), [".murmur", "copy", "other"]);
  }));

Deno.test("what the plane refuses is told with its code; nothing is written", () =>
  withPlane(async (run, { out }, directory) => {
    Deno.writeFileSync(`${out}/large`, new Uint8Array(1_001));
    for (
      const [path, error] of [
        ["nothing", /404 not_found: /],
        ["../secret.txt", /403 outside_root: /],
        ["%2e%2e/secret.txt", /404 not_found: /],
        ["/etc/passwd", /403 outside_root: /],
        ["large", /413 too_large: /],
      ] as const
    ) {
      const { status, out: shown, err } = await run("@1", path, "-o", "copy");
      assert.deepEqual([status, shown], [1, ""]);
      assert.match(err, /^error\[E-IO-003\]: the door of ses_[0-9a-f]+ answered /);
      assert.match(err, error);
      // No token would help.
      assert.doesNotMatch(err, /hint:/);
    }
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), [".murmur"]);
    Deno.writeTextFileSync(`${out}/f`, "x");
    assert.match((await run("@1", "f", "-o", "no/such/folder")).err, /^error\[E-IO-001\]/);
    // What is no file is left alone, be it behind a link: a device that gave way would be lost to everybody.
    Deno.mkdirSync(`${directory}/folder`);
    Deno.symlinkSync("folder", `${directory}/link`);
    using _socket = Deno.listen({ transport: "unix", path: `${directory}/socket` });
    for (const output of ["folder", "folder/", "link", "socket", "/dev/null", "new/"]) {
      const { status, err } = await run("@1", "f", "-o", output);
      assert.deepEqual([status, err.includes(`error[E-IO-003]: ${output} is no file`)], [1, true], err);
    }
    assert.ok(Deno.statSync("/dev/null").isCharDevice);
    Deno.symlinkSync("file", `${directory}/to-file`);
    Deno.writeTextFileSync(`${directory}/file`, "kept");
    assert.equal((await run("@1", "f", "-o", "to-file")).status, 0);
    assert.deepEqual(["file", "to-file"].map((name) => Deno.readTextFileSync(`${directory}/${name}`)), ["kept", "x"]);
    assert.equal((await run("@1", "-o", "copy")).status, 2);
    assert.equal((await run("@1", "f", "--json")).status, 2);
    assert.match((await run("@7")).err, /^error\[E-RUN-022\]/);
  }));

Deno.test("what a door sends is believed only when it is what it says it is", () =>
  withTempDir(async (directory) => {
    let answer = () => new Response();
    await using door = scriptedDoor({ get: () => answer() });
    Deno.mkdirSync(`${directory}/.murmur/running`, { recursive: true });
    door.record(`${directory}/.murmur/running`);
    const run = async (...args: string[]) => {
      const context = testContext(directory, { HOME: directory });
      return { status: await main(["files", "@1", ...args], context), out: context.out(), err: context.err() };
    };
    const etag = `"sha256:${sha256("hello")}"`;
    for (
      const [sent, why] of [
        [
          () => new Response("HELLO", { headers: { etag } }),
          /f did not arrive as it was sent: its hash is another one/,
        ],
        [() => new Response("hello"), /sent f without its hash/],
        [() => new Response("hello", { headers: { etag: `W/${etag}` } }), /sent f without its hash/],
        [() => new Response("hello", { status: 206, headers: { etag } }), /answered 206/],
        [() => new Response(null, { status: 302, headers: { location: "/elsewhere" } }), /answered 302/],
      ] as const
    ) {
      answer = sent;
      const { status, out, err } = await run("f", "-o", "copy");
      assert.deepEqual([status, out], [1, ""]);
      assert.match(err, /^error\[E-IO-003\]: /);
      assert.match(err, why);
    }
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), [".murmur"]);

    const entry = { path: "f", size_bytes: 5, mtime_ms: 1e300, sha256: sha256("hello") };
    answer = () => Response.json({ entries: [entry] });
    assert.equal(
      (await run()).out,
      `PATH  SIZE  MODIFIED  SHA256\nf     5     -         ${sha256("hello").slice(0, 12)}\n`,
    );
    for (
      const listing of [
        { entries: {} },
        { entries: [{}] },
        ...Object.keys(entry).map((name) => ({ entries: [entry, { ...entry, [name]: [] }] })),
      ]
    ) {
      answer = () => Response.json(listing);
      assert.match(
        (await run()).err,
        /^error\[E-IO-003\]: .* answered with what is no listing/,
        JSON.stringify(listing),
      );
    }
  }));

Deno.test("one that is stopped leaves nothing of what had come", () =>
  withTempDir(async (directory) => {
    // It comes without end.
    const body = () =>
      new ReadableStream<Uint8Array>({
        async pull(controller) {
          controller.enqueue(new Uint8Array(1_000));
          await new Promise((resolve) => setTimeout(resolve, 20));
        },
      });
    await using door = scriptedDoor({
      get: () => new Response(body(), { headers: { etag: `"sha256:${"0".repeat(64)}"` } }),
    });
    Deno.mkdirSync(`${directory}/.murmur/running`, { recursive: true });
    Deno.mkdirSync(`${directory}/into`);
    door.record(`${directory}/.murmur/running`);
    const names = () => [...Deno.readDirSync(`${directory}/into`)].map(({ name }) => name);
    for (const [signal, status] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]] as const) {
      const child = spawnMur(["files", "@1", "f", "-o", "into/copy"], { cwd: directory, home: directory });
      while (names().length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      child.kill(signal);
      const { code } = await child.output();
      assert.deepEqual([code, names()], [status, []], signal);
    }
  }));

Deno.test("a listing of any length makes a table", () => {
  let lines = 0;
  const output = { line: () => ++lines > 0 };
  printTable(output, ["PATH"], Array.from({ length: 150_000 }, (_, index) => [String(index)]));
  assert.equal(lines, 150_001);
});

Deno.test("a capsule without the plane says so; an authenticated door is opened with its record's token", async () => {
  await withPlane(async (run) => assert.match((await run("@1")).err, /404 no_resource_plane: /), { declared: false });
  await withPlane(async (run, { out }) => {
    Deno.writeTextFileSync(`${out}/f`, "text");
    assert.equal((await run("@1", "f")).out, "text");
  }, { credentials: {} });
});
