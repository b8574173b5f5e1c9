/**
 * Three real capsules in three processes: one shares a file with a handle in an A2A message, the one it is for fetches it,
 * a third one cannot (seed resource-plane, Peer plane).
 *
 * @module
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { JsonObject } from "../../base/json_value.ts";
import { handleId, mint, newNonce, PeerMintKey } from "../../planes/handle.ts";
import {
  type AgentProject,
  agentProject,
  type AgentRun,
  capsule,
  driverEntry,
  toolEntry,
} from "../support/agent_project.ts";
import { type DoorSession, message, startSession } from "../support/door_session.ts";
import { rawAnswer, rawRequest } from "../support/raw_answer.ts";

const SERVES: JsonObject = { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 };
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const TOKEN = /mh1\.[A-Za-z0-9_-]{20,}/;

function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  listener.close();
  return listener.addr.port;
}

/** The task that has a fetching capsule redeem a handle. */
const fetchTask = (peer: string, handle: string) => ({
  turns: [{ calls: [{ name: "fetch-peer-file", input: { peer, handle } }] }, { show: "results" }],
});

/** A call of the minter's that sends a task to another capsule's door. */
const sendTo = (port: number, task: object): JsonObject => ({
  name: "murmur-tool-fetch",
  input: {
    url: `http://localhost:${port}/`,
    headers: { "content-type": "application/json", "a2a-version": "1.0" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendMessage", params: message(task, {}, {}) }),
  },
});

/** The minter: what it does with a task is its script. Its peers are up already; its own port is fixed. */
function minter(port: number, reporter: number, thief: number): JsonObject {
  const share = (peer: number, more: JsonObject = {}) => ({
    name: "share-file",
    input: { path: "report.md", peer: `localhost:${peer}`, ...more },
  });
  const task = fetchTask(`localhost:${port}`, "{{results.0.json.handle}}");
  return {
    name: "minter",
    version: "0.1.0",
    artifacts: [
      { ...driverEntry("murmur-driver-scripted"), version: "0.1.0" },
      toolEntry("murmur-tool-fetch", { version: "0.1.0" }),
    ],
    lifecycle: SERVES,
    network: { internal_port: port },
    capabilities: { network: { allow: ["localhost"] } },
    exports: {
      files: { root: "handoff", mode: "read-only" },
      peer_files: { root: "handoff", max_ttl: "10m" },
    },
    inference: {
      model: "scripted",
      driver: {
        artifact: "murmur-driver-scripted",
        config: {
          scripts: [
            {
              when: "deliver",
              turns: [
                { tool_calls: [share(reporter)] },
                { tool_calls: [sendTo(reporter, task)] },
                { tool_calls: [sendTo(thief, task)] },
                { text: "delivered {{results.0.json.handle_id}}" },
              ],
            },
            {
              when: "escape",
              turns: [{ tool_calls: [share(reporter, { path: "%2e%2e/secret.txt" })] }, { text: "{{results.0}}" }],
            },
            { when: "closed peer", turns: [{ tool_calls: [share(1)] }, { text: "{{results.0}}" }] },
            { when: "short", turns: [{ tool_calls: [share(reporter, { ttl: "1s" })] }, { text: "{{results.0}}" }] },
            { when: "mint", turns: [{ tool_calls: [share(reporter, { ttl: "1d" })] }, { text: "{{results.0}}" }] },
          ],
        },
      },
    },
  };
}

const fetcher = (name: string): JsonObject =>
  capsule({ name, lifecycle: SERVES, capabilities: { peer_fetch: { allow: ["localhost"] } } });

/** Runs a task and gives its final text. */
async function answerOf(session: DoorSession, task: object | string): Promise<string> {
  const { result } = await session.rpc("SendMessage", message(task, {}, {}));
  assert.equal(result.task.status.state, "TASK_STATE_COMPLETED", JSON.stringify(result.task));
  return result.task.artifacts[0].parts[0].text;
}

interface Fetched {
  readonly text: string;
  readonly error: boolean;
}

/** What a fetching capsule's call gave, without its fence. */
async function fetchBy(session: DoorSession, peer: string, handle: string): Promise<Fetched> {
  const [shown] = JSON.parse(await answerOf(session, fetchTask(peer, handle))) as Fetched[];
  return {
    ...shown!,
    text: shown!.text.replace(/^<untrusted-content [^>]*>\n/, "").replace(/\n<\/untrusted-content>$/, ""),
  };
}

/** Every text below a directory. */
async function textsBelow(directory: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const { name, isDirectory, isFile } of Deno.readDir(directory)) {
    if (isDirectory) texts.push(...await textsBelow(`${directory}/${name}`));
    else if (isFile) texts.push(`${name}\n${await Deno.readTextFile(`${directory}/${name}`)}`);
  }
  return texts;
}

