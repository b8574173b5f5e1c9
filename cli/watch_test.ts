import assert from "node:assert/strict";
import type { TimeBounds } from "../base/time_bounds.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import {
  cuttingProxy,
  type DoorAnswer,
  type DoorCall,
  type ScriptedDoor,
  scriptedDoor,
  type ScriptedEvent,
  taskFrames,
  watchNotice,
} from "../tests/support/scripted_door.ts";
import { reportFailure } from "./failure.ts";
import { main } from "./main.ts";
import type { TextOutput } from "./context.ts";
import { streamUpdate } from "../base/stream_events.ts";
import { WatchView } from "./stream_view.ts";
import { watch } from "./watch.ts";

const TASK = taskFrames("tsk_a", "ctx_12345678abcdef");
const QUICK: Partial<TimeBounds> = { streamReopen: 5, streamLost: 300 };

/** A task from its first turn to its answer, and the end of the session. */
const FRAMES: readonly ScriptedEvent[] = [
  TASK.status(1, "TASK_STATE_WORKING", "inference turn 1"),
  TASK.text(2, "I look."),
  TASK.text(3, "", true),
  TASK.frame(4, "tool-call-started", { tool_call_id: "c1", tool_name: "bash" }),
  TASK.tool(5, "bash", "a\nb\n", { exit_code: 0 }),
  TASK.status(6, "TASK_STATE_INPUT_REQUIRED", "Which one?\nSay a or b."),
  TASK.status(7, "TASK_STATE_WORKING", "resumed"),
  TASK.text(8, "It is "),
  TASK.text(9, "a."),
  TASK.response("It is a.\nReally."),
  TASK.status(10, "TASK_STATE_COMPLETED", "session ended", true),
];
const CLOSED = watchNotice("capsule-closed");
const SHOWN = `[working]  inference turn 1
I look.
[artifact] tool: bash [ok, exit 0, 12ms] | a
  b
[input-required]  Which one?
  Say a or b.
[working]  resumed
It is a.
[completed]
  It is a.
  Really.
`;

/** The stream as a door replays it behind an id; an answer goes with the numbered frame behind it. */
function replay(lastEventId: string | null): ScriptedEvent[] {
  const after = Number(lastEventId ?? 0);
  return FRAMES.filter((frame, index) => (frame.id ?? FRAMES[index + 1]!.id!) > after);
}

async function withDoor(
  answer: (call: DoorCall) => DoorAnswer | null,
  work: (
    run: (
      args?: readonly string[],
      bounds?: Partial<TimeBounds>,
    ) => Promise<{ status: number; out: string; err: string }>,
    door: ScriptedDoor,
    running: string,
  ) => Promise<void>,
): Promise<void> {
  await withTempDir(async (directory) => {
    await using door = scriptedDoor({ answer });
    const running = `${directory}/.murmur/running`;
    door.record(running);
    await work(
      async ([url, address] = [], bounds = QUICK) => {
        const context = testContext(directory, { HOME: directory }, bounds);
        const status = await watch(context, url === undefined ? {} : { url }, address)
          .catch((error) => reportFailure(error, context));
        return { status, out: context.out(), err: context.err() };
      },
      door,
      running,
    );
  });
}

Deno.test("a session is shown from its first kept event to its end", async () => {
  const ack = watchNotice("connection-ack", { role: "observer", conversation_mode: "stateless" });
  await withDoor(
    ({ method, lastEventId }) =>
      method === "murmur.WatchStream" ? { events: [ack, ...replay(lastEventId), CLOSED] } : null,
    async (run, door) => {
      const { status, out, err } = await run();
      assert.equal(out, SHOWN);
      assert.deepEqual([status, door.calls[0]!.lastEventId], [0, "0"]);
      assert.equal(
        err,
        `watching ${door.sessionId} at ${door.url}; Ctrl-C ends the watch, the capsule keeps running\n`,
      );
      assert.equal((await run([door.url])).out, SHOWN, "the same by address");
    },
  );
});

