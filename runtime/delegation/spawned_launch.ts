/**
 * What a session launched by another one was handed beside its flags: the approval and the snapshot's report on standard
 * input, the handle and the lifeline by environment (spec roost 9, 11, 13, 16.1).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { LIFELINE_VARIABLE, takeLifeline } from "./lifeline.ts";
import { parseSnapshotReport, type SnapshotReport } from "./snapshot_report.ts";
import { parseSpawnerHandle, SPAWNER_VARIABLE, type SpawnerHandle } from "./spawner_handle.ts";

/** A launch by another session. */
export interface SpawnedLaunch {
  /** From `--spawn-grant-stdin`; `null` without that flag. In memory only. */
  readonly approval: string | null;
  /** `MURMUR_SPAWNER`; `null` without it. */
  readonly handle: SpawnerHandle | null;
  /** Descriptor of the lifeline, close-on-exec by now; `null` without one. */
  readonly lifeline: number | null;
  /** What the work folder holds of the parent's; `null` when it began empty. */
  readonly snapshot: SnapshotReport | null;
}

/** Longest first line: an approval; and most bytes of both lines. */
const MAX_APPROVAL_CHARACTERS = 8_192;
const MAX_INPUT_BYTES = 1 << 20;

/** Where a launch looks for what it was handed. */
export interface SpawnedInputs {
  readonly env: { get(name: string): string | undefined };
  /** `--spawn-grant-stdin`. */
  readonly grantOnInput: boolean;
  /** Standard input; `null` at its end. */
  readonly read: (buffer: Uint8Array<ArrayBuffer>) => Promise<number | null>;
  /** Longest wait for all of the input, in milliseconds. */
  readonly boundMs: number;
}

/**
 * Takes it. Called once a process, before anything else of the launch is read.
 *
 * @throws {MurError} `E-RUN-020` for a handle, a lifeline or a report that is none, `E-RUN-019` without an approval.
 */
export async function takeSpawnedLaunch(inputs: SpawnedInputs): Promise<SpawnedLaunch> {
  // First, so that no process started meanwhile inherits it.
  const lifeline = takeLifeline(inputs.env.get(LIFELINE_VARIABLE));
  const handle = parseSpawnerHandle(inputs.env.get(SPAWNER_VARIABLE));
  if (!inputs.grantOnInput) return { approval: null, handle, lifeline, snapshot: null };
  const { approval, report } = splitGrant(await readInput(inputs));
  return { approval, handle, lifeline, snapshot: report === null ? null : parseSnapshotReport(report) };
}

/**
 * The two lines of a launcher's input. Pure.
 *
 * @throws {MurError} `E-RUN-019`; its text shows nothing of the input.
 */
export function splitGrant(input: string): { readonly approval: string; readonly report: string | null } {
  const [first = "", second = ""] = input.split("\n");
  const approval = first.trim();
  if (approval === "") throw noApproval("standard input holds none");
  if (approval.length > MAX_APPROVAL_CHARACTERS || !/^[\x21-\x7e]+$/.test(approval)) {
    throw noApproval("standard input holds what is none");
  }
  return { approval, report: second.trim() === "" ? null : second };
}

function noApproval(why: string): MurError {
  return new MurError("E-RUN-019", `--spawn-grant-stdin reads a spawn approval: ${why}`, {
    hint: "leave the flag out; only a parent's runtime gives one",
  });
}

/** All of the input up to its end or the end of its second line. */
async function readInput({ read, boundMs }: SpawnedInputs): Promise<string> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(65_536);
  let text = "";
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(noApproval(`none came within ${boundMs} ms`)), boundMs);
  try {
    while (text.split("\n", 3).length < 3) {
      const count = await Promise.race([read(buffer), late.promise]);
      if (count === null) break;
      text += decoder.decode(buffer.subarray(0, count), { stream: true });
      if (text.length > MAX_INPUT_BYTES) throw noApproval("standard input is longer than one and its report");
    }
    return text;
  } finally {
    clearTimeout(timer);
  }
}