/** Nothing that is kept of a session holds a token. */
async function holdsNoToken(project: AgentProject, run: AgentRun): Promise<void> {
  const kept = [
    ...await textsBelow(`${project.murmur}/records`),
    ...await textsBelow(`${project.murmur}/conversations`),
    run.stderr,
    run.stdout,
  ];
  assert.ok(kept.some((text) => text.includes("<handle:")));
  for (const text of kept) assert.doesNotMatch(text, TOKEN);
}

Deno.test("a file goes from one capsule to the one it is for, by a handle in an A2A message; a third is refused", async () => {
  await using reporterProject = await agentProject(fetcher("reporter"));
  await using thiefProject = await agentProject(fetcher("thief"));
  await using reporter = await startSession(reporterProject);
  await using thief = await startSession(thiefProject);
  const port = freePort();
  await using minterProject = await agentProject(minter(port, reporter.port, thief.port));
  const workdir = `${minterProject.project}/workdir`;
  await using first = await startSession(minterProject);
  const peer = `localhost:${port}`;
  const handoff = `${workdir}/${first.sessionId}/handoff`;
  await Deno.mkdir(handoff);
  await Deno.writeTextFile(`${handoff}/report.md`, "what was found");
  await Deno.writeTextFile(`${workdir}/${first.sessionId}/secret.txt`, "secret");

  // The tools are there for who has the grant, and for nobody else.
  const toolsOf = async ({ url }: DoorSession) => {
    const card = await (await fetch(`${url}/.well-known/agent-card.json`)).json();
    return card.capabilities.extensions[1].params;
  };
  assert.deepEqual(await toolsOf(first).then(({ tools, planes }) => [tools, planes]), [
    ["murmur-tool-fetch", "share-file"],
    ["files", "peer_files"],
  ]);
  assert.deepEqual(await toolsOf(reporter).then(({ tools, planes }) => [tools, planes]), [["fetch-peer-file"], []]);

  const said = await answerOf(first, "deliver");
  const id = /^delivered ([0-9a-f]{16})$/.exec(said)![1]!;
  const stored = `${reporterProject.project}/workdir/${reporter.sessionId}/peer-in/${id}-report.md`;
  assert.equal(await Deno.readTextFile(stored), "what was found");
  await assert.rejects(Deno.stat(`${thiefProject.project}/workdir/${thief.sessionId}/peer-in`), Deno.errors.NotFound);

  const thiefRun = await thief.stop();
  const [stolen] = thiefRun.events("peer_file_fetch");
  assert.deepEqual([stolen!.handle_id, stolen!.outcome, stolen!.stored_path], [id, "handle_not_valid", null]);
  await holdsNoToken(thiefProject, thiefRun);

  assert.match(await answerOf(first, "escape"), /^outside_root: /);
  assert.match(await answerOf(first, "closed peer"), /^peer_unreachable: /);

  // A handle that the test holds: it serves what the file is at that moment, as often as it is asked.
  const minted = JSON.parse(await answerOf(first, "mint")) as Record<string, unknown>;
  assert.deepEqual(Object.keys(minted), ["handle", "handle_id", "expires_at_ms", "audience"]);
  assert.equal(minted.audience, `reporter@localhost:${reporter.port}`);
  const left = Number(minted.expires_at_ms) - Date.now();
  assert.ok(left > 500_000 && left <= 600_000, `${left}`);
  const handle = String(minted.handle);
  for (const text of ["what was found", "what was found", "and corrected", "and corrected again"]) {
    await Deno.writeTextFile(`${handoff}/new`, text);
    await Deno.rename(`${handoff}/new`, `${handoff}/report.md`);
    const fetched = await fetchBy(reporter, peer, handle);
    assert.ok(!fetched.error, fetched.text);
    const { path, generation, ...rest } = JSON.parse(fetched.text);
    assert.deepEqual(rest, { bytes: text.length, sha256: sha256(text), peer });
    assert.equal(path, `peer-in/${minted.handle_id}-report.md`);
    assert.equal(generation, 4);
    assert.equal(await Deno.readTextFile(`${reporterProject.project}/workdir/${reporter.sessionId}/${path}`), text);
  }
  const short = JSON.parse(await answerOf(first, "short")) as {
    readonly handle: string;
    readonly expires_at_ms: number;
  };
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, short.expires_at_ms - Date.now()) + 1));
  assert.match((await fetchBy(reporter, peer, short.handle)).text, /^handle_expired: /);
  const listing = JSON.parse(rawAnswer(await first.raw(rawRequest("/resources/files"))).body);
  assert.equal(listing.generation, 5);

  const firstRun = await first.stop();
  const [mintLine] = firstRun.events("peer_handle_mint");
  assert.deepEqual(
    [mintLine!.handle_id, mintLine!.path, mintLine!.audience, mintLine!.outcome, mintLine!.reason],
    [id, "report.md", `reporter@localhost:${reporter.port}`, "ok", null],
  );
  assert.deepEqual(firstRun.events("peer_handle_mint").map(({ outcome }) => outcome), [
    "ok",
    "outside_root",
    "peer_unreachable",
    "ok",
    "ok",
  ]);
  const redeems = firstRun.events("peer_handle_redeem");
  assert.deepEqual(
    redeems.slice(0, 2).map((
      { handle_id, path, outcome, audience_asserted, generation },
    ) => [handle_id, path, outcome, audience_asserted, generation]),
    [
      [id, "report.md", "ok", `reporter@localhost:${reporter.port}`, 0],
      [id, null, "handle_not_valid", `thief@localhost:${thief.port}`, 0],
    ],
  );
  assert.equal(redeems.at(-1)!.outcome, "handle_expired");
  assert.doesNotMatch(firstRun.traceText, TOKEN);

  // Launched again over the same work folder: every handle of the session before is worthless, and nothing has ended yet.
  await using second = await startSession(minterProject, ["--workdir", `${workdir}/${first.sessionId}`]);
  assert.match((await fetchBy(reporter, peer, handle)).text, /^handle_not_valid: /);
  const relaunched = JSON.parse(rawAnswer(await second.raw(rawRequest("/resources/files"))).body);
  assert.deepEqual([relaunched.generation, relaunched.entries[0].sha256], [0, sha256("and corrected again")]);
  await second.stop();
  assert.match((await fetchBy(reporter, peer, handle)).text, /^peer_unreachable: /);

  const reporterRun = await reporter.stop();
  assert.deepEqual(reporterRun.events("peer_file_fetch").map(({ outcome }) => outcome), [
    ...Array(5).fill("ok"),
    "handle_expired",
    "handle_not_valid",
    "peer_unreachable",
  ]);
  await holdsNoToken(reporterProject, reporterRun);
});

