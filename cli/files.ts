/**
 * `mur files`: the files a running capsule exports, listed or fetched through its door (spec cli 13.8; seed resource-plane).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { StagedFile } from "../base/atomic_file.ts";
import { HttpError } from "../base/http_error.ts";
import { isJsonObject } from "../base/json_value.ts";
import { absolutePath, parentDirectory } from "../base/paths.ts";
import { percentEncodePath } from "../base/percent_encoding.ts";
import type { PlainResponse } from "../base/plain_http.ts";
import { RootedDir } from "../base/rooted_dir.ts";
import type { ListedFile } from "../planes/listing.ts";
import { escapeControls } from "../runtime/agent/terminal_text.ts";
import type { CliContext } from "./context.ts";
import { doorError } from "./door_error.ts";
import { findServingSession, type ServingSession } from "./running_session.ts";
import { printTable } from "./text_table.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur files`. */
export interface FilesFlags {
  readonly output?: string;
  readonly json?: boolean;
}

const LISTING = "/resources/files";

/** Largest listing that is read, in bytes. */
const MAX_LISTING = 256 << 20;

/** Runs the command. @throws {MurError} `E-RUN-022`, `E-RUN-023`, `E-RUN-028`, `E-IO-001`, `E-IO-002`, `E-IO-003`. */
export async function files(
  context: CliContext,
  flags: FilesFlags,
  address: string,
  path: string | undefined,
): Promise<number> {
  if (flags.output !== undefined && path === undefined) throw new UsageError("-o needs the path of a file to fetch");
  if (flags.json && path !== undefined && flags.output === undefined) {
    throw new UsageError("--json with a path needs -o, since the file itself goes to stdout");
  }
  const session = await findServingSession(address, context);
  if (path === undefined) await list(context, session, flags.json ?? false);
  else await fetchFile(context, session, path, flags);
  return 0;
}

async function ask({ door, id }: ServingSession, path: string): Promise<PlainResponse> {
  try {
    return await door.get(path);
  } catch (error) {
    throw doorError(error, id);
  }
}

/** Has a body that breaks off named as the door's. */
function broken(error: unknown, { id }: ServingSession): unknown {
  return error instanceof HttpError ? doorError(error, id) : error;
}

async function list(context: CliContext, session: ServingSession, asJson: boolean): Promise<void> {
  const response = await ask(session, LISTING);
  const text = await response.text(MAX_LISTING).catch((error) => {
    throw broken(error, session);
  });
  const entries = entriesOf(text);
  if (entries === null) throw new MurError("E-IO-003", `the door of ${session.id} answered with what is no listing`);
  if (asJson) {
    context.stdout.line(text.trim());
    return;
  }
  printTable(
    context.stdout,
    ["PATH", "SIZE", "MODIFIED", "SHA256"],
    entries.map(({ path, size_bytes, mtime_ms, sha256 }) => [
      path,
      String(size_bytes),
      timeText(mtime_ms),
      sha256.slice(0, 12),
    ]),
  );
}

/** The files of a listing; `null` when a text is none. */
function entriesOf(text: string): readonly ListedFile[] | null {
  try {
    const listing: unknown = JSON.parse(text);
    if (!isJsonObject(listing) || !Array.isArray(listing.entries)) return null;
    return listing.entries.every(isListedFile) ? listing.entries as ListedFile[] : null;
  } catch {
    return null;
  }
}

function isListedFile(entry: unknown): boolean {
  return isJsonObject(entry) && typeof entry.path === "string" && typeof entry.size_bytes === "number" &&
    typeof entry.mtime_ms === "number" && typeof entry.sha256 === "string";
}

/** UTC to the second; `-` for what is no time. */
function timeText(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "-" : date.toISOString().replace(/\.\d+Z$/, "Z");
}

