import assert from "node:assert/strict";
import type { A2aError } from "./a2a_error.ts";
import { answerCompletion, type Completion } from "./completion_delivery.ts";

const HERE = "ses_here";

/** How a session that makes no delegations refuses a completion. */
function refuseCompletion(completion: Completion, sessionId: string): A2aError {
  const answer = answerCompletion(completion, sessionId, null);
  assert.ok("code" in answer);
  return answer;
}

Deno.test("a completion for another session, or for none, is told no more than what it said itself", () => {
  for (
    const [session, shown] of [["ses_other", "ses_other"], [null, "<unaddressed>"], ["", "<unaddressed>"]] as const
  ) {
    const error = refuseCompletion({ method: "GetTask", session, delegationId: null }, HERE);
    assert.equal(error.code, -31001);
    assert.equal(
      error.message,
      `completion is addressed to session ${shown}, which is not the session running here`,
    );
    assert.deepEqual(error.data, [{
      "@type": "type.googleapis.com/google.rpc.ErrorInfo",
      reason: "COMPLETION_MISADDRESSED",
      domain: "murmur.nexus",
      metadata: { addressedSession: session ?? "" },
    }]);
    assert.ok(!JSON.stringify(error).includes(HERE));
  }
});

Deno.test("a completion is a SendMessage that names its delegation, and a session without delegations waits for none", () => {
  assert.equal(refuseCompletion({ method: "message/send", session: HERE, delegationId: "dlg_1" }, HERE).code, -32601);
  for (const delegationId of [null, ""]) {
    const error = refuseCompletion({ method: "SendMessage", session: HERE, delegationId }, HERE);
    assert.equal(error.code, -31002);
    assert.equal(
      error.message,
      "completion names no delegation in x-murmur-delegation-id, so no task in this session is waiting for it",
    );
    assert.deepEqual(error.data![0]!.metadata, {});
  }
  const error = refuseCompletion({ method: "SendMessage", session: HERE, delegationId: "dlg_1" }, HERE);
  assert.deepEqual([error.code, error.message], [-31002, "no task in this session is waiting for delegation dlg_1"]);
  assert.deepEqual([error.data![0]!.reason, error.data![0]!.domain, error.data![0]!.metadata], [
    "COMPLETION_NOT_AWAITED",
    "murmur.nexus",
    { delegationId: "dlg_1" },
  ]);
});

Deno.test("the session's delegations decide what a completion is answered, and see nothing that is not addressed to it", () => {
  const seen: string[] = [];
  const answer = (more: Partial<Completion>, receipt: "received" | "being-ended") =>
    answerCompletion({ method: "SendMessage", session: HERE, delegationId: "dlg_1", ...more }, HERE, (id) => {
      seen.push(id);
      return receipt;
    });
  assert.deepEqual(answer({}, "received"), { delegation_id: "dlg_1", received: true });
  const ending = answer({}, "being-ended") as A2aError;
  assert.equal(ending.code, -31002);
  assert.equal(ending.message, "delegation dlg_1 is being ended by this session; its launcher records the outcome");
  assert.deepEqual(ending.data![0]!.metadata, { delegationId: "dlg_1" });
  assert.deepEqual([ending.data![0]!.reason, ending.data![0]!.domain], ["COMPLETION_NOT_AWAITED", "murmur.nexus"]);
  for (const more of [{ session: "ses_other" }, { session: null }, { method: "GetTask" }, { delegationId: "" }]) {
    assert.ok("code" in answer(more, "received"));
  }
  assert.deepEqual(seen, ["dlg_1", "dlg_1"]);
});
