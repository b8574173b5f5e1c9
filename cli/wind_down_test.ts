import assert from "node:assert/strict";
import fc from "fast-check";
import { WindDown, type WindDownStep } from "./wind_down.ts";

const STOP_BY_SIGNAL: WindDownStep = { kind: "stop", cause: "terminated" };
const STOP_BY_LIFELINE: WindDownStep = { kind: "stop", cause: "spawner_ended" };
const EXIT: WindDownStep = { kind: "exit" };
const NOTHING: WindDownStep = { kind: "nothing" };

function steps(events: readonly ("signal" | "lifeline")[], launched = events.includes("lifeline")): WindDownStep[] {
  const state = new WindDown(launched);
  return events.map((event) => event === "signal" ? state.terminated() : state.spawnerEnded());
}

Deno.test("the first signal stops in order, the second ends at once", () => {
  assert.deepEqual(steps(["signal", "signal"]), [STOP_BY_SIGNAL, EXIT]);
});

Deno.test("with a launcher there is one signal more, its own", () => {
  assert.deepEqual(steps(["signal", "signal", "signal"], true), [STOP_BY_SIGNAL, NOTHING, EXIT]);
});

Deno.test("a closed lifeline stops in order and counts as no signal", () => {
  assert.deepEqual(steps(["lifeline", "signal", "signal"]), [STOP_BY_LIFELINE, NOTHING, EXIT]);
});

Deno.test("a lifeline that closes on the way down changes nothing", () => {
  assert.deepEqual(steps(["signal", "lifeline", "signal"]), [STOP_BY_SIGNAL, NOTHING, EXIT]);
});

Deno.test("whatever comes, a session is stopped once, first of all, and ended by the second signal alone, or the third", () => {
  const event = fc.constantFrom("signal" as const, "lifeline" as const);
  fc.assert(fc.property(fc.array(event), fc.boolean(), (events, launched) => {
    const taken = steps(events, launched);
    assert.equal(taken.filter(({ kind }) => kind === "stop").length, Math.min(1, events.length));
    if (events.length > 0) assert.equal(taken[0]!.kind, "stop");
    let signals = 0;
    let patience = launched ? 2 : 1;
    events.forEach((event, index) => {
      if (event === "signal") signals++;
      else patience = 1;
      assert.equal(taken[index]!.kind === "exit", event === "signal" && signals > patience);
    });
  }));
});