Deno.test("a stream that ends at any event is continued with exactly what was missed", async () => {
  for (let endsAt = 0; endsAt <= FRAMES.length; endsAt++) {
    let connections = 0;
    await withDoor(
      ({ lastEventId }) => {
        const events = [watchNotice("connection-ack"), ...replay(lastEventId), CLOSED];
        return { events: connections++ === 0 ? events.slice(0, endsAt + 1) : events };
      },
      async (run) => {
        const { status, out, err } = await run();
        assert.equal(out, SHOWN, `ended behind ${endsAt} events`);
        assert.deepEqual([status, connections], [0, 2]);
        assert.match(err, /the stream was lost \(the connection ended\); opening it again/);
      },
    );
  }
});

Deno.test("a connection that breaks off at any byte of the stream costs nothing", async () => {
  const whole = [watchNotice("connection-ack"), ...FRAMES, CLOSED].map(({ result }) => JSON.stringify(result)).join("");
  await withDoor(
    ({ lastEventId }) => ({ events: [watchNotice("connection-ack"), ...replay(lastEventId), CLOSED] }),
    async (run, door) => {
      for (let share = 0; share < 1; share += 0.04) {
        // Every connection is cut, each later than the one before.
        await using proxy = cuttingProxy(door.port, (count) => Math.round(whole.length * share) + count * 700);
        const { status, out } = await run([proxy.url], { ...QUICK, streamLost: 10_000 });
        assert.equal(out, SHOWN, `cut at ${share}`);
        assert.equal(status, 0);
      }
    },
  );
});

Deno.test("a door that answers no more is tried for a while, with growing pauses, then given up", async () => {
  const times: number[] = [];
  await withDoor(
    () => {
      times.push(performance.now());
      return times.length === 1
        ? { events: FRAMES.slice(0, 3) }
        : { response: new Response(null, { status: 503, headers: { "retry-after": "1" } }) };
    },
    async (run) => {
      const { status, err } = await run([], { streamReopen: 20, streamLost: 600 });
      assert.equal(status, 1);
      assert.match(err, /E-IO-003\]: the stream of ses_\w+ was lost after event 3: it answered 503/);
      assert.equal(err.match(/opening it again/g)?.length, 1, "said once a loss");
      const pauses = times.slice(1).map((time, index) => time - times[index]!);
      assert.ok(times.length >= 4 && times.length <= 9, `${times.length} connections`);
      assert.ok(pauses[2]! > pauses[0]! * 1.5, pauses.join());
      assert.ok(times.at(-1)! - times[0]! < 900);
    },
  );
});

Deno.test("a refusal ends the watch, at once and when it comes later", async () => {
  for (const first of [true, false]) {
    let connections = 0;
    await withDoor(
      () =>
        connections++ === 0 && !first
          ? { events: FRAMES.slice(0, 2) }
          : { response: Response.json({ error: "invalid_token", message: "no" }, { status: 401 }) },
      async (run) => {
        const { status, err } = await run();
        assert.equal(status, 1);
        assert.match(err, /E-IO-003\]: the door of ses_\w+ answered 401 invalid_token/);
        assert.equal(connections, first ? 1 : 2);
      },
    );
  }
  await withDoor(() => null, async (run) => {
    assert.match((await run()).err, /E-IO-003\].*does not serve that method/);
  });
});

Deno.test("a stream of a session whose process is gone is not opened again", async () => {
  await withTempDir(async (directory) => {
    const child = new Deno.Command("sleep", { args: ["60"] }).spawn();
    let connections = 0;
    await using door = scriptedDoor({
      answer: async () => {
        connections++;
        child.kill("SIGKILL");
        await child.status;
        return { events: FRAMES.slice(0, 2) };
      },
    });
    door.record(`${directory}/.murmur/running`, { pid: child.pid });
    const context = testContext(directory, { HOME: directory }, { streamReopen: 300, streamLost: 60_000 });
    const before = performance.now();
    const status = await watch(context, {}).catch((error) => reportFailure(error, context));
    await child.status;
    assert.ok(performance.now() - before < 5_000);
    assert.deepEqual([status, connections], [1, 1]);
    assert.match(context.err(), /E-IO-003\]: the stream of ses_\w+ was lost after event 2.*\n.*without saying goodbye/);
  });
});

