/**
 * The cells of delegation's fault matrix in which different things end a child or tell of it; `tests/system` has them all.
 *
 * @module
 */
import { FAULT_MATRIX, faultName, playFaults } from "../support/delegation_faults.ts";

const CELLS: readonly string[] = [
  "daemon killed at launch",
  "parent killed at ready",
  "parent stalled at post",
  "child killed at task",
  "child killed at post",
  "child stalled at posted",
  "grandchild killed at task",
];

Deno.test("whoever is killed or stalled, nobody is left behind and every delegation has one outcome", async () => {
  const faults = FAULT_MATRIX.filter((fault) => CELLS.includes(faultName(fault)));
  if (faults.length !== CELLS.length) throw new Error("a cell is named that the matrix does not have");
  const failures: string[] = [];
  for (const [fault, outcome] of playFaults(faults)) {
    await outcome.catch((error) => failures.push(`${faultName(fault)}: ${error.message}`));
  }
  if (failures.length > 0) throw new Error(failures.join("\n"));
});
