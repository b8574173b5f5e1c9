/**
 * Ways to fill memory past what commands may have together where the helper looks after that itself (spec containment
 * 14.1, sampling).
 *
 * @module
 */
import assert from "node:assert/strict";
import { checkoutHelper } from "../../sandbox/confine_helper.ts";
import { ConfinedPlace, CONTAINED_TIERS } from "../../sandbox/testing/confined_place.ts";
import { buildTestProgram } from "../support/test_program.ts";

const FILL_MIB = 200;
const MAY_HAVE_MIB = 64;

Deno.test("memory that no process is seen to have is not to be had where it is bounded by looking", async () => {
  await using place = new ConfinedPlace(await checkoutHelper());
  const program = await buildTestProgram("memory_attack", place.workdir);
  const bare = async (way: string) => {
    const { stdout } = await new Deno.Command(program, { args: [way, String(FILL_MIB)] }).output();
    return Number(new TextDecoder().decode(stdout));
  };
  for (const way of ["files", "shares", "plain"]) assert.equal(await bare(way), FILL_MIB, `${way} without containment`);
  for (const tier of CONTAINED_TIERS) {
    const run = (way: string, watched: boolean) =>
      place.run(program, ["x", way, String(FILL_MIB)], {
        tier,
        workdirExec: true,
        records: watched ? [{ op: "watch", name: "cgroup_memory_bytes", value: MAY_HAVE_MIB << 20 }] : [],
      });
    for (const way of ["files", "shares"]) {
      const { stdout, failure } = await run(way, true);
      assert.equal(failure, null);
      assert.equal(stdout, "0\n", `${tier}, ${way}`);
      // Where a control group counts all of it, it may be had.
      assert.equal((await run(way, false)).stdout, `${FILL_MIB}\n`, `${tier}, ${way}, counted by a group`);
    }
    assert.equal((await run("plain", true)).resourceLimit, "cgroup_memory_bytes", tier);
  }
});