Deno.test("a failure that quotes a handle tells its id in its place", async () => {
  using key = PeerMintKey.generate();
  const handle = mint(key, { v: 1, iss: "ses_1", p: "f", exp: 1, n: newNonce() }, "reporter@localhost:1");
  const shown = `<handle:${handleId(handle)}>`;
  await using project = await agentProject(capsule({ capabilities: { peer_fetch: { allow: ["localhost"] } } }));
  const turns: readonly JsonObject[] = [
    { throws: `cannot read ${handle}` },
    // What the failure itself is, not what a component wrote about it.
    { outcome: { data: { stop_reason: handle, content: [] } } },
    { outcome: { status: "error", summary: handle, data: `cannot read ${handle}` } },
  ];
  for (const turn of turns) {
    const run = await project.run({ task: { turns: [turn] } });
    assert.equal(run.status, 1);
    assert.ok(run.stderr.includes(shown), run.stderr);
    for (const text of [run.stderr, run.stdout, run.traceText, ...await textsBelow(`${project.murmur}/records`)]) {
      assert.doesNotMatch(text, TOKEN);
    }
  }
});

Deno.test("without a grant there is neither tool nor plane, and a call is told what is missing", async () => {
  await using project = await agentProject(capsule({ lifecycle: SERVES }));
  await using session = await startSession(project);
  const calls = [
    { name: "share-file", input: { path: "x", peer: "h:1" } },
    { name: "fetch-peer-file", input: { peer: "h:1", handle: "x" } },
  ];
  const results = JSON.parse(await answerOf(session, { turns: [{ calls }, { show: "results" }] })) as Fetched[];
  assert.deepEqual(results.map(({ text }) => text), [
    "tool 'share-file' is not available: it needs exports.peer_files",
    "tool 'fetch-peer-file' is not available: it needs capabilities.peer_fetch",
  ]);
  const request = JSON.parse(await answerOf(session, { turns: [{ show: "request" }] }));
  assert.deepEqual((request.tools ?? []).map(({ name }: { name: string }) => name), []);
});

Deno.test("an exported folder that leads out of the work folder refuses the launch; a long-lived handle on a sleeper too", async () => {
  const files = { files: { root: "out", mode: "read-only" } };
  await using project = await agentProject(capsule({ exports: files }));
  const workdir = `${project.root}/given`;
  await Deno.mkdir(workdir);
  await Deno.symlink("..", `${workdir}/out`);
  const refused = await project.run({ task: { turns: [{ text: "never" }] }, workdir, args: [] });
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /error\[E-CAP-007\]: exports\.files\.root 'out' leads out of the work folder/);
  assert.equal(refused.trace.length, 0);
  await Deno.remove(`${workdir}/out`);
  const taken = await project.run({ task: { turns: [{ text: "done" }] }, workdir });
  assert.equal(taken.status, 0, taken.stderr);

  await project.write(
    "murmur.yaml",
    JSON.stringify(capsule({ lifecycle: SERVES, exports: { peer_files: { root: "out" } } })),
  );
  const long = await project.run();
  assert.match(long.stderr, /error\[E-CAP-008\]/);
});
