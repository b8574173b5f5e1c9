import assert from "node:assert/strict";
import type { JsonObject } from "../base/json_value.ts";
import type { TimeBounds } from "../base/time_bounds.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import {
  cuttingProxy,
  type DoorAnswer,
  type DoorCall,
  errorInfo,
  type ScriptedDoor,
  scriptedDoor,
  type ScriptedEvent,
  taskFrames,
} from "../tests/support/scripted_door.ts";
import { reportFailure } from "./failure.ts";
import { main } from "./main.ts";
import { send, type SendFlags, type SendInput } from "./send.ts";

const TASK = taskFrames("tsk_a", "ctx_b");
const QUICK: Partial<TimeBounds> = { streamReopen: 5, streamLost: 10_000 };

const SUBMITTED = TASK.task("TASK_STATE_SUBMITTED");
/** A task that looks around and answers; its frames are numbered but for the answer. */
const FRAMES: readonly ScriptedEvent[] = [
  TASK.status(1, "TASK_STATE_WORKING", "inference turn 1"),
  TASK.text(2, "I look."),
  TASK.text(3, "", true),
  TASK.tool(4, "bash", "a\nb\n", { exit_code: 0 }),
  TASK.status(5, "TASK_STATE_WORKING", "inference turn 2"),
  TASK.text(6, "It is "),
  TASK.text(7, "a."),
  TASK.text(8, "", true),
  TASK.response("It is a."),
  TASK.status(9, "TASK_STATE_COMPLETED", "session ended", true),
];
const DONE: JsonObject = {
  id: "tsk_a",
  contextId: "ctx_b",
  status: { state: "TASK_STATE_COMPLETED" },
  artifacts: [{ artifactId: "response", name: "response", parts: [{ text: "It is a.", mediaType: "text/plain" }] }],
};
const OUT = "I look.\nIt is a.\n";

function replay(lastEventId: string | null): readonly ScriptedEvent[] {
  if (lastEventId === null) return [];
  return FRAMES.filter((frame, index) => (frame.id ?? FRAMES[index + 1]!.id!) > Number(lastEventId));
}