async function fetchFile(context: CliContext, session: ServingSession, path: string, flags: FilesFlags): Promise<void> {
  const response = await ask(session, `${LISTING}/${percentEncodePath(path)}`);
  const expected = /^"sha256:([0-9a-f]{64})"$/.exec(response.headers.get("etag") ?? "")?.[1];
  if (expected === undefined) {
    response.close();
    throw new MurError("E-IO-003", `the door of ${session.id} sent ${path} without its hash`);
  }
  const progress = context.progress(`fetching ${path}`);
  const total = Number(response.headers.get("content-length") ?? "0");
  const { createHash } = await import("node:crypto");
  const hash = createHash("sha256");
  let length = 0;
  try {
    using target = flags.output === undefined ? terminalOrPipe(context) : fileTarget(context, flags.output);
    for await (const piece of response.pieces()) {
      hash.update(piece);
      length += piece.length;
      progress.update(`fetching ${path}: ${Math.floor(100 * length / Math.max(total, 1))} %`);
      // Whoever read from us has gone.
      if (!target.write(piece as Uint8Array<ArrayBuffer>)) return;
    }
    if (hash.digest("hex") !== expected) {
      throw new MurError("E-IO-003", `${path} did not arrive as it was sent: its hash is another one`, {
        hint: "fetch it again",
      });
    }
    target.publish();
  } catch (error) {
    throw broken(error, session);
  } finally {
    progress.done();
  }
  if (flags.json) {
    const number = (name: string) => Number(response.headers.get(name));
    context.stdout.line(JSON.stringify({
      path,
      output: flags.output,
      size_bytes: length,
      mtime_ms: number("x-murmur-mtime-ms"),
      sha256: expected,
      generation: number("x-murmur-generation"),
      containment_achieved: response.headers.get("x-murmur-containment"),
    }));
  }
}

/** Where the bytes go. */
interface Target extends Disposable {
  /** False when nobody takes them any more. */
  write(bytes: Uint8Array<ArrayBuffer>): boolean;
  /** They are all there and right. */
  publish(): void;
}

/** Standard output; a terminal is shown what could command it. */
function terminalOrPipe({ stdout }: CliContext): Target {
  const decoder = new TextDecoder();
  return {
    write: (bytes) =>
      stdout.isTerminal
        ? stdout.write(escapeControls(decoder.decode(bytes, { stream: true })))
        : stdout.writeBytes(bytes),
    publish: () => {},
    [Symbol.dispose]: () => {},
  };
}

/**
 * A file that appears once all of it is there. Only a file or a link to one gives way to it: a device that was replaced, such
 * as `/dev/null`, would be lost to the whole machine.
 */
function fileTarget({ cwd }: CliContext, output: string): Target {
  const path = absolutePath(cwd, output);
  // A slash at the end means a directory, whether it is there or not.
  if (output.endsWith("/") || !isFileOrNothing(path)) {
    throw new MurError("E-IO-003", `${output} is no file`, {
      hint: "name a file, or leave -o out and send stdout there",
    });
  }
  const directory = RootedDir.open(parentDirectory(path));
  let file: StagedFile | undefined;
  // Who stops it finds nothing of what had come.
  const leave = (status: number) => () => {
    file?.[Symbol.dispose]();
    Deno.exit(status);
  };
  const listeners = [["SIGHUP", leave(129)], ["SIGINT", leave(130)], ["SIGTERM", leave(143)]] as const;
  for (const [signal, listener] of listeners) Deno.addSignalListener(signal, listener);
  const dispose = () => {
    for (const [signal, listener] of listeners) Deno.removeSignalListener(signal, listener);
    file?.[Symbol.dispose]();
    directory.close();
  };
  try {
    const staged = file = StagedFile.create(directory, path.slice(path.lastIndexOf("/") + 1));
    return {
      write: (bytes) => (staged.write(bytes), true),
      publish: () => staged.publish(),
      [Symbol.dispose]: dispose,
    };
  } catch (error) {
    dispose();
    throw error;
  }
}

function isFileOrNothing(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    // Whatever else is wrong with it shows when it is written.
    return true;
  }
}
