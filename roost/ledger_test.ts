import assert from "node:assert/strict";
import fc from "fast-check";
import type { RoostBounds } from "../base/roost_bounds.ts";
import { Ledger, MAX_REDEEMED, MAX_SESSIONS } from "./ledger.ts";

const LIFE = 60_000;

function ledger(bounds: Partial<RoostBounds> = {}, found: string[] = []): Ledger<string> {
  return new Ledger({ maxDepth: 3, maxConcurrent: 4, maxLiveCapsules: 64, ...bounds }, LIFE, found);
}

Deno.test("the worked run of the specification", () => {
  const l = ledger({ maxLiveCapsules: 3, maxConcurrent: 2 });
  const figures = (now: number) => [l.figures("A", now)!.liveChildren, l.census(now)];
  l.registerRoot("A", "");
  assert.deepEqual(figures(0), [0, 1]);
  assert.equal(l.judgeSpawn("A", 0), null);
  assert.equal(l.reserve("A", "first", 0), 2);
  assert.deepEqual(figures(0), [1, 2]);
  l.spend("first");
  l.redeem("W", "first", 2, "");
  assert.deepEqual(figures(0), [1, 2]);
  assert.equal(l.judgeSpawn("A", 0), null);
  l.reserve("A", "second", 0);
  assert.deepEqual(figures(0), [2, 3]);
  assert.deepEqual(l.judgeSpawn("A", 0), { bound: "ceiling", limit: 3, live: 3 });
  assert.deepEqual(figures(LIFE - 1), [2, 3]);
  assert.deepEqual(figures(LIFE), [1, 2]);
  l.registerRoot("B", "");
  l.registerRoot("C", "");
  assert.deepEqual(figures(LIFE), [1, 4]);
  assert.deepEqual(l.judgeSpawn("A", LIFE), { bound: "ceiling", limit: 3, live: 4 });
  l.end("W", "complete");
  assert.deepEqual(figures(LIFE), [0, 3]);
});

Deno.test("bounds are asked in their order, and 0 refuses every delegation", () => {
  for (
    const [bounds, refusal] of [
      [{ maxDepth: 0, maxLiveCapsules: 0, maxConcurrent: 0 }, { bound: "depth", limit: 0 }],
      [{ maxLiveCapsules: 0, maxConcurrent: 0 }, { bound: "ceiling", limit: 0, live: 1 }],
      [{ maxConcurrent: 0 }, { bound: "concurrency", limit: 0, live: 0 }],
    ] as const
  ) {
    const l = ledger(bounds);
    l.registerRoot("A", "");
    assert.deepEqual(l.judgeSpawn("A", 0), refusal);
  }
});

Deno.test("an approval is open, then spent, then expired, whatever became of it", () => {
  const l = ledger();
  l.registerRoot("A", "");
  for (const id of ["left", "refused", "redeemed"]) l.reserve("A", id, 0);
  assert.equal(l.approvalState("left", 1), "open");
  l.spend("refused");
  l.spend("redeemed");
  l.redeem("W", "redeemed", 2, "");
  assert.equal(l.approvalState("refused", 1), "spent");
  assert.equal(l.approvalState("redeemed", 1), "spent");
  // The slot of the refused one is held until it expires.
  assert.equal(l.figures("A", LIFE - 1)!.liveChildren, 3);
  assert.equal(l.figures("A", LIFE)!.liveChildren, 1);
  for (const id of ["left", "refused", "redeemed", "never"]) assert.equal(l.approvalState(id, LIFE), "expired", id);
});

Deno.test("a session that ends gives its reservations back, and its children go on", () => {
  const l = ledger();
  l.registerRoot("A", "");
  l.reserve("A", "one", 0);
  l.reserve("A", "two", 0);
  l.spend("one");
  l.redeem("W", "one", 2, "");
  assert.equal(l.census(0), 3);
  l.end("A", "failed");
  assert.equal(l.census(0), 1);
  assert.deepEqual(l.figures("A", 0), { status: "failed", depthRemaining: 3, liveChildren: 1, liveCapsules: 1 });
  assert.equal(l.grantsOf("A"), null);
  l.end("W", "complete");
  assert.deepEqual(l.figures("A", 0), { status: "failed", depthRemaining: 3, liveChildren: 0, liveCapsules: 0 });
  assert.deepEqual(l.figures("W", 0), { status: "complete", depthRemaining: 2, liveChildren: 0, liveCapsules: 0 });
  assert.equal(l.figures("nobody", 0), null);
});