interface Sent {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

const NO_INPUT: SendInput = {
  stdin: new ReadableStream({ start: (controller) => controller.close() }),
  onInterrupt: () => () => {},
};

async function withDoor(
  answer: (call: DoorCall) => DoorAnswer | null | Promise<DoorAnswer | null>,
  work: (
    run: (text: string, flags?: SendFlags, input?: Partial<SendInput>, bounds?: Partial<TimeBounds>) => Promise<Sent>,
    door: ScriptedDoor,
    running: string,
  ) => Promise<void>,
): Promise<void> {
  await withTempDir(async (directory) => {
    await using door = scriptedDoor({ answer });
    const running = `${directory}/.murmur/running`;
    door.record(running);
    await work(
      async (text, flags = {}, input = {}, bounds = QUICK) => {
        const context = testContext(directory, { HOME: directory }, bounds);
        const status = await send(context, flags, "@1", text, { ...NO_INPUT, ...input })
          .catch((error) => reportFailure(error, context));
        return { status, out: context.out(), err: context.err() };
      },
      door,
      running,
    );
  });
}

Deno.test("the answer goes to stdout as it comes, states and tools to stderr", () =>
  withDoor(
    ({ method }) => method === "SendStreamingMessage" ? { events: [SUBMITTED, ...FRAMES] } : null,
    async (run, door) => {
      assert.deepEqual(await run("what is here?"), {
        status: 0,
        out: OUT,
        err: "[working]  inference turn 1\n[artifact] tool: bash [ok, exit 0, 12ms] | a\n  b\n" +
          "[working]  inference turn 2\n[completed]\n",
      });
      const message = door.calls[0]!.params.message as JsonObject;
      assert.match(String(message.messageId), /^msg_[0-9a-f]{32}$/);
      assert.deepEqual({ ...message, messageId: "" }, {
        messageId: "",
        role: "ROLE_USER",
        parts: [{ text: "what is here?", mediaType: "text/plain" }],
      });
      assert.equal(door.calls.length, 1, "the stream said it all");
      await run("more", { context: "ctx_b", task: "tsk_a" });
      const { contextId, taskId } = door.calls[1]!.params.message as JsonObject;
      assert.deepEqual([contextId, taskId], ["ctx_b", "tsk_a"]);
    },
  ));

Deno.test("an answer that was not streamed, or not whole, is printed at the end", () =>
  withDoor(
    ({ params }) => {
      const [{ text }] = (params.message as { parts: [{ text: string }] }).parts;
      const frames: Record<string, ScriptedEvent[]> = {
        silent: [TASK.response("quiet"), TASK.status(1, "TASK_STATE_COMPLETED", "session ended", true)],
        pieces: [
          TASK.response("in ", false, false),
          TASK.response("pieces\n", true, true),
          TASK.status(1, "TASK_STATE_COMPLETED", "session ended", true),
        ],
        lagged: [
          TASK.text(1, "It "),
          TASK.frame(2, "lagged", { missed: 2 }),
          TASK.text(5, "a."),
          TASK.response("It is a."),
          TASK.status(6, "TASK_STATE_COMPLETED", "session ended", true),
        ],
        whole: [
          TASK.text(1, "all of it", true),
          TASK.response("all of it"),
          TASK.status(2, "TASK_STATE_COMPLETED", "session ended", true),
        ],
      };
      return { events: [SUBMITTED, ...frames[text]!] };
    },
    async (run) => {
      assert.equal((await run("silent")).out, "quiet\n");
      assert.equal((await run("pieces")).out, "in pieces\n");
      const lagged = await run("lagged");
      assert.equal(lagged.out, "It a.\nIt is a.\n");
      assert.match(lagged.err, /^\[lagged\] {2}2 event\(s\) were lost/m);
      assert.equal((await run("whole")).out, "all of it\n");
    },
  ));

Deno.test("an answer the stream did not bring is asked for; a door that is gone is no failure", async () => {
  const events = [SUBMITTED, TASK.status(1, "TASK_STATE_COMPLETED", "session ended", true)];
  await withDoor(({ method }) => method === "GetTask" ? { result: DONE } : { events }, async (run) => {
    assert.deepEqual(await run("x"), { status: 0, out: "It is a.\n", err: "[completed]\n" });
  });
  await withDoor(({ method }) => method === "GetTask" ? null : { events }, async (run) => {
    assert.deepEqual(await run("x"), { status: 0, out: "", err: "[completed]\n" });
    const { out } = await run("x", { json: true });
    const last = JSON.parse(out.trim().split("\n").at(-1)!);
    assert.equal(last.task.id, "tsk_a");
    assert.equal(last.task.status.state, "TASK_STATE_COMPLETED");
  });
});

Deno.test("every end but completion and a question is status 1, with its reason", async () => {
  for (const [state, word] of [["FAILED", "failed"], ["CANCELED", "canceled"]] as const) {
    const events = [SUBMITTED, TASK.status(1, `TASK_STATE_${state}`, "because\nof that", true)];
    await withDoor(() => ({ events }), async (run) => {
      assert.deepEqual(await run("x"), { status: 1, out: "", err: `[${word}]  because\n  of that\n` });
    });
  }
  const busy = "task rejected: capsule is busy";
  const message = { role: "ROLE_AGENT", messageId: "m", parts: [{ text: busy, mediaType: "text/plain" }] };
  const rejected: ScriptedEvent = {
    event: "task",
    result: { task: { id: "tsk_r", contextId: "c", status: { state: "TASK_STATE_REJECTED", message } } },
  };
  await withDoor(
    () => ({ events: [rejected, TASK.status(undefined, "TASK_STATE_REJECTED", busy, true)] }),
    async (run, door) => {
      assert.deepEqual(await run("x"), { status: 1, out: "", err: `[rejected]  ${busy}\n` });
      const { status, out } = await run("x", { json: true });
      assert.equal(status, 1);
      assert.equal(JSON.parse(out.trim().split("\n").at(-1)!).task.status.message.parts[0].text, busy);
      assert.equal(door.calls.length, 2, "a task that is not kept is not asked for");
    },
  );
});

Deno.test("a task that asks ends the command with its question", () =>
  withDoor(
    ({ method }) =>
      method === "GetTask"
        ? { result: { id: "tsk_a", contextId: "ctx_b", status: { state: "TASK_STATE_INPUT_REQUIRED" } } }
        : {
          events: [SUBMITTED, TASK.status(1, "TASK_STATE_INPUT_REQUIRED", "Which one?\nSay a or b.")],
          hold: true,
        },
    async (run, door) => {
      const { status, out, err } = await run("x");
      assert.deepEqual([status, out], [0, "Which one?\nSay a or b.\n"]);
      assert.equal(
        err,
        `[input-required]\nmur: the task waits; answer it with: mur send ${door.sessionId} --task tsk_a "…"\n`,
      );
      const json = await run("x", { json: true });
      assert.equal(json.status, 0);
      assert.equal(json.err, "");
      assert.deepEqual(json.out.trim().split("\n").map((line) => Object.keys(JSON.parse(line))[0]), [
        "task",
        "statusUpdate",
        "task",
      ]);
    },
  ));

Deno.test("--json: a line per event, then the task", () =>
  withDoor(
    ({ method }) => method === "GetTask" ? { result: DONE } : { events: [SUBMITTED, ...FRAMES] },
    async (run) => {
      const { status, out, err } = await run("x", { json: true });
      const lines = out.trim().split("\n").map((line) => JSON.parse(line));
      assert.deepEqual(lines.slice(0, -1), [SUBMITTED, ...FRAMES].map(({ result }) => result));
      assert.deepEqual(lines.at(-1), { task: DONE });
      assert.deepEqual([status, err], [0, ""]);
    },
  ));

Deno.test("a stream that ends at any event is continued with exactly what was missed", async () => {
  for (let endsAt = 1; endsAt <= FRAMES.length; endsAt++) {
    await withDoor(
      ({ method, lastEventId }) => {
        if (method === "SendStreamingMessage") return { events: [SUBMITTED, ...FRAMES.slice(0, endsAt - 1)] };
        assert.equal(method, "SubscribeToTask");
        return { events: [TASK.task("TASK_STATE_WORKING"), ...replay(lastEventId)] };
      },
      async (run, door) => {
        const { status, out, err } = await run("x");
        assert.equal(out, OUT, `ended behind ${endsAt} events`);
        assert.equal(status, 0);
        assert.match(err, /the stream was lost .*; opening it again/);
        assert.deepEqual(door.calls.map(({ method }) => method), ["SendStreamingMessage", "SubscribeToTask"]);
        assert.deepEqual(door.calls[1]!.params, { id: "tsk_a" });
      },
    );
  }
});

Deno.test("a connection that breaks off at any byte costs nothing, and the message is sent once", async () => {
  await withDoor(
    ({ method, lastEventId }) =>
      method === "SendStreamingMessage"
        ? { events: [SUBMITTED, ...FRAMES] }
        : { events: [TASK.task("TASK_STATE_WORKING"), ...replay(lastEventId)] },
    async (run, door, running) => {
      const size = [SUBMITTED, ...FRAMES].map(({ result }) => JSON.stringify(result)).join("").length;
      for (let share = 0.1; share < 1; share += 0.05) {
        // The card is asked for first; behind it the head and the snapshot come whole.
        await using proxy = cuttingProxy(
          door.port,
          (count) => count === 1 ? 1e9 : 400 + Math.round(size * share) + count * 500,
        );
        door.record(running, { url: proxy.url });
        const before = door.calls.length;
        const { status, out } = await run("x");
        assert.equal(out, OUT, `cut at ${share}`);
        assert.equal(status, 0);
        const sent = door.calls.slice(before).filter(({ method }) => method === "SendStreamingMessage");
        assert.equal(sent.length, 1);
      }
    },
  );
});

Deno.test("a task that ended while nobody listened is shown as it stands", () =>
  withDoor(
    ({ method }) => {
      switch (method) {
        case "SendStreamingMessage":
          return { events: [SUBMITTED, ...FRAMES.slice(0, 3)] };
        case "SubscribeToTask":
          return {
            error: {
              code: -32004,
              message: "ended",
              data: errorInfo("UNSUPPORTED_OPERATION", { taskId: "tsk_a", state: "TASK_STATE_COMPLETED" }),
            },
          };
        default:
          return { result: DONE };
      }
    },
    async (run) => {
      const { status, out, err } = await run("x");
      assert.deepEqual([status, out], [0, OUT]);
      assert.match(err, /^\[completed\]$/m);
    },
  ));

Deno.test("a message whose fate is unknown is not sent again", async () => {
  let sent = 0;
  await withDoor(
    ({ method }) => {
      if (method === "SendStreamingMessage") sent++;
      return { events: [] };
    },
    async (run) => {
      const { status, err } = await run("x");
      assert.deepEqual([status, sent], [1, 1]);
      assert.match(err, /E-IO-003\]: the connection to the door of ses_\w+ was lost before it named the task/);
    },
  );
  await withDoor(() => null, async (run) => {
    assert.match((await run("x")).err, /E-IO-003\]: ses_\w+ takes no tasks at its door[^]*task_acceptance/);
  });
});

