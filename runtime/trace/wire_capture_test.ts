import assert from "node:assert/strict";
import { RootedDir } from "../../base/rooted_dir.ts";
import { sha256Hex } from "./trace_redaction.ts";
import { type Capture, WireCapture } from "./wire_capture.ts";

const REQUEST = { system: "be brief", toolsJson: "[]", messageJsons: ['{"role":"user"}', '{"role":"tool"}'] };

async function withCapture(
  capture: Capture,
  work: (wire: WireCapture, directory: string, reports: string[]) => void | Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  const records = RootedDir.open(directory);
  const reports: string[] = [];
  const wire = new WireCapture(records, capture, (text) => void reports.push(text));
  try {
    await work(wire, directory, reports);
  } finally {
    wire.close();
    records.close();
    await Deno.remove(directory, { recursive: true });
  }
}

function blobs(directory: string): string[] {
  try {
    return [...Deno.readDirSync(`${directory}/blobs`)].map(({ name }) => name).sort();
  } catch {
    return [];
  }
}

Deno.test("none: no hashes but that of the prompt, no bodies", () =>
  withCapture("none", (wire, directory) => {
    assert.deepEqual(wire.response(wire.request(REQUEST), "{}"), {});
    assert.equal(wire.systemPrompt("p"), sha256Hex("p"));
    assert.deepEqual(blobs(directory), []);
  }));

Deno.test("meta: hashes of exactly what was sent, no bodies", () =>
  withCapture("meta", (wire, directory) => {
    const hashes = wire.response(wire.request(REQUEST), '{"stop_reason":"end_turn"}');
    assert.deepEqual(hashes, {
      system_sha: sha256Hex("be brief"),
      tools_sha: sha256Hex("[]"),
      response_sha: sha256Hex('{"stop_reason":"end_turn"}'),
      message_shas: REQUEST.messageJsons.map((json) => sha256Hex(json)),
    });
    assert.deepEqual(Object.keys(hashes), ["system_sha", "tools_sha", "response_sha", "message_shas"]);
    assert.deepEqual(blobs(directory), []);
  }));

Deno.test("content: one body per distinct hash, verbatim, named by its hash, in a private folder", () =>
  withCapture("content", (wire, directory) => {
    const token = "mh1.a.b, kept as it was sent ä😀";
    wire.systemPrompt(token);
    const hashes = wire.response(wire.request({ ...REQUEST, system: token }), "[]");
    assert.deepEqual(
      blobs(directory),
      [...new Set([sha256Hex(token), hashes.tools_sha!, ...hashes.message_shas!])].sort(),
    );
    for (const name of blobs(directory)) {
      assert.equal(sha256Hex(Deno.readFileSync(`${directory}/blobs/${name}`)), name);
      assert.equal(Deno.statSync(`${directory}/blobs/${name}`).mode! & 0o777, 0o600);
    }
    assert.equal(Deno.statSync(`${directory}/blobs`).mode! & 0o777, 0o700);
  }));

Deno.test("a body that is there is never written again", () =>
  withCapture("content", (wire, directory) => {
    const hash = sha256Hex("be brief");
    Deno.mkdirSync(`${directory}/blobs`);
    Deno.writeTextFileSync(`${directory}/blobs/${hash}`, "already here");
    wire.request(REQUEST);
    assert.equal(Deno.readTextFileSync(`${directory}/blobs/${hash}`), "already here");
  }));

Deno.test("a folder that cannot be used is reported once; hashes go on", () =>
  withCapture("content", (wire, directory, reports) => {
    Deno.mkdirSync(`${directory}/elsewhere`);
    Deno.symlinkSync("elsewhere", `${directory}/blobs`);
    assert.equal(wire.request(REQUEST).system_sha, sha256Hex("be brief"));
    wire.response({}, "x");
    assert.equal(reports.length, 1);
    assert.deepEqual([...Deno.readDirSync(`${directory}/elsewhere`)], []);
  }));

Deno.test("a history that grows is hashed anew only where it is new, with the same result", () =>
  withCapture("meta", (wire) => {
    const messages: string[] = [];
    for (let turn = 0; turn < 20; turn++) {
      messages.push(`{"turn":${turn}}`);
      assert.deepEqual(
        wire.request({ ...REQUEST, messageJsons: [...messages] }).message_shas,
        messages.map((json) => sha256Hex(json)),
      );
    }
  }));
