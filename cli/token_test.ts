import assert from "node:assert/strict";
import { writeRunningRecord } from "../base/write_running_record.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { runningRecord } from "../tests/support/scripted_door.ts";
import { main } from "./main.ts";

Deno.test("the tokens of a session, the operator's first, or one alone", () =>
  withTempDir(async (directory) => {
    const record = runningRecord({ door_token: "mdt1.op", credentials: { ci: "mdt1.ci", ana: "mdt1.ana" } });
    writeRunningRecord(`${directory}/.murmur/running`, record);
    writeRunningRecord(`${directory}/.murmur/running`, runningRecord());
    const run = async (...args: string[]) => {
      const context = testContext(directory, { HOME: directory });
      const status = await main(["token", ...args], context);
      return { status, out: context.out(), err: context.err() };
    };
    const id = record.session_id;
    assert.deepEqual(await run(id), { status: 0, out: "operator mdt1.op\nci mdt1.ci\nana mdt1.ana\n", err: "" });
    assert.deepEqual(await run(id, "ci"), { status: 0, out: "mdt1.ci\n", err: "" });
    const unknown = await run(id, "nobody");
    assert.equal(unknown.status, 1);
    assert.match(unknown.err, /E-IO-003\]: the door of ses_\w+ has no credential 'nobody'/);
    assert.ok(!unknown.err.includes("mdt1"));
    assert.match((await run("@1")).err, /E-IO-003\]: the door of ses_\w+ is public/);
    assert.match((await run("@3")).err, /E-RUN-022/);
    assert.equal((await run()).status, 2);
  }));
