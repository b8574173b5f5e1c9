/**
 * Writing the record of a running capsule (spec cli 4.1): whole or not at all, readable by its owner alone.
 *
 * @module
 */
import { writeAtomicallyIn } from "./atomic_file.ts";
import { ioError, MurError } from "./errors.ts";
import { libc } from "./libc.ts";
import { startToken } from "./process_identity.ts";
import { processInstance } from "./process_instance.ts";
import { RootedDir } from "./rooted_dir.ts";
import { formatRunningRecord, holdRunningDirectory, type RunningRecord } from "./running_record.ts";

/** What a record says of the process that holds a pid: of this one, unless another is named. */
export function recordedProcess(
  pid: number = Deno.pid,
): Pick<RunningRecord, "pid" | "process_start" | "process_instance"> {
  const instance = processInstance(libc(), pid);
  return { pid, process_start: startToken(pid) ?? "", ...(instance === null ? {} : { process_instance: instance }) };
}

/**
 * Writes a session's record.
 *
 * @throws {MurError} The caller warns `W-SEC-023` and goes on.
 */
export function writeRunningRecord(dir: string, record: RunningRecord): void {
  try {
    holdRunningDirectory(dir);
    using root = RootedDir.open(dir, { symlinks: "refuse" });
    writeAtomicallyIn(root, `${record.session_id}.json`, formatRunningRecord(record), { mode: 0o600, durable: false });
  } catch (error) {
    throw error instanceof MurError ? error : ioError(`write the running-capsule record in ${dir}`, error);
  }
}