Deno.test("a session found at the start counts once, registered or not, until it is gone", () => {
  const l = ledger({}, ["A", "B"]);
  assert.equal(l.census(0), 2);
  assert.ok(!l.knows("A"));
  l.registerRoot("A", "");
  assert.equal(l.census(0), 2);
  l.foundIsGone("B");
  l.foundIsGone("B");
  assert.equal(l.census(0), 1);
});

Deno.test("at the bound of kept sessions the one that ended first goes, and only running ones leave no room", () => {
  const l = ledger();
  for (let count = 0; count < MAX_SESSIONS; count++) {
    l.registerRoot(`s${count}`, "");
    if (count > 0) l.end(`s${count}`, "complete");
  }
  assert.ok(l.knows("s1"));
  l.registerRoot("one more", "");
  assert.ok(!l.knows("s1"));
  assert.ok(l.knows("s0") && l.knows("s2") && l.knows("one more"));
  const full = ledger();
  for (let count = 0; count < MAX_SESSIONS; count++) full.registerRoot(`s${count}`, "");
  assert.ok(!full.hasRoom());
  full.end("s7", "complete");
  assert.ok(full.hasRoom());
});

Deno.test("redeemed approvals are kept in a bounded number, and a forgotten one is not open again", () => {
  const l = ledger();
  l.registerRoot("A", "");
  for (let count = 0; count <= MAX_REDEEMED; count++) {
    l.reserve("A", `a${count}`, 0);
    l.spend(`a${count}`);
    l.redeem("W", `a${count}`, 2, "");
    l.end("W", "complete");
  }
  assert.equal(l.approvalState("a0", 0), "expired");
  assert.equal(l.approvalState("a1", 0), "spent");
});

/** What a test knows of a session beside the ledger. */
interface Model {
  readonly running: Map<string, { depth: number; parent: string | null }>;
  readonly ended: Map<string, { status: "complete" | "failed"; depth: number }>;
  readonly approvals: Map<
    string,
    { parent: string; depth: number; deadline: number; state: "open" | "spent" | "redeemed" }
  >;
  readonly found: Set<string>;
}

const EVENTS = fc.array(
  fc.record({
    kind: fc.constantFrom(
      "root",
      "spawn",
      "spawn",
      "spawn",
      "redeem",
      "redeem",
      "spend",
      "end",
      "die",
      "found gone",
      "wait",
      "read",
    ),
    pick: fc.nat(1_000),
    wait: fc.constantFrom(1, 1_000, 20_000, LIFE - 1, LIFE),
  }),
  { minLength: 40, maxLength: 120 },
);

