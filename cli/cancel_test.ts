import assert from "node:assert/strict";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { type DoorAnswer, type DoorCall, errorInfo, scriptedDoor } from "../tests/support/scripted_door.ts";
import { main } from "./main.ts";

function answer({ method, params }: DoorCall): DoorAnswer | null {
  if (method !== "CancelTask") return null;
  switch (params.id) {
    case "tsk_ended":
      return {
        error: {
          code: -32002,
          message: "Task cannot be canceled",
          data: errorInfo("TASK_NOT_CANCELABLE", { taskId: "tsk_ended", state: "TASK_STATE_COMPLETED" }),
        },
      };
    case "tsk_unknown":
      return { error: { code: -32001, message: "Task not found", data: errorInfo("TASK_NOT_FOUND") } };
    case "tsk_odd":
      return { result: { nothing: true } };
    case "tsk_broken":
      return { error: { code: -32603, message: "internal error: queue send failed" } };
    case "tsk_residue":
      return {
        result: {
          id: "tsk_residue",
          contextId: "ctx_1",
          status: { state: "TASK_STATE_CANCELED" },
          artifacts: [{
            artifactId: "residue",
            name: "residue",
            parts: [{
              data: { kind: "detached_shell", work_id: "wrk_1", command: "sleep 90" },
              mediaType: "application/json",
            }],
          }],
        },
      };
    default:
      return { result: { id: String(params.id), contextId: "ctx_1", status: { state: "TASK_STATE_CANCELED" } } };
  }
}

async function withDoor(
  token: string | undefined,
  work: (
    run: (
      args: readonly string[],
      env?: Record<string, string>,
    ) => Promise<{ status: number; out: string; err: string }>,
    door: ReturnType<typeof scriptedDoor>,
  ) => Promise<void>,
): Promise<void> {
  await withTempDir(async (directory) => {
    await using door = scriptedDoor({ answer, ...(token === undefined ? {} : { token }) });
    door.record(`${directory}/.murmur/running`);
    await work(async (args, env = {}) => {
      const context = testContext(directory, { HOME: directory, ...env });
      const status = await main(["cancel", ...args], context);
      return { status, out: context.out(), err: context.err() };
    }, door);
  });
}

Deno.test("a task is canceled; one that has ended tells how", () =>
  withDoor(undefined, async (run, door) => {
    assert.deepEqual(await run([door.sessionId, "tsk_1"]), {
      status: 0,
      out: "task:    tsk_1\nstate:   canceled\n",
      err: "",
    });
    assert.equal(
      (await run(["@1", "tsk_residue"])).out,
      "task:    tsk_residue\nstate:   canceled\nrunning: wrk_1  detached shell  sleep 90\n",
    );
    assert.deepEqual(await run(["@1", "tsk_ended"]), {
      status: 0,
      out: "task:    tsk_ended\nstate:   completed\n",
      err: "",
    });
  }));

Deno.test("what a door does not hold, serve or say is E-IO-003", () =>
  withDoor(undefined, async (run) => {
    assert.match((await run(["@1", "tsk_unknown"])).err, /E-IO-003\]: ses_\w+ holds no task 'tsk_unknown'/);
    assert.match((await run(["@1", "tsk_odd"])).err, /E-IO-003\].*what is no task/);
    const broken = await run(["@1", "tsk_broken"]);
    assert.match(broken.err, /E-IO-003\].*queue send failed \(-32603\)/);
    assert.deepEqual([broken.status, broken.out], [1, ""]);
    assert.match((await run(["ffff", "tsk_1"])).err, /E-RUN-022/);
  }));

Deno.test("a door is also named by its address, with the token of the environment", () =>
  withDoor("mdt1.secret", async (run, door) => {
    assert.equal((await run(["@1", "tsk_1"])).status, 0, "the record has the token");
    const env = { MURMUR_DOOR_TOKEN: " mdt1.secret\n" };
    for (const url of [door.url, `http://${door.url}/`, `127.0.0.1:${door.port}`]) {
      assert.equal((await run(["--url", url, "tsk_1"], env)).out, "task:    tsk_1\nstate:   canceled\n", url);
    }
    for (
      const [given, word] of [[{}, "unauthenticated"], [{ MURMUR_DOOR_TOKEN: "mdt1.x" }, "invalid_token"]] as const
    ) {
      const { status, err } = await run(["--url", door.url, "tsk_1"], given);
      assert.equal(status, 1);
      assert.match(err, new RegExp(`E-IO-003\\].*answered 401 ${word}[^]*MURMUR_DOOR_TOKEN`));
    }
    assert.match(
      (await run(["--url", door.url, "t"], { MURMUR_DOOR_TOKEN: "a\r\nb" })).err,
      /E-IO-003.*MURMUR_DOOR_TOKEN/,
    );
    assert.match((await run(["--url", "localhost:1", "tsk_1"], env)).err, /E-IO-003\].*refused the connection/);
    for (const url of ["localhost", "https://localhost:1", "a b:1"]) {
      assert.match((await run(["--url", url, "tsk_1"], env)).err, /E-IO-003\].*is not the address of a door/, url);
    }
  }));

Deno.test("a session and a task, or --url and a task", () =>
  withDoor(undefined, async (run, door) => {
    for (const args of [[], ["tsk_1"], ["--url", door.url], ["--url", door.url, "@1", "tsk_1"]]) {
      assert.equal((await run(args)).status, 2, args.join(" "));
    }
    assert.equal(door.calls.length, 0);
  }));
