/**
 * The whole fault matrix of delegation. A part of it runs with the other end-to-end tests.
 *
 * @module
 */
import { type Fault, FAULT_MATRIX, faultName, playFaults } from "../support/delegation_faults.ts";

let outcomes: ReadonlyMap<Fault, Promise<void>> | undefined;

for (const fault of FAULT_MATRIX) {
  Deno.test({
    name: faultName(fault),
    // Other faults are played meanwhile.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: () => (outcomes ??= playFaults(FAULT_MATRIX)).get(fault),
  });
}
