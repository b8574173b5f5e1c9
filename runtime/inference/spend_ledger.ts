/**
 * The ledger of a machine's spending: one file a UTC day, one line per settled call, shared by every session of the user
 * (spec cli 5.5, manifest 20.3). Lines are appended whole; a reader takes what was added since its last look.
 *
 * @module
 */
import { MurError, reasonOf } from "../../base/errors.ts";

/** Files dated more than this many days before today are removed. */
const KEPT_DAYS = 30;
const DAY = 86_400_000;

/** One settled call. */
export interface LedgerLine {
  /** Unix milliseconds. */
  readonly ts: number;
  readonly session_id: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
}

/** UTC day of a moment, `YYYY-MM-DD`. */
export function ledgerDay(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}

/** Whether a file of the directory is a ledger that has outlived its use. */
export function ledgerExpired(file: string, now: number): boolean {
  const match = /^(\d{4}-\d{2}-\d{2})\.jsonl$/.exec(file);
  if (match === null) return false;
  const dated = Date.parse(`${match[1]}T00:00:00Z`);
  return !Number.isNaN(dated) && dated < Date.parse(`${ledgerDay(now)}T00:00:00Z`) - KEPT_DAYS * DAY;
}

const count = (value: unknown): number =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;

/** Tokens of one line; a line that is none of ours counts nothing. */
export function ledgerTokens(line: string): number {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return 0;
  }
  if (typeof value !== "object" || value === null) return 0;
  const { input_tokens: input, output_tokens: output } = value as Record<string, unknown>;
  return count(input) + count(output);
}

/** The ledger of one machine. */
export interface SpendLedger {
  /** Tokens of the current day, every session's. @throws {MurError} `E-RUN-026` when the file became unusable. */
  today(): Promise<number>;
  /** Appends one settled call. @throws {MurError} `E-RUN-026` */
  append(sessionId: string, inputTokens: number, outputTokens: number): Promise<void>;
  close(): void;
}

function unusable(what: string, cause: unknown): MurError {
  return new MurError("E-RUN-026", `the spend ledger cannot be used: ${what}: ${reasonOf(cause)}`, {
    hint: "spend.machine_tokens_per_day needs a writable ~/.murmur/spend; repair it, or remove the ceiling",
    cause,
  });
}

/** One day's file, held open. */
class DayFile {
  readonly day: string;
  readonly #path: string;
  readonly #file: Deno.FsFile;
  #offset = 0;
  /** Bytes after the last newline, from the last look. */
  #rest = new Uint8Array();
  #sum = 0;

  private constructor(day: string, path: string, file: Deno.FsFile) {
    this.day = day;
    this.#path = path;
    this.#file = file;
  }

  static async open(directory: string, day: string): Promise<DayFile> {
    const path = `${directory}/${day}.jsonl`;
    try {
      const file = await Deno.open(path, { read: true, append: true, create: true, mode: 0o600 });
      if (!(await file.stat()).isFile) {
        file.close();
        throw new Error("it is not a file");
      }
      return new DayFile(day, path, file);
    } catch (error) {
      throw unusable(path, error);
    }
  }

  async sum(): Promise<number> {
    try {
      const { size } = await this.#file.stat();
      if (size < this.#offset) {
        // Somebody emptied it: what is there now is the day.
        this.#offset = 0;
        this.#rest = new Uint8Array();
        this.#sum = 0;
      }
      const buffer = new Uint8Array(65_536);
      await this.#file.seek(this.#offset, Deno.SeekMode.Start);
      for (;;) {
        const read = await this.#file.read(buffer);
        if (read === null || read === 0) break;
        this.#offset += read;
        this.#take(buffer.subarray(0, read));
      }
      return this.#sum;
    } catch (error) {
      throw unusable(this.#path, error);
    }
  }

  #take(bytes: Uint8Array): void {
    const joined = new Uint8Array(this.#rest.length + bytes.length);
    joined.set(this.#rest);
    joined.set(bytes, this.#rest.length);
    let start = 0;
    for (let end = joined.indexOf(10); end >= 0; end = joined.indexOf(10, start)) {
      this.#sum += ledgerTokens(new TextDecoder().decode(joined.subarray(start, end)));
      start = end + 1;
    }
    // A line another process is writing is counted once it has its end; a torn one is closed by the next writer.
    this.#rest = joined.slice(start, start + 65_536);
  }

  async append(line: LedgerLine): Promise<void> {
    try {
      // One write in append mode: lines of several processes do not mix. The newline in front closes a torn line.
      const torn = this.#rest.length > 0 ? "\n" : "";
      const bytes = new TextEncoder().encode(`${torn}${JSON.stringify(line)}\n`);
      if (await this.#file.write(bytes) !== bytes.length) throw new Error("the line was not written whole");
    } catch (error) {
      throw unusable(this.#path, error);
    }
  }

  close(): void {
    this.#file.close();
  }
}

/**
 * Opens the ledger: makes the directory (0700), today's file (0600), and removes files dated more than 30 days ago.
 *
 * @param directory `~/.murmur/spend`.
 * @throws {MurError} `E-RUN-026` when directory or file are unusable.
 */
export async function openSpendLedger(directory: string, now: () => number = Date.now): Promise<SpendLedger> {
  try {
    await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
    for await (const entry of Deno.readDir(directory)) {
      if (entry.isFile && ledgerExpired(entry.name, now())) {
        await Deno.remove(`${directory}/${entry.name}`).catch(() => {});
      }
    }
  } catch (error) {
    throw unusable(directory, error);
  }
  let file = await DayFile.open(directory, ledgerDay(now()));
  await file.sum();
  /** Reads and writes move one offset, so they run one after the other. */
  let turn: Promise<unknown> = Promise.resolve();

  function inTurn<T>(work: (file: DayFile) => Promise<T>): Promise<T> {
    const result = turn.then(async () => {
      const day = ledgerDay(now());
      if (day !== file.day) {
        const next = await DayFile.open(directory, day);
        file.close();
        file = next;
      }
      return await work(file);
    });
    turn = result.catch(() => {});
    return result;
  }

  return {
    today: () => inTurn((current) => current.sum()),
    append: (sessionId, inputTokens, outputTokens) =>
      inTurn(async (current) => {
        await current.sum();
        await current.append({
          ts: now(),
          session_id: sessionId,
          input_tokens: inputTokens,
          output_tokens: outputTokens,
        });
      }),
    close: () => void turn.then(() => file.close()),
  };
}
