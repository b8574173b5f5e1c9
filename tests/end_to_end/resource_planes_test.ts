/**
 * The operator plane of a real capsule: what an operator's program sees of the work folder while the agent works, by raw
 * socket (seed resource-plane).
 *
 * @module
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { type AgentProject, agentProject, capsule, toolEntry } from "../support/agent_project.ts";
import { type DoorSession, message, startSession } from "../support/door_session.ts";

const SERVES = { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 };
const FILES = { files: { root: "out/", mode: "read-only", max_bytes: 65_536 } };
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** A request line and its headers as they are sent. */
function get(path: string, method = "GET", headers = ""): string {
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}Connection: close\r\n\r\n`;
}

interface Answer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

function parse(answer: string): Answer {
  const end = answer.indexOf("\r\n\r\n");
  const [first, ...lines] = answer.slice(0, end).split("\r\n");
  const fields = lines.map((line): [string, string] => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return { status: Number(first!.split(" ")[1]), headers: new Map(fields), body: answer.slice(end + 4) };
}

async function withCapsule(
  blocks: Parameters<typeof capsule>[0],
  work: (session: DoorSession, workdir: string, project: AgentProject) => Promise<void>,
): Promise<void> {
  await using project = await agentProject(capsule({ lifecycle: SERVES, ...blocks }));
  await using session = await startSession(project);
  await work(session, `${project.project}/workdir/${session.sessionId}`, project);
}

const probe = toolEntry("probe-tool");
const writes = (path: string, text: string) => ({
  turns: [
    { calls: [{ name: "probe-tool", input: { operation: "mkdir", path: "out" } }] },
    { calls: [{ name: "probe-tool", input: { operation: "write", path, text } }] },
    { text: "written" },
  ],
});

Deno.test("what the agent writes is listed and read, before, during and after a task, with the generation of each", () =>
  withCapsule({ artifacts: [probe], exports: FILES }, async (session, workdir) => {
    const ask = async (path: string, method = "GET") => parse(await session.raw(get(path, method)));
    const empty = await ask("/resources/files");
    assert.equal(empty.status, 200);
    assert.equal(empty.headers.get("content-type"), "application/json");
    const { containment_achieved: achieved, ...listing } = JSON.parse(empty.body);
    assert.deepEqual(listing, { root: "out/", mode: "read-only", max_bytes: 65_536, generation: 0, entries: [] });
    assert.equal((await ask("/resources/files/report.md")).status, 404);

    await session.rpc("SendMessage", message(writes("out/report.md", "one"), {}, {}));
    const read = await ask("/resources/files/report.md");
    assert.equal(read.status, 200);
    assert.equal(read.body, "one");
    const { mtime } = await Deno.stat(`${workdir}/out/report.md`);
    assert.deepEqual(
      Object.fromEntries([...read.headers].filter(([name]) => !["date", "vary"].includes(name))),
      {
        "content-type": "application/octet-stream",
        "etag": `"sha256:${sha256("one")}"`,
        "x-murmur-mtime-ms": String(mtime!.getTime()),
        "x-murmur-generation": "1",
        "x-murmur-containment": achieved,
        "x-murmur-export-root": "out/",
        "connection": "close",
        "content-length": "3",
      },
    );

    // Another task ends: the file is the same, the generation is not.
    await session.rpc("SendMessage", message({ turns: [{ text: "nothing" }] }, {}, {}));
    const later = await ask("/resources/files/report.md");
    assert.equal(later.headers.get("etag"), read.headers.get("etag"));
    assert.equal(later.headers.get("x-murmur-generation"), "2");

    // The agent is in the middle of a task.
    await session.rpc("SendMessage", message({ turns: [{ delayMs: 60_000, text: "never" }] }));
    await Deno.writeTextFile(`${workdir}/out/a.txt`, "a");
    const busy = JSON.parse((await ask("/resources/files")).body);
    assert.deepEqual(
      busy.entries.map(({ path, size_bytes, sha256: hash }: Record<string, unknown>) => [path, size_bytes, hash]),
      [
        ["a.txt", 1, sha256("a")],
        ["report.md", 3, sha256("one")],
      ],
    );
    assert.equal(busy.generation, 2);
    assert.equal((await ask("/resources/files/a.txt", "POST")).headers.get("allow"), "GET");
    const card = await (await session.request("/.well-known/agent-card.json")).json();
    assert.deepEqual(card.capabilities.extensions[1].params.planes, ["files"]);

    const run = await session.stop();
    const lines = (type: string) =>
      run.events(type).map(({ event_id: _e, parent_id: _p, session_id: _s, timestamp: _t, ...line }) => line);
    assert.deepEqual(lines("resource_list"), [
      {
        event_type: "resource_list",
        root: "out/",
        entry_count: 0,
        total_bytes: 0,
        generation: 0,
        containment_achieved: achieved,
        outcome: "ok",
        reason: null,
      },
      {
        event_type: "resource_list",
        root: "out/",
        entry_count: 2,
        total_bytes: 4,
        generation: 2,
        containment_achieved: achieved,
        outcome: "ok",
        reason: null,
      },
    ]);
    assert.deepEqual(
      run.events("resource_read").map((
        { path, outcome, bytes, sha256: hash, generation },
      ) => [path, outcome, bytes, hash, generation]),
      [
        ["report.md", "not_found", null, null, 0],
        ["report.md", "ok", 3, sha256("one"), 1],
        ["report.md", "ok", 3, sha256("one"), 2],
        ["a.txt", "method_not_allowed", null, null, 2],
      ],
    );
    // No inference was spent on any of it: the three tasks took three turns and two calls between them.
    assert.equal(run.events("inference").filter(({ decision }) => decision !== "error").length, 4);
  }));
