/**
 * The whole fault matrix of delegation. A part of it runs with the other end-to-end tests.
 *
 * @module
 */
import { faultMatrix, faultName, playFault } from "../support/delegation_faults.ts";

for (const fault of faultMatrix()) Deno.test(faultName(fault), () => playFault(fault));