Deno.test("a reply to a task that does not wait, or is not there", async () => {
  for (
    const [code, text] of [
      [-32001, /E-IO-003\]: ses_\w+ holds no task 'tsk_z'/],
      [-32004, /E-IO-003\]: ses_\w+ takes no message for task 'tsk_z'/],
      [-32602, /E-IO-003\].*Invalid params/],
    ] as const
  ) {
    await withDoor(() => ({ error: { code, message: "Invalid params: no" } }), async (run) => {
      const { status, out, err } = await run("x", { task: "tsk_z" });
      assert.deepEqual([status, out], [1, ""]);
      assert.match(err, text);
    });
  }
});

Deno.test("a continued task that is lost before its first event is not replayed from the start", () =>
  withDoor(
    ({ method, lastEventId }) => {
      if (method === "SendStreamingMessage") return { events: [TASK.task("TASK_STATE_WORKING")] };
      assert.equal(lastEventId, null);
      return {
        events: [TASK.task("TASK_STATE_INPUT_REQUIRED", {
          artifacts: [{ artifactId: "prompt", name: "prompt", parts: [{ text: "And now?" }] }],
        })],
        hold: true,
      };
    },
    async (run) => {
      const { status, out } = await run("x", { task: "tsk_a" });
      assert.deepEqual([status, out], [0, "And now?\n"]);
    },
  ));

