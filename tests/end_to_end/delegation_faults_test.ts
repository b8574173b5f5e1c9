/**
 * The cells of delegation's fault matrix in which different things end a child or tell of it; `tests/system` has them all.
 *
 * @module
 */
import { type Fault, faultMatrix, faultName, playFault } from "../support/delegation_faults.ts";

const CELLS: readonly string[] = [
  "daemon killed at launch",
  "parent killed at ready",
  "parent stalled at post",
  "child killed at task",
  "child killed at post",
  "child stalled at posted",
  "grandchild killed at task",
];

/** Faults played at the same time. */
const AT_ONCE = 3;

Deno.test("whoever is killed or stalled, nobody is left behind and every delegation has one outcome", async () => {
  const faults = faultMatrix().filter((fault) => CELLS.includes(faultName(fault)));
  const failures: string[] = [];
  const play = async (): Promise<void> => {
    for (let fault: Fault | undefined; (fault = faults.shift()) !== undefined;) {
      const name = faultName(fault);
      await playFault(fault).catch((error) => failures.push(`${name}: ${error.message}`));
    }
  };
  if (faults.length !== CELLS.length) throw new Error("a cell is named that the matrix does not have");
  await Promise.all(Array.from({ length: AT_ONCE }, play));
  if (failures.length > 0) throw new Error(failures.join("\n"));
});