Deno.test("which session is watched, and which cannot be", () =>
  withDoor(() => ({ events: [CLOSED] }), async (run, door, running) => {
    await using impostor = scriptedDoor();
    const robbed = `ses_ff${door.sessionId.slice(6)}`;
    door.record(running, { session_id: robbed, url: impostor.url });
    const script = `ses_ee${door.sessionId.slice(6)}`;
    door.record(running, { session_id: script, url: null });
    assert.match((await run()).err, new RegExp(`E-RUN-023\\]: ${robbed} is running but .* answers for session`));
    assert.match((await run([undefined!, script])).err, /E-RUN-023\].*a script capsule has no door/);
    assert.equal((await run([undefined!, door.sessionId])).status, 0);
    assert.match((await run([undefined!, "@4"])).err, /E-RUN-022/);
    assert.match((await run(["localhost:1"])).err, /E-IO-003\]: the connection to the door of localhost:1 failed/);
    assert.equal(await main(["watch", "--url", door.url, "@1"], testContext("/", { HOME: "/nowhere" })), 2);
  }));

function output(isTerminal: boolean): TextOutput & { text(): string } {
  let text = "";
  const write = (more: string) => (text += more, true);
  return {
    isTerminal,
    color: false,
    write,
    writeBytes: () => false,
    line: (more) => write(`${more}\n`),
    text: () => text,
  };
}

function shown(events: readonly ScriptedEvent[], isTerminal = false) {
  const [out, err] = [output(isTerminal), output(isTerminal)];
  const view = new WatchView(out, err);
  const ends = events.map(({ result }) => view.show(streamUpdate(result)));
  return { out: out.text(), err: err.text(), ended: ends.includes(true) };
}

Deno.test("threaded sessions name context and turn", () => {
  const other = taskFrames("tsk_b", "ctx_ffffffff0000");
  const { out } = shown([
    watchNotice("connection-ack", { conversation_mode: "threaded" }),
    TASK.status(undefined, "TASK_STATE_SUBMITTED", "queued"),
    TASK.status(1, "TASK_STATE_WORKING", "inference turn 2"),
    other.status(2, "TASK_STATE_WORKING", "inference turn 1"),
    TASK.status(3, "TASK_STATE_FAILED", "session ended", true),
    TASK.status(4, "TASK_STATE_WORKING", "resumed"),
  ]);
  assert.equal(
    out,
    `[ctx_12345678... / submitted]  queued
[ctx_12345678... / turn 2 / working]  inference turn 2
[ctx_ffffffff... / turn 1 / working]  inference turn 1
[ctx_12345678... / turn 2 / failed]  session ended
[ctx_12345678... / working]  resumed
`,
  );
});

Deno.test("what a tool gave, in pieces too, and what the reader missed", () => {
  const piece = (text: string, append: boolean, lastChunk: boolean): ScriptedEvent => {
    const { result } = TASK.tool(5, "fetch", text, {
      is_error: true,
      exit_code: 2,
      truncated: true,
      duration_ms: null,
    });
    return { result: { artifactUpdate: { ...result.artifactUpdate as object, append, lastChunk } } };
  };
  const { out, err } = shown([
    piece("one\n", false, false),
    TASK.text(1, "half a line"),
    piece("two", true, true),
    TASK.frame(6, "lagged", { missed: 3 }),
    watchNotice("gap", { first_available_id: 40 }),
  ]);
  assert.equal(out, "half a line\n[artifact] tool: fetch [error, exit 2, truncated] | one\n  two\n");
  assert.equal(
    err,
    "[lagged]  3 event(s) were lost: this reader was too slow\n[gap]  events before 40 are no longer kept\n",
  );
});

Deno.test("on a terminal nothing a model wrote is obeyed; a pipe gets it as it is", () => {
  const events = [TASK.text(1, "a\u001b[2Jb\r"), TASK.text(2, "\u202ec", true)];
  assert.equal(shown(events, true).out, "a\\x1b[2Jb\\r\\u202ec\n");
  assert.equal(shown(events, false).out, "a\u001b[2Jb\r\u202ec\n");
});

Deno.test("a watch ends with its reader", () =>
  withTempDir(async (directory) => {
    await using door = scriptedDoor({ answer: () => ({ events: FRAMES.slice(0, 3), hold: true }) });
    door.record(`${directory}/.murmur/running`);
    const context = testContext(directory, { HOME: directory });
    const closed: TextOutput = {
      isTerminal: false,
      color: false,
      write: () => false,
      writeBytes: () => false,
      line: () => false,
    };
    assert.equal(await watch({ ...context, stdout: closed }, {}), 0);
  }));