Deno.test("in no order of events a bound is exceeded, a slot lost or given twice", () => {
  const seen = { granted: 0, redeemed: 0, expired: 0, refused: 0 };
  const bounds = fc.record({
    maxDepth: fc.constantFrom(0, 1, 2, 3, 3),
    maxConcurrent: fc.constantFrom(0, 1, 2, 4, 8),
    maxLiveCapsules: fc.constantFrom(0, 3, 6, 12, 64),
  });
  fc.assert(
    fc.property(bounds, EVENTS, (bounds, events) => {
      const found = ["f0", "f1"];
      const l = ledger(bounds, found);
      const model: Model = { running: new Map(), ended: new Map(), approvals: new Map(), found: new Set(found) };
      let now = 0;
      let next = 0;
      const held = (at: number) =>
        [...model.approvals.values()].filter((a) => a.state !== "redeemed" && a.deadline > at);
      const children = (id: string) =>
        [...model.running.values()].filter(({ parent }) => parent === id).length +
        held(now).filter(({ parent }) => parent === id).length;
      const census = () => model.running.size + held(now).length + model.found.size;
      const pickOf = <T>(all: readonly T[], pick: number): T | undefined => all[pick % Math.max(1, all.length)];
      const end = (id: string, status: "complete" | "failed") => {
        l.end(id, status);
        model.ended.set(id, { status, depth: model.running.get(id)!.depth });
        model.running.delete(id);
        for (const [key, { parent, state }] of model.approvals) {
          if (parent === id && state !== "redeemed") model.approvals.delete(key);
        }
      };
      for (const { kind, pick, wait } of events) {
        const running = pickOf([...model.running.keys()], pick);
        switch (kind) {
          case "root": {
            // Every third takes over a session that was found at the start.
            const id = pick % 3 === 0 ? [...model.found][0] ?? `s${next++}` : `s${next++}`;
            l.registerRoot(id, id);
            model.found.delete(id);
            model.running.set(id, { depth: bounds.maxDepth, parent: null });
            break;
          }
          case "spawn": {
            if (running === undefined) break;
            const { depth } = model.running.get(running)!;
            const refusal = l.judgeSpawn(running, now);
            const expected = depth === 0
              ? { bound: "depth", limit: bounds.maxDepth }
              : census() >= bounds.maxLiveCapsules
              ? { bound: "ceiling", limit: bounds.maxLiveCapsules, live: census() }
              : children(running) >= bounds.maxConcurrent
              ? { bound: "concurrency", limit: bounds.maxConcurrent, live: children(running) }
              : null;
            assert.deepEqual(refusal, expected);
            if (refusal !== null) {
              seen.refused++;
              break;
            }
            seen.granted++;
            const id = `a${next++}`;
            assert.equal(l.reserve(running, id, now), depth - 1);
            model.approvals.set(id, { parent: running, depth: depth - 1, deadline: now + LIFE, state: "open" });
            assert.ok(census() <= bounds.maxLiveCapsules && children(running) <= bounds.maxConcurrent);
            break;
          }
          case "spend":
          case "redeem": {
            const [key, approval] = pickOf([...model.approvals], pick) ?? [];
            if (key === undefined || approval === undefined || !model.running.has(approval.parent)) break;
            const state = l.approvalState(key, now);
            assert.equal(state, approval.deadline <= now ? "expired" : approval.state === "open" ? "open" : "spent");
            if (state === "expired") seen.expired++;
            if (state !== "open") break;
            l.spend(key);
            approval.state = "spent";
            if (kind === "spend") break;
            const id = `s${next++}`;
            const before = l.census(now);
            l.redeem(id, key, approval.depth, id);
            approval.state = "redeemed";
            seen.redeemed++;
            model.running.set(id, { depth: approval.depth, parent: approval.parent });
            assert.equal(l.census(now), before);
            break;
          }
          case "end":
          case "die":
            if (running !== undefined) end(running, kind === "end" && pick % 2 === 0 ? "complete" : "failed");
            break;
          case "found gone": {
            const [id] = model.found;
            if (id === undefined) break;
            l.foundIsGone(id);
            model.found.delete(id);
            break;
          }
          case "wait":
            now += wait;
            break;
          case "read":
            break;
        }
        assert.equal(l.census(now), census());
        for (const [id, { depth }] of model.running) {
          assert.deepEqual(l.figures(id, now), {
            status: "running",
            depthRemaining: depth,
            liveChildren: children(id),
            liveCapsules: census(),
          });
        }
        for (const [id, { status, depth }] of model.ended) {
          const figures = { status, depthRemaining: depth, liveChildren: children(id), liveCapsules: census() };
          assert.deepEqual(l.figures(id, now), figures);
          assert.equal(l.grantsOf(id), null);
        }
      }
      // Nothing leaks: once all have ended and all approvals have expired, the host is empty.
      for (const id of [...model.running.keys()]) end(id, "complete");
      for (const id of model.found) l.foundIsGone(id);
      assert.equal(l.census(now + LIFE), 0);
    }),
    { numRuns: 400 },
  );
  for (const [what, count] of Object.entries(seen)) assert.ok(count > 10, `${what}: ${count}`);
});
