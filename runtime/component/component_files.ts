/**
 * The files of one component instance, on the runtime's side: what `wasi:filesystem` asks for is done beneath the held
 * root of a preopen, through `base/rooted_dir` (spec components 3.4, 3.9). The guest names handles and relative paths.
 *
 * @module
 */
import type { FileKind, FileStat } from "../../base/libc.ts";
import { type FileTimes, RootedDir, type RootedEntry, RootedFile } from "../../base/rooted_dir.ts";
import { RootedError } from "../../base/rooted_error.ts";
import type { Preopen } from "./component_runtime.ts";
import { type Header, MAX_FRAME_BYTES } from "./frames.ts";
import { countField, flagField, optionalTextField, ProtocolViolation, textField } from "./host_messages.ts";

/** Most handles of one instance, preopens included (spec components 15). */
export const MAX_HANDLES = 256;

/** Most directory entries held for listings under way. */
const MAX_LISTED_ENTRIES = 1_000_000;

/** Directory entries in one answer. */
const ENTRIES_PER_ANSWER = 512;

/** Longest path a guest may name, in UTF-16 units; the kernel's own bound is 4096 bytes. */
const MAX_PATH = 4_096;

const NANOSECONDS_PER_MS = 1_000_000n;

/** Answer to one file request. */
export interface FileAnswer {
  readonly header: Header;
  readonly body?: Uint8Array;
}

type Handle =
  | { readonly kind: "directory"; readonly dir: RootedDir; readonly writable: boolean; readonly preopen: boolean }
  | { readonly kind: "file"; readonly file: RootedFile; readonly read: boolean; readonly write: boolean }
  | { readonly kind: "listing"; readonly entries: RootedEntry[]; at: number };

type DirectoryHandle = Extract<Handle, { kind: "directory" }>;
type FileHandle = Extract<Handle, { kind: "file" }>;

/** A refused operation: a case name of `wasi:filesystem/types.error-code`. */
class FileRefusal extends Error {
  override readonly name = "FileRefusal";
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

const TYPES: Readonly<Record<FileKind, string>> = {
  "file": "regular-file",
  "directory": "directory",
  "symlink": "symbolic-link",
  "fifo": "fifo",
  "socket": "socket",
  "block-device": "block-device",
  "character-device": "character-device",
  "unknown": "unknown",
};

function statHeader(stat: FileStat): Header {
  return {
    type: TYPES[stat.kind],
    links: String(stat.nlink),
    size: String(stat.size),
    accessed: String(stat.atime),
    modified: String(stat.mtime),
    changed: String(stat.ctime),
    identity: `${stat.dev}:${stat.ino}`,
  };
}

/** The open handles of one instance. */
export class ComponentFiles implements Disposable {
  readonly #handles = new Map<number, Handle>();
  #nextHandle = 0;
  #listed = 0;

  /** The preopens get the handles 0, 1, … in their order. Their roots stay the caller's. */
  constructor(preopens: readonly Preopen[]) {
    for (const { root, writable } of preopens) {
      this.#handles.set(this.#nextHandle++, { kind: "directory", dir: root, writable, preopen: true });
    }
  }

  /** Handles open now. */
  get size(): number {
    return this.#handles.size;
  }

  /**
   * Carries out one request.
   *
   * @param op Name without its `fs.` prefix.
   * @returns the answer; `header.error` is a WASI error code when it was refused.
   * @throws {ProtocolViolation} when no honest host would send it.
   */
  handle(op: string, args: Header, body: Uint8Array<ArrayBuffer>): FileAnswer {
    if (body.length > MAX_FRAME_BYTES) throw new ProtocolViolation("a write longer than a frame");
    try {
      return this.#dispatch(op, args, body);
    } catch (error) {
      if (error instanceof RootedError) return { header: { error: error.kind } };
      if (error instanceof FileRefusal) return { header: { error: error.code } };
      throw error;
    }
  }

