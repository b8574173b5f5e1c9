/**
 * A delegation that is called off while its child's work folder is being copied (roost seed "Workdir snapshot", spec roost
 * 11, 14.5): the door and the signal are heard meanwhile, and nothing of the copy is left.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { capsule } from "../support/agent_project.ts";
import {
  childProcesses,
  delegate,
  delegates,
  delegationWorld,
  readTrace,
  worker,
} from "../support/delegation_world.ts";
import { message, startSession } from "../support/door_session.ts";
import { until } from "../support/process_tree.ts";

/** Folders to be copied, of so many files each: what one takes is enough to be called off amid the next. */
const FOLDERS = 8;
const FILES = 8_000;

/** About a second on an idle machine, with room for a busy one. */
const PROMPT_MS = 3_000;

/** Names of one file, which the copy makes files of their own of: quickly made and slowly copied. */
function makeTree(folder: string): void {
  for (let index = 0; index < FOLDERS; index++) {
    const below = `${folder}/${index}`;
    Deno.mkdirSync(below);
    Deno.writeTextFileSync(`${below}/0`, "content");
    for (let file = 1; file < FILES; file++) Deno.linkSync(`${below}/0`, `${below}/${file}`);
  }
}

Deno.test("a cancel and a signal are heard while a large folder is copied, and leave nothing of the copy", async () => {
  const boss = capsule({
    name: "boss",
    capabilities: { spawn: { allow: ["local/worker"], workdir_snapshot: ["local/worker"] } },
    lifecycle: { task_acceptance: "queue", after_task: "sleep" },
  });
  await using world = await delegationWorld(boss, [worker("worker")]);
  await using session = await startSession(world.project, [], { env: world.env });
  makeTree(`${world.project.project}/workdir/${session.sessionId}`);
  const children = `${session.records}/children`;
  const copies = () => {
    try {
      return [...Deno.readDirSync(children)].map(({ name }) => name);
    } catch {
      return [];
    }
  };
  const copying = async () => {
    const task = delegates(delegate("worker", { turns: [{ text: "never" }] }));
    const sent = await session.rpc("SendMessage", message(task, {}, { returnImmediately: true }));
    await until(
      "the second folder is copied",
      () => copies().some((name) => [...Deno.readDirSync(`${children}/${name}`)].length > 1),
      40_000,
    );
    return String(sent.result.task.id);
  };
  const ended = (): readonly JsonObject[] =>
    readTrace(session.records).filter(({ event_type }) => event_type === "delegation");

  const id = await copying();
  let begun = performance.now();
  const canceled = await session.rpc("CancelTask", { id });
  const answered = performance.now() - begun;
  assert.equal(canceled.result.status.state, "TASK_STATE_CANCELED");
  await until("the task is over", () => readTrace(session.records).some(({ event_type }) => event_type === "task_end"));
  const over = performance.now() - begun;
  assert.ok(answered < PROMPT_MS && over < PROMPT_MS, `answered after ${answered} ms, over after ${over} ms`);
  assert.deepEqual(copies(), []);

  await copying();
  begun = performance.now();
  const stopped = await session.stop();
  const took = performance.now() - begun;
  assert.ok(took < PROMPT_MS, `it took ${took} ms`);
  assert.equal(stopped.trace.at(-1)!.exit_status, "canceled");
  assert.deepEqual(copies(), []);
  // No child was there to be named, and none is.
  assert.deepEqual(
    ended().map(({ outcome, reason, delegation_id }) => [outcome, reason, delegation_id]),
    Array(2).fill(["failed", "the delegating task was cancelled", null]),
  );
  assert.deepEqual(childProcesses(Deno.pid), []);
  const { body } = await world.daemon.status(session.sessionId);
  assert.deepEqual([body.live_children, body.live_capsules], [0, 0], "no slot is held");
});
