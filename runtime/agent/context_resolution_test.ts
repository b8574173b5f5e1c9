import assert from "node:assert/strict";
import { isId } from "../../base/ids.ts";
import { MurError } from "../../base/errors.ts";
import {
  a2aTaskContext,
  launchTaskContext,
  resumeContext,
  type ResumeQuestion,
  tracedContext,
} from "./context_resolution.ts";

Deno.test("which context, and whether its history is loaded: the whole table", () => {
  for (const conversation of ["stateless", "threaded"] as const) {
    const threaded = conversation === "threaded";
    const fresh = launchTaskContext({ conversation, given: null, resumed: null });
    assert.ok(isId("ctx", fresh.contextId));
    assert.equal(fresh.loadHistory, false);
    assert.deepEqual(launchTaskContext({ conversation, given: "mine", resumed: null }), {
      contextId: "mine",
      loadHistory: threaded,
    });
    assert.deepEqual(launchTaskContext({ conversation, given: null, resumed: "ctx_r" }), {
      contextId: "ctx_r",
      loadHistory: true,
    });

    for (
      const launch of [{ given: null, resumed: null }, { given: "mine", resumed: null }, {
        given: null,
        resumed: "ctx_r",
      }]
    ) {
      const minted = a2aTaskContext({ conversation, ...launch }, null);
      assert.ok(isId("ctx", minted.contextId));
      assert.equal(minted.loadHistory, false);
      assert.deepEqual(a2aTaskContext({ conversation, ...launch }, "theirs"), {
        contextId: "theirs",
        loadHistory: threaded,
      });
    }
    assert.deepEqual(a2aTaskContext({ conversation, given: null, resumed: "ctx_r" }, "ctx_r"), {
      contextId: "ctx_r",
      loadHistory: true,
    });
  }
});

Deno.test("a trace names its context on session_start, else on its first task_start, and no further is read", () => {
  const start = (context: string | null) => JSON.stringify({ event_type: "session_start", context_id: context });
  const task = (context: string) => JSON.stringify({ event_type: "task_start", context_id: context });
  assert.equal(tracedContext([start("ctx_a"), task("ctx_b")]), "ctx_a");
  assert.equal(tracedContext([start(null), '{"event_type":"retention"}', task("ctx_b"), task("ctx_c")]), "ctx_b");
  assert.equal(tracedContext([start(null)]), null);
  assert.equal(tracedContext([]), null);
  assert.equal(tracedContext([start(null), '{"event_type":"task_sta']), null);
  assert.equal(tracedContext([start(null), "half a li", task("ctx_b"), "{"]), "ctx_b");
  const lines = (function* () {
    yield start("ctx_a");
    assert.fail("read too far");
  })();
  assert.equal(tracedContext(lines), "ctx_a");
});

Deno.test("what a resume refuses", () => {
  const question: ResumeQuestion = {
    sessionId: "ses_1",
    trace: ['{"event_type":"session_start","context_id":"ctx_a"}'],
    transport: "http",
    recording: true,
    kept: (id) => id === "ctx_a",
  };
  assert.equal(resumeContext(question), "ctx_a");
  assert.equal(resumeContext({ ...question, transport: "process", recording: false }), "ctx_a");
  const cases: [Partial<ResumeQuestion>, string, RegExp][] = [
    [{ trace: [] }, "E-RUN-016", /names no context/],
    [{ transport: null }, "E-RUN-017", /no inference/],
    [{ recording: false }, "E-RUN-017", /context\.record: off/],
    [{ kept: () => false }, "E-RUN-017", /ctx_a has no conversation\.jsonl/],
    [{ kept: () => false, transport: "process" }, "E-RUN-017", /ctx_a has no harness-session\.json/],
  ];
  for (const [more, code, message] of cases) {
    assert.throws(
      () => resumeContext({ ...question, ...more }),
      (error: unknown) => error instanceof MurError && error.code === code && message.test(error.message),
    );
  }
});
