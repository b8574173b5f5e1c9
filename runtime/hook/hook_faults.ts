/**
 * What went wrong with hooks: a line in `logs/hook-<name>.log` each, and `hook_dispatch_error` lines that are kept until
 * the session ends (spec components 10.4, 10.11).
 *
 * @module
 */
import type { RootedDir } from "../../base/rooted_dir.ts";
import { BootstrapLog } from "../agent/bootstrap_log.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";

/** Most faults kept for the trace; a hook may fail at every event of a long session. */
export const MAX_KEPT_FAULTS = 1_000;

/** Longest text of a log line, in UTF-16 units. */
const MAX_LINE = 2_000;

/** One fault as the trace has it. */
interface HookFault {
  readonly hook_name: string;
  /** Name of the event, or `drain`. */
  readonly event: string;
  readonly arm: string;
}

/** What faults are told with. */
export interface HookFaultsOptions {
  /** The session's records directory; it must outlive this. */
  readonly records: RootedDir;
  /** Takes credential values out of a text. */
  readonly redact: (text: string) => string;
}

/** The faults of one session. */
export class HookFaults {
  readonly #options: HookFaultsOptions;
  readonly #logs = new Map<string, BootstrapLog>();
  readonly #kept: HookFault[] = [];
  readonly #beyond = new Map<string, number>();

  constructor(options: HookFaultsOptions) {
    this.#options = options;
  }

  /** Appends one line to a hook's log. */
  log(hook: string, text: string): void {
    let log = this.#logs.get(hook);
    if (log === undefined) {
      log = new BootstrapLog(this.#options.records, `hook-${hook}.log`);
      this.#logs.set(hook, log);
    }
    const line = this.#options.redact(text).replaceAll(/[\r\n]+/g, " ");
    log.line(`${new Date().toISOString()} ${line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line}`);
  }

  /** Logs a fault and keeps it for the trace. */
  fault(hook: string, event: string, arm: string, text: string): void {
    this.log(hook, `hook '${hook}' ${event}: ${arm}: ${text}`);
    if (this.#kept.length < MAX_KEPT_FAULTS) this.#kept.push({ hook_name: hook, event, arm });
    else this.#beyond.set(hook, (this.#beyond.get(hook) ?? 0) + 1);
  }

  /** Writes what was kept; called before `session_end`. @throws {MurError} `E-RUN-007`. */
  flush(trace: TraceWriter): void {
    for (const fault of this.#kept.splice(0)) trace.write("hook_dispatch_error", fault);
    for (const [hook, count] of this.#beyond) {
      this.log(hook, `hook '${hook}': ${count} more faults are in this log and not in the trace`);
    }
    this.#beyond.clear();
  }

  close(): void {
    for (const log of this.#logs.values()) log.close();
    this.#logs.clear();
  }
}
