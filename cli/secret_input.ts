/**
 * Reading a value from standard input: from a terminal one line without echo, from anything else all of it
 * (spec cli 15.2).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { TextOutput } from "./context.ts";

/** Longest value that is read, in bytes. */
const MAX_BYTES = 64 * 1024;

/** What is read from; `Deno.stdin` has it all. */
export interface SecretInput {
  read(buffer: Uint8Array): Promise<number | null>;
  isTerminal(): boolean;
  setRaw(mode: boolean): void;
}

const ENTER = new Set([0x0a, 0x0d, 0x04]);
const ERASE = new Set([0x08, 0x7f]);
const INTERRUPT = 0x03;

async function readAll(input: SecretInput): Promise<Uint8Array> {
  const bytes: number[] = [];
  const chunk = new Uint8Array(4096);
  for (;;) {
    const count = await input.read(chunk);
    if (count === null) return Uint8Array.from(bytes);
    bytes.push(...chunk.subarray(0, count));
    if (bytes.length > MAX_BYTES) throw new MurError("E-IO-003", `the value is longer than ${MAX_BYTES} bytes`);
  }
}

/** One line in raw mode: nothing typed is shown, erasing works, Ctrl-C gives up. */
async function readLine(input: SecretInput): Promise<Uint8Array | null> {
  const bytes: number[] = [];
  const chunk = new Uint8Array(256);
  for (;;) {
    const count = await input.read(chunk);
    if (count === null) return Uint8Array.from(bytes);
    for (const byte of chunk.subarray(0, count)) {
      if (byte === INTERRUPT) return null;
      if (ENTER.has(byte)) return Uint8Array.from(bytes);
      if (ERASE.has(byte)) {
        // A character of UTF-8 is erased whole.
        while (bytes.length > 0 && (bytes.at(-1)! & 0xc0) === 0x80) bytes.pop();
        bytes.pop();
      } else bytes.push(byte);
      if (bytes.length > MAX_BYTES) throw new MurError("E-IO-003", `the value is longer than ${MAX_BYTES} bytes`);
    }
  }
}

/**
 * Reads a value. One line break at its end is no part of it.
 *
 * @param prompt Shown on a terminal.
 * @returns `null` when it was given up on the terminal.
 * @throws {MurError} `E-IO-003` when it is too long or not UTF-8.
 */
export async function readSecret(
  prompt: string,
  stderr: TextOutput,
  input: SecretInput = Deno.stdin,
): Promise<string | null> {
  let bytes: Uint8Array | null;
  if (input.isTerminal()) {
    const restore = (): void => input.setRaw(false);
    // Whoever ends this process finds the terminal as it was.
    const leave = (status: number) => (): void => {
      restore();
      Deno.exit(status);
    };
    const listeners = [["SIGTERM", leave(143)], ["SIGHUP", leave(129)]] as const;
    for (const [signal, listener] of listeners) Deno.addSignalListener(signal, listener);
    stderr.write(prompt);
    input.setRaw(true);
    try {
      bytes = await readLine(input);
    } finally {
      restore();
      for (const [signal, listener] of listeners) Deno.removeSignalListener(signal, listener);
      stderr.write("\n");
    }
  } else bytes = await readAll(input);
  if (bytes === null) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "");
  } catch {
    throw new MurError("E-IO-003", "the value is not UTF-8");
  }
}
