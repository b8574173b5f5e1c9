/**
 * `logs/bootstrap.log` of a session, and the other logs of plain lines beside it: what was set up and what was survived
 * (spec trace 10). A line that cannot be written is dropped; a log never fails a session.
 *
 * @module
 */
import type { RootedDir, RootedFile } from "../../base/rooted_dir.ts";
import { redactPeerTokens } from "../trace/trace_redaction.ts";
import { escapeControls } from "./terminal_text.ts";

/** Appends lines to the log; the folder and the file are made with the first one. */
export class BootstrapLog {
  readonly #records: RootedDir;
  readonly #name: string;
  readonly #encoder = new TextEncoder();
  #file: RootedFile | null = null;

  /**
   * @param records The session's records directory; it must outlive the log.
   * @param name Of the file in `logs/`.
   */
  constructor(records: RootedDir, name = "bootstrap.log") {
    this.#records = records;
    this.#name = name;
  }

  /** Appends a text without handles for peer files; its own line breaks stay, other control characters are escaped. */
  line(text: string): void {
    try {
      this.#file ??= this.#open();
      this.#file.append(this.#encoder.encode(`${escapeControls(redactPeerTokens(text))}\n`));
    } catch {
      // Best effort, as every log (spec session 4.3).
    }
  }

  #open(): RootedFile {
    const logs = this.#records.openDir("logs", { create: true, mode: 0o700, follow: false });
    try {
      return logs.openFile(this.#name, { append: true, create: true, follow: false, mode: 0o600 });
    } finally {
      logs.close();
    }
  }

  close(): void {
    this.#file?.close();
    this.#file = null;
  }
}
