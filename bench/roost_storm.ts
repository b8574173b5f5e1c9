/**
 * The long form of the storm tests: 10,000 formations that come and go and what they leave, 200 parents that race for the
 * last slots 1,000 times. Anything lost or given twice ends it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { RoostDaemon, RoostHome } from "../roost/testing/daemon.ts";
import { cycleFormations, PARENT, raceForSlots, residentBytes } from "../roost/testing/storm.ts";
import type { BenchResult } from "./result.ts";

const FORMATIONS = 10_000;
/** Memory is looked at after as many. */
const SAMPLED = 500;
const ROUNDS = 1_000;
const PARENTS = 200;

export async function run(): Promise<BenchResult> {
  await using home = new RoostHome();
  await home.install("parent", PARENT);
  await home.install("child");
  const allow = ["--spawn-allow", "local/parent"];
  let grown: number;
  {
    await using daemon = await RoostDaemon.start([...allow, "--max-live-capsules", "32"], { home: home.path });
    // The first ones bring what is compiled and what is collected only now and then to its size.
    const before = await peakOver(daemon, home);
    const after = await peakOver(daemon, home);
    grown = after / before;
    console.error(`  peak of resident memory ${(before / 1e6).toFixed(1)} MB, then ${(after / 1e6).toFixed(1)} MB`);
    const parent = await daemon.root("parent");
    assert.equal((await daemon.status(parent.id)).body.live_capsules, 1);
  }
  const free = 13;
  const raced = performance.now();
  {
    const ceiling = ["--max-live-capsules", String(PARENTS + free)];
    await using daemon = await RoostDaemon.start([...allow, ...ceiling], { home: home.path });
    await raceForSlots(daemon, home, { parents: PARENTS, free, rounds: ROUNDS });
  }
  const raceSeconds = (performance.now() - raced) / 1_000;
  return {
    name: "roost storm",
    figures: [
      {
        what: `peak of resident memory, ${FORMATIONS} formations over as many before`,
        value: grown,
        unit: "x",
        atMost: 1.1,
      },
      { what: `${ROUNDS} races of ${PARENTS} parents for ${free} slots, all exact`, value: raceSeconds, unit: "s" },
    ],
  };
}

/** Lets formations come and go; the most memory the daemon was seen with. */
async function peakOver(daemon: RoostDaemon, home: RoostHome): Promise<number> {
  let peak = 0;
  for (let done = 0; done < FORMATIONS; done += SAMPLED) {
    await cycleFormations(daemon, home, SAMPLED);
    peak = Math.max(peak, residentBytes(daemon.child.pid));
  }
  return peak;
}