Deno.test("Ctrl-C leaves the task running and says how to cancel it", async () => {
  for (const named of [true, false]) {
    const asked = Promise.withResolvers<void>();
    await withDoor(
      async () => {
        setTimeout(asked.resolve, 30);
        if (!named) await new Promise((resolve) => setTimeout(resolve, 200));
        return { events: [SUBMITTED, ...FRAMES.slice(0, 3)], hold: true };
      },
      async (run, door) => {
        let removed = 0;
        const { status, out, err } = await run("x", {}, {
          onInterrupt(listener) {
            asked.promise.then(listener);
            return () => removed++;
          },
        });
        assert.deepEqual([status, removed], [130, 1]);
        assert.equal(out, named ? "I look.\n" : "");
        assert.match(
          err,
          named
            ? new RegExp(`the task goes on; to cancel it: mur cancel ${door.sessionId} tsk_a\n$`)
            : new RegExp(`if the message was taken, its task goes on; mur watch ${door.sessionId} shows it\n$`),
        );
        assert.deepEqual(door.calls.map(({ method }) => method), ["SendStreamingMessage"]);
      },
    );
  }
});

Deno.test("- reads the message from standard input; an empty one is none", () =>
  withDoor(() => ({ events: [SUBMITTED, ...FRAMES] }), async (run, door) => {
    const stdin = (bytes: Uint8Array<ArrayBuffer>) => ({ stdin: new Blob([bytes]).stream() });
    const text = (given: string) => new TextEncoder().encode(given);
    await run("-", {}, stdin(text("zwei\nZeilen: ä\n")));
    assert.deepEqual((door.calls[0]!.params.message as JsonObject).parts, [
      { text: "zwei\nZeilen: ä", mediaType: "text/plain" },
    ]);
    assert.match((await run("-", {}, stdin(new Uint8Array([0xff])))).err, /E-IO-003\]: the message is not UTF-8/);
    assert.match((await run("-", {}, stdin(new Uint8Array((16 << 20) + 1)))).err, /E-IO-003\]: the message is longer/);
    for (const empty of ["", " \n"]) assert.equal((await run(empty)).status, 2);
    assert.equal(door.calls.length, 1);
  }));

Deno.test("the session is resolved and verified first", () =>
  withDoor(() => ({ events: [] }), async (_run, door, running) => {
    await using impostor = scriptedDoor();
    door.record(running, { url: impostor.url });
    const home = running.replace("/.murmur/running", "");
    const context = testContext(home, { HOME: home });
    assert.equal(await main(["send", door.sessionId, "hello"], context), 1);
    assert.match(context.err(), /E-RUN-023\].*answers for session/);
    assert.equal(impostor.calls.length + door.calls.length, 0);
    const nobody = testContext("/", { HOME: `${home}/nobody` });
    assert.equal(await main(["send", "@1", "hello"], nobody), 1);
    assert.match(nobody.err(), /E-RUN-022/);
  }));