  /** Closes a handle. Preopens stay. */
  release(args: Header): void {
    const id = countField(args, "fd");
    const handle = this.#handles.get(id);
    if (handle === undefined || (handle.kind === "directory" && handle.preopen)) {
      throw new ProtocolViolation("a handle that is not open was closed");
    }
    this.#close(id, handle);
  }

  [Symbol.dispose](): void {
    for (const [id, handle] of this.#handles) this.#close(id, handle);
  }

  #close(id: number, handle: Handle): void {
    this.#handles.delete(id);
    if (handle.kind === "file") handle.file.close();
    else if (handle.kind === "listing") this.#listed -= handle.entries.length;
    else if (!handle.preopen) handle.dir.close();
  }

  #add(make: () => Handle): number {
    if (this.#handles.size >= MAX_HANDLES) throw new FileRefusal("insufficient-memory");
    const handle = make();
    this.#handles.set(this.#nextHandle, handle);
    return this.#nextHandle++;
  }

  #get(args: Header, name = "fd"): Handle {
    const handle = this.#handles.get(countField(args, name));
    if (handle === undefined) throw new ProtocolViolation("a handle that is not open");
    return handle;
  }

  #directory(args: Header, name = "fd"): DirectoryHandle {
    const handle = this.#get(args, name);
    if (handle.kind === "listing") throw new ProtocolViolation("a listing where a directory is meant");
    if (handle.kind !== "directory") throw new FileRefusal("not-directory");
    return handle;
  }

  #writable(args: Header, name = "fd"): RootedDir {
    const { dir, writable } = this.#directory(args, name);
    if (!writable) throw new FileRefusal("read-only");
    return dir;
  }

  #file(args: Header): FileHandle {
    const handle = this.#get(args);
    if (handle.kind === "listing") throw new ProtocolViolation("a listing where a file is meant");
    if (handle.kind !== "file") throw new FileRefusal("is-directory");
    return handle;
  }

  #dispatch(op: string, args: Header, body: Uint8Array<ArrayBuffer>): FileAnswer {
    switch (op) {
      case "read":
        return this.#read(args);
      case "write": {
        const file = this.#writableFile(args);
        file.write(countField(args, "offset"), body);
        return { header: { written: body.length } };
      }
      case "append": {
        const file = this.#writableFile(args);
        // No other call of this process comes between the two steps.
        file.write(file.stat().size, body);
        return { header: { written: body.length } };
      }
      case "open":
        return this.#open(args);
      case "stat": {
        const handle = this.#get(args);
        if (handle.kind === "listing") throw new ProtocolViolation("a listing has no facts");
        return { header: statHeader(handle.kind === "file" ? handle.file.stat() : handle.dir.stat(".")) };
      }
      case "stat-at":
        return {
          header: statHeader(this.#directory(args).dir.stat(path(args), { follow: flagField(args, "follow") })),
        };
      case "set-size":
        this.#writableFile(args).truncate(countField(args, "size"));
        return OK;
      case "set-times": {
        const handle = this.#get(args);
        const times = timesOf(args);
        if (handle.kind === "file") this.#writableFile(args).setTimes(times);
        else this.#writable(args).setTimes(".", times);
        return OK;
      }
      case "set-times-at":
        this.#writable(args).setTimes(path(args), timesOf(args), { follow: flagField(args, "follow") });
        return OK;
      case "sync": {
        const handle = this.#get(args);
        const dataOnly = flagField(args, "dataOnly");
        if (handle.kind === "file") handle.file.sync({ dataOnly });
        else this.#directory(args).dir.sync();
        return OK;
      }
      case "list": {
        const { dir } = this.#directory(args);
        const fd = this.#add(() => {
          const entries = dir.readDir();
          if (this.#listed + entries.length > MAX_LISTED_ENTRIES) throw new FileRefusal("insufficient-memory");
          this.#listed += entries.length;
          return { kind: "listing", entries, at: 0 };
        });
        return { header: { fd } };
      }
      case "next-entries": {
        const handle = this.#get(args);
        if (handle.kind !== "listing") throw new ProtocolViolation("no listing");
        const part = handle.entries.slice(handle.at, handle.at + ENTRIES_PER_ANSWER);
        handle.at += part.length;
        return {
          header: {
            entries: part.map(({ name, kind }) => [name, TYPES[kind]]),
            done: handle.at === handle.entries.length,
          },
        };
      }
      case "make-directory":
        this.#writable(args).mkdir(path(args));
        return OK;
      case "remove-directory":
        this.#writable(args).rmdir(path(args));
        return OK;
      case "unlink":
        this.#writable(args).unlink(path(args));
        return OK;
      case "rename":
        this.#writable(args).rename(path(args), this.#writable(args, "to"), path(args, "newPath"));
        return OK;
      case "link":
        this.#writable(args).link(path(args), this.#writable(args, "to"), path(args, "newPath"));
        return OK;
      case "symlink":
        this.#writable(args).symlink(path(args, "target"), path(args));
        return OK;
      case "read-link":
        return { header: { target: this.#directory(args).dir.readlink(path(args)) } };
      default:
        throw new ProtocolViolation(`no file operation '${op}'`);
    }
  }

  #writableFile(args: Header): RootedFile {
    const { file, write } = this.#file(args);
    if (!write) throw new FileRefusal("not-permitted");
    return file;
  }

  #read(args: Header): FileAnswer {
    const { file, read } = this.#file(args);
    if (!read) throw new FileRefusal("not-permitted");
    const buffer = new Uint8Array(countField(args, "length", MAX_FRAME_BYTES / 2));
    const count = file.read(countField(args, "offset"), buffer);
    return { header: {}, body: buffer.subarray(0, count) };
  }

  #open(args: Header): FileAnswer {
    const parent = this.#directory(args);
    const name = path(args);
    const follow = flagField(args, "follow");
    const create = flagField(args, "create");
    const exclusive = flagField(args, "exclusive");
    const truncate = flagField(args, "truncate");
    const write = flagField(args, "write");
    const read = flagField(args, "read");
    const directory = flagField(args, "directory");
    const mutate = flagField(args, "mutate");
    if ((create || truncate || write || mutate) && !parent.writable) throw new FileRefusal("read-only");
    if (directory && (create || truncate)) throw new FileRefusal("invalid");
    let type = "regular-file";
    const fd = this.#add(() => {
      if (directory) {
        const dir = parent.dir.openDir(name, { follow });
        type = "directory";
        return { kind: "directory", dir, writable: parent.writable, preopen: false };
      }
      const opened = parent.dir.openEntry(name, {
        // A descriptor for nothing but its facts: opened for reading, and no read is allowed on it.
        read: read || !write,
        write,
        create,
        createNew: create && exclusive,
        truncate,
        follow,
      });
      if (opened instanceof RootedFile) return { kind: "file", file: opened, read, write };
      type = "directory";
      return { kind: "directory", dir: opened, writable: parent.writable, preopen: false };
    });
    return { header: { fd, type } };
  }
}

const OK: FileAnswer = { header: {} };

function path(args: Header, name = "path"): string {
  const value = args[name];
  // An honest host passes on whatever length its guest names.
  if (typeof value === "string" && value.length > MAX_PATH) throw new FileRefusal("name-too-long");
  return textField(args, name, MAX_PATH);
}

function timesOf(args: Header): FileTimes {
  const time = (name: string): bigint | undefined => {
    const value = optionalTextField(args, name, 40);
    if (value === null) return undefined;
    if (value === "now") return BigInt(Date.now()) * NANOSECONDS_PER_MS;
    if (!/^\d{1,30}$/.test(value)) throw new ProtocolViolation(`field '${name}' is no time`);
    const nanoseconds = BigInt(value);
    // Beyond what 64-bit seconds of the kernel's call take.
    if (nanoseconds >= 2n ** 63n) throw new FileRefusal("overflow");
    return nanoseconds;
  };
  const atime = time("accessed");
  const mtime = time("modified");
  return { ...(atime === undefined ? {} : { atime }), ...(mtime === undefined ? {} : { mtime }) };
}
