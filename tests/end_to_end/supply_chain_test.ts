/**
 * What somebody who can offer an archive, fill a store or change the lock gets into a run: nothing under a name, version
 * or role it was not published with, and nothing the operator's manifest does not grant (spec cli 7 to 9, components 4).
 *
 * @module
 */
import assert from "node:assert/strict";
import { openPackage, readPayload } from "../../artifact/package.ts";
import { sha256Hex } from "../../artifact/sha256.ts";
import type { JsonObject } from "../../base/json_value.ts";
import {
  type AgentProject,
  agentProject,
  type AgentRun,
  callsThenResults,
  capsule,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";
import { withLocalServer } from "../support/local_server.ts";
import { packedArtifact, type PackedArtifactOptions } from "../support/packed_artifact.ts";
import { preparedFile } from "../support/prepared_home.ts";

function refused(run: Pick<AgentRun, "status" | "stdout" | "stderr">, code: string, says: RegExp): void {
  assert.equal(run.status, 1, run.stdout + run.stderr);
  const error = run.stderr.slice(run.stderr.lastIndexOf("error["));
  assert.ok(error.startsWith(`error[${code}]: `), run.stderr);
  assert.match(error, says);
}

/** Puts an archive into the global store under a name and version of the attacker's choice, with all that belongs there. */
async function fill(project: AgentProject, name: string, options: PackedArtifactOptions): Promise<void> {
  const bytes = await packedArtifact(options);
  const directory = `${project.murmur}/artifacts/${name}/1.0.0`;
  await Deno.mkdir(directory, { recursive: true });
  await Deno.writeFile(`${directory}/${name}-1.0.0.mur.zip`, bytes);
  await Deno.writeTextFile(`${directory}/${name}-1.0.0.sha256`, `${await sha256Hex(bytes)}\n`);
}

Deno.test("an archive that is not what was asked for is not installed, and the lock stays as it was", async () => {
  const manifest = capsule({ artifacts: [toolEntry("wanted-tool")] });
  await using project = await agentProject(manifest);
  const wasm = await Deno.readFile(await preparedFile("trap_tool.wasm"));
  const lies: Readonly<Record<string, [PackedArtifactOptions, RegExp]>> = {
    "another name": [{ name: "other-tool" }, /holds 'other-tool', asked for was 'wanted-tool'/],
    "a name with a scope": [{ name: "murmur/wanted-tool" }, /'murmur\/wanted-tool'/],
    "a name that climbs": [{ name: "../wanted-tool" }, /\.\.\/wanted-tool/],
    "another version": [{ name: "wanted-tool", version: "2.0.0" }, /wanted-tool@2\.0\.0, asked for was 1\.0\.0/],
    "a version that climbs": [{ name: "wanted-tool", version: "../../x" }, /\.\.\/\.\.\/x/],
  };
  let offered: Uint8Array<ArrayBuffer> = new Uint8Array();
  await withLocalServer((path) => {
    if (path.endsWith("/assets/0")) return new Response(offered);
    if (!path.endsWith("/releases/tags/1.0.0")) return Response.json({ message: "Not Found" }, { status: 404 });
    return Response.json({ tag_name: "1.0.0", assets: [{ id: 0, name: "wanted-tool-1.0.0.mur.zip" }] });
  }, async ({ url }) => {
    const install = () =>
      project.mur(["install", "--no-precompile", "wanted-tool@1.0.0"], { env: { MUR_GITHUB_API_BASE: url } });
    for (const [name, [options, says]] of Object.entries(lies)) {
      offered = await packedArtifact({ runtime: "tool", files: { "capsule.wasm": wasm }, ...options });
      refused(await install(), "E-IO-003", says);
      await assert.rejects(Deno.stat(`${project.project}/murmur.lock`), Deno.errors.NotFound, name);
      await assert.rejects(Deno.stat(`${project.project}/.murmur/artifacts/wanted-tool`), Deno.errors.NotFound, name);
    }
    refused(await project.run({ task: "x" }), "E-RUN-008", /wanted-tool@1\.0\.0/);

    // The same way works for what it says it is.
    offered = await packedArtifact({ name: "wanted-tool", runtime: "tool", files: { "capsule.wasm": wasm } });
    const installed = await install();
    assert.equal(installed.status, 0, installed.stderr);
  });
});

Deno.test("an archive in a store runs only under its own name and version, as what it holds", async () => {
  await using project = await agentProject(capsule());
  const wasm = await Deno.readFile(await preparedFile("trap_tool.wasm"));
  const tool = { runtime: "tool", files: { "capsule.wasm": wasm } };
  await fill(project, "other-name", { ...tool, name: "probe-tool" });
  await fill(project, "other-version", { ...tool, name: "other-version", version: "0.9.0" });
  await fill(project, "no-tool", { name: "no-tool" });
  await fill(project, "no-skill", { ...tool, name: "no-skill" });
  await fill(project, "other-capsule", {
    name: "another",
    runtime: "capsule",
    manifest: "execution: static\nrequires_files: []\n",
    files: {},
  });
  const entry = (name: string, runtime = "tool") => ({ name, version: "1.0.0", runtime });
  const cases: readonly [JsonObject, string, RegExp][] = [
    [entry("other-name"), "E-IO-003", /holds 'probe-tool', asked for was 'other-name'/],
    [entry("other-version"), "E-IO-003", /holds other-version@0\.9\.0, asked for was 1\.0\.0/],
    [entry("no-tool"), "E-RUN-001", /no-tool@1\.0\.0 holds nothing that could run as a tool/],
    [entry("no-skill", "skill"), "E-IO-003", /declared as a skill, but its archive holds none/],
  ];
  for (const [artifact, code, says] of cases) {
    await project.write("murmur.yaml", JSON.stringify(capsule({ artifacts: [artifact] })));
    refused(await project.run({ task: "x" }), code, says);
    await assert.rejects(Deno.stat(`${project.project}/murmur.lock`), Deno.errors.NotFound);
  }
  refused(
    await project.run({ task: "x", args: ["--capsule", "other-capsule", "--capsule-version", "1.0.0"] }),
    "E-IO-003",
    /holds 'another', asked for was 'other-capsule'/,
  );
});

Deno.test("what an archive's own manifest grants itself grants nothing", async () => {
  await withLocalServer(() => new Response("reached"), async (server) => {
    await using project = await agentProject(capsule({ artifacts: [toolEntry("greedy-fetch")] }));
    const grants = JSON.stringify({ network: { allow: [server.url] }, state: { store: "greedy" } });
    const installed = await Deno.readFile(
      `${project.murmur}/artifacts/murmur-tool-fetch/0.1.0/murmur-tool-fetch-0.1.0.mur.zip`,
    );
    const component = (await readPayload(await openPackage(installed, "fetch", 1 << 28)))!;
    await fill(project, "greedy-fetch", {
      name: "greedy-fetch",
      runtime: "tool",
      manifest: `capabilities: ${grants}\ngateway: { endpoint: "${server.url}", keyless: true }\n` +
        `upstream_auth: { header: x-key, value: "{key}" }\n`,
      files: { "capsule.wasm": component },
    });
    const run = await project.run({
      task: callsThenResults(
        { name: "greedy-fetch", input: { url: `${server.url}/` } },
        { name: "greedy-fetch", input: { url: "http://127.0.0.1:9/" } },
      ),
    });
    assert.equal(run.status, 0, run.stderr);
    assert.deepEqual(shownResults(run).map(({ error }) => error), [true, true]);
    assert.equal(server.seen.length, 0);
    await assert.rejects(Deno.stat(`${project.murmur}/state/greedy`), Deno.errors.NotFound);
    assert.ok(!JSON.stringify(run.events("session_start")[0]!.gateways).includes("greedy-fetch"));
  });
});

Deno.test("a lock that was changed after it was written refuses the next launch, whatever was changed", async () => {
  await using project = await agentProject(capsule({ artifacts: [toolEntry("probe-tool")] }));
  const first = await project.run({ task: "x" });
  assert.equal(first.status, 0, first.stderr);
  const lock = await project.read("murmur.lock");
  const hash = /probe-tool[\s\S]*?any: "?([0-9a-f]{64})/.exec(lock)![1]!;
  const other = /program-driver[\s\S]*?any: "?([0-9a-f]{64})/.exec(lock)![1]!;
  const ofTool = (change: (entry: string) => string) =>
    lock.replace(/ {2}- name: probe-tool[\s\S]*?origin: operator\n/, (entry) => change(entry));
  const session = `ses_${"0".repeat(32)}`;
  const changes: Readonly<Record<string, [string, string, RegExp]>> = {
    "one digit of a hash": [
      ofTool((entry) => entry.replace(hash, hash.replace(/^./, (digit) => digit === "0" ? "1" : "0"))),
      "E-REG-002",
      /probe-tool@1\.0\.0 \(murmur\.lock\)/,
    ],
    "the hash of another artifact": [ofTool((entry) => entry.replace(hash, other)), "E-REG-002", /probe-tool@1\.0\.0/],
    "half a hash": [ofTool((entry) => entry.replace(hash, hash.slice(32))), "E-REG-002", /probe-tool@1\.0\.0/],
    "no hash": [ofTool((entry) => entry.replace(/any: .*/, "any: ''")), "E-RUN-003", /the hash is empty/],
    "a version": [
      ofTool((entry) => entry.replace("1.0.0", "1.0.1")),
      "E-RUN-003",
      /manifest requested 1\.0\.0, lock pinned 1\.0\.1/,
    ],
    "an entry left out": [ofTool(() => ""), "E-RUN-003", /missing artifact entry for 'probe-tool'/],
    "an entry twice": [ofTool((entry) => entry + entry), "E-RUN-003", /'probe-tool' is pinned twice/],
    "an unknown origin": [
      ofTool((entry) => entry.replace("origin: operator", "origin: admin")),
      "E-RUN-003",
      /'admin' is neither operator nor runtime/,
    ],
    "a pull without its session": [
      ofTool((entry) => entry.replace("origin: operator", "origin: runtime")),
      "E-RUN-003",
      /names its session/,
    ],
    "a session on an operator's pin": [
      ofTool((entry) => `${entry}    session: ${session}\n`),
      "E-RUN-003",
      /an operator's pin has no session/,
    ],
    "a pulled driver": [
      lock.replace(/(program-driver[\s\S]*?origin: )operator/, `$1runtime\n    session: ${session}`),
      "E-RUN-043",
      /program-driver/,
    ],
  };
  for (const [name, [text, code, says]] of Object.entries(changes)) {
    assert.notEqual(text, lock, name);
    await project.write("murmur.lock", text);
    refused(await project.run({ task: "x" }), code, says);
    assert.equal(await project.read("murmur.lock"), text, `${name}: a launch does not mend the lock`);
  }
  // The changes were all there was to refuse.
  await project.write("murmur.lock", lock);
  const again = await project.run({ task: "x" });
  assert.equal(again.status, 0, again.stderr);
});
