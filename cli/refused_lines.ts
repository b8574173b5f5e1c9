/**
 * Lines that a closed stdout or stderr of `mur run` refused: kept in `logs/bootstrap.log` once the session has a records
 * directory, dropped before that (spec cli 12.4, session 17.6).
 *
 * @module
 */
import { RootedDir } from "../base/rooted_dir.ts";
import { BootstrapLog } from "../runtime/agent/bootstrap_log.ts";
import type { TextOutput } from "./context.ts";

/** Keeps what the streams of one run refuse. */
export class RefusedLines {
  #records: string | null = null;

  /** From now on refused lines go to the log in this records directory. */
  keepIn(records: string): void {
    this.#records = records;
  }

  /** The stream, its refused lines kept. A piece of a line that is refused is lost. */
  keptFrom(stream: TextOutput): TextOutput {
    return {
      ...stream,
      line: (text) => {
        const written = stream.line(text);
        if (!written) this.#keep(text);
        return written;
      },
    };
  }

  #keep(text: string): void {
    if (this.#records === null) return;
    try {
      // The session may be over and its own handles closed: lines are rare, so each opens the log anew.
      const records = RootedDir.open(this.#records, { symlinks: "refuse" });
      const log = new BootstrapLog(records);
      log.line(text);
      log.close();
      records.close();
    } catch {
      // Best effort, as every log (spec session 4.3).
    }
  }
}
