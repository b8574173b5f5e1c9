/**
 * `wasi:filesystem` 0.2 on the host's side: every operation is a frame that the runtime carries out beneath the
 * preopen's root (spec components 3.4, 3.9). The host knows handles, never paths outside or descriptors.
 *
 * @module
 */
import { type Header, MessageType } from "../frames.ts";
import type { Pipe, Reply } from "./pipe.ts";
import { Refusal } from "./refusal.ts";
import {
  ALWAYS_READY,
  closed,
  failed,
  InputStream,
  type IoError,
  MAX_TRANSFER_BYTES,
  OutputStream,
} from "./streams.ts";

/** `wasi:filesystem/types.error-code`. */
type ErrorCode = string;

interface PathFlags {
  readonly symlinkFollow?: boolean;
}

interface OpenFlags {
  readonly create?: boolean;
  readonly directory?: boolean;
  readonly exclusive?: boolean;
  readonly truncate?: boolean;
}

interface DescriptorFlags {
  readonly read?: boolean;
  readonly write?: boolean;
  readonly fileIntegritySync?: boolean;
  readonly dataIntegritySync?: boolean;
  readonly requestedWriteSync?: boolean;
  readonly mutateDirectory?: boolean;
}

interface Datetime {
  readonly seconds: bigint;
  readonly nanoseconds: number;
}

type NewTimestamp =
  | { readonly tag: "no-change" }
  | { readonly tag: "now" }
  | { readonly tag: "timestamp"; readonly val: Datetime };

interface DescriptorStat {
  readonly type: string;
  readonly linkCount: bigint;
  readonly size: bigint;
  readonly dataAccessTimestamp: Datetime;
  readonly dataModificationTimestamp: Datetime;
  readonly statusChangeTimestamp: Datetime;
}

const NANOSECONDS = 1_000_000_000n;

let pipe: Pipe;

/** Binds the interface to the process's pipe. Called once, before any guest. */
export function bindFilesystem(to: Pipe): void {
  pipe = to;
}

function ask(op: string, args: Header, body?: Uint8Array): Reply {
  const reply = pipe.request(op, args, body);
  if (reply.header.error !== undefined) throw new Refusal(reply.header.error);
  return reply;
}

function errorOf(error: unknown): ErrorCode {
  if (error instanceof Refusal && typeof error.payload === "string") return error.payload;
  throw error;
}

function datetime(nanoseconds: unknown): Datetime {
  const value = BigInt(nanoseconds as string);
  let seconds = value / NANOSECONDS;
  let rest = value % NANOSECONDS;
  if (rest < 0n) {
    seconds -= 1n;
    rest += NANOSECONDS;
  }
  return { seconds: BigInt.asUintN(64, seconds), nanoseconds: Number(rest) };
}

function timestamp(value: NewTimestamp): string | null {
  switch (value.tag) {
    case "no-change":
      return null;
    case "now":
      return "now";
    case "timestamp":
      return String(value.val.seconds * NANOSECONDS + BigInt(value.val.nanoseconds));
  }
}

function statOf(header: Header): DescriptorStat {
  return {
    type: header.type as string,
    linkCount: BigInt(header.links as string),
    size: BigInt(header.size as string),
    dataAccessTimestamp: datetime(header.accessed),
    dataModificationTimestamp: datetime(header.modified),
    statusChangeTimestamp: datetime(header.changed),
  };
}

/** A file offset as a number; what no file reaches is refused. */
function offsetOf(offset: bigint): number {
  if (offset > BigInt(Number.MAX_SAFE_INTEGER)) throw new Refusal("invalid");
  return Number(offset);
}

/** A handle at the runtime, shared by a descriptor and the streams made from it. */
class FileHandle {
  readonly id: number;
  #users = 1;
  readonly #preopen: boolean;

  constructor(id: number, preopen: boolean) {
    this.id = id;
    this.#preopen = preopen;
  }

  share(): FileHandle {
    this.#users++;
    return this;
  }

  release(): void {
    if (--this.#users === 0 && !this.#preopen) pipe.send(MessageType.release, 0, { fd: this.id });
  }
}

/** `wasi:filesystem/types.descriptor`. */
export class Descriptor {
  readonly #handle: FileHandle;
  readonly #flags: DescriptorFlags;
  readonly #type: string;

  constructor(handle: FileHandle, flags: DescriptorFlags, type: string) {
    this.#handle = handle;
    this.#flags = flags;
    this.#type = type;
  }

  get #fd(): number {
    return this.#handle.id;
  }

  #needs(flag: "read" | "write"): void {
    if (this.#type === "directory") throw new Refusal("is-directory");
    if (this.#flags[flag] !== true) throw new Refusal("not-permitted");
  }

  readViaStream(offset: bigint): InputStream {
    this.#needs("read");
    const handle = this.#handle.share();
    let at = offsetOf(offset);
    return new InputStream({
      ...ALWAYS_READY,
      read(max) {
        if (max === 0) return new Uint8Array(0);
        let reply: Reply;
        try {
          reply = ask("fs.read", { fd: handle.id, offset: at, length: max });
        } catch (error) {
          const file = errorOf(error);
          throw failed(`read failed: ${file}`, { file });
        }
        if (reply.body.length === 0) throw closed();
        at += reply.body.length;
        return reply.body;
      },
      close: () => handle.release(),
    });
  }

  writeViaStream(offset: bigint): OutputStream {
    this.#needs("write");
    let at = offsetOf(offset);
    return this.#output((bytes) => {
      const reply = ask("fs.write", { fd: this.#fd, offset: at }, bytes);
      at += reply.header.written as number;
      return reply.header.written as number;
    });
  }

  appendViaStream(): OutputStream {
    this.#needs("write");
    return this.#output((bytes) => ask("fs.append", { fd: this.#fd }, bytes).header.written as number);
  }

  #output(write: (bytes: Uint8Array) => number): OutputStream {
    const handle = this.#handle.share();
    let broken = false;
    return new OutputStream({
      ...ALWAYS_READY,
      room() {
        if (broken) throw closed();
        return MAX_TRANSFER_BYTES;
      },
      write(bytes) {
        try {
          for (let done = 0; done < bytes.length;) done += write(bytes.subarray(done));
        } catch (error) {
          broken = true;
          const file = errorOf(error);
          throw failed(`write failed: ${file}`, { file });
        }
      },
      close: () => handle.release(),
    });
  }

  advise(_offset: bigint, _length: bigint, _advice: string): void {
    if (this.#type === "directory") throw new Refusal("bad-descriptor");
  }

  syncData(): void {
    ask("fs.sync", { fd: this.#fd, dataOnly: true });
  }

  sync(): void {
    ask("fs.sync", { fd: this.#fd, dataOnly: false });
  }

  getFlags(): DescriptorFlags {
    return this.#flags;
  }

  getType(): string {
    return this.#type;
  }

  setSize(size: bigint): void {
    this.#needs("write");
    ask("fs.set-size", { fd: this.#fd, size: offsetOf(size) });
  }

  setTimes(accessed: NewTimestamp, modified: NewTimestamp): void {
    ask("fs.set-times", { fd: this.#fd, accessed: timestamp(accessed), modified: timestamp(modified) });
  }

  read(length: bigint, offset: bigint): [Uint8Array, boolean] {
    this.#needs("read");
    const max = length > BigInt(MAX_TRANSFER_BYTES) ? MAX_TRANSFER_BYTES : Number(length);
    if (max === 0) return [new Uint8Array(0), false];
    const { body } = ask("fs.read", { fd: this.#fd, offset: offsetOf(offset), length: max });
    return [body, body.length === 0];
  }

  write(bytes: Uint8Array, offset: bigint): bigint {
    this.#needs("write");
    const part = bytes.subarray(0, MAX_TRANSFER_BYTES);
    return BigInt(ask("fs.write", { fd: this.#fd, offset: offsetOf(offset) }, part).header.written as number);
  }

  readDirectory(): DirectoryEntryStream {
    if (this.#type !== "directory") throw new Refusal("not-directory");
    return new DirectoryEntryStream(ask("fs.list", { fd: this.#fd }).header.fd as number);
  }

  createDirectoryAt(path: string): void {
    ask("fs.make-directory", { fd: this.#fd, path });
  }

  stat(): DescriptorStat {
    return statOf(ask("fs.stat", { fd: this.#fd }).header);
  }

  statAt(flags: PathFlags, path: string): DescriptorStat {
    return statOf(ask("fs.stat-at", { fd: this.#fd, path, follow: flags.symlinkFollow === true }).header);
  }

  setTimesAt(flags: PathFlags, path: string, accessed: NewTimestamp, modified: NewTimestamp): void {
    ask("fs.set-times-at", {
      fd: this.#fd,
      path,
      follow: flags.symlinkFollow === true,
      accessed: timestamp(accessed),
      modified: timestamp(modified),
    });
  }

  linkAt(flags: PathFlags, path: string, target: Descriptor, newPath: string): void {
    // Hard links through a symbolic link name another file than the guest sees; POSIX leaves them optional.
    if (flags.symlinkFollow === true) throw new Refusal("invalid");
    ask("fs.link", { fd: this.#fd, path, to: target.#fd, newPath });
  }

  openAt(pathFlags: PathFlags, path: string, openFlags: OpenFlags, flags: DescriptorFlags): Descriptor {
    const { header } = ask("fs.open", {
      fd: this.#fd,
      path,
      follow: pathFlags.symlinkFollow === true,
      create: openFlags.create === true,
      directory: openFlags.directory === true,
      exclusive: openFlags.exclusive === true,
      truncate: openFlags.truncate === true,
      read: flags.read === true,
      write: flags.write === true,
      mutate: flags.mutateDirectory === true,
    });
    return new Descriptor(new FileHandle(header.fd as number, false), flags, header.type as string);
  }

  readlinkAt(path: string): string {
    return ask("fs.read-link", { fd: this.#fd, path }).header.target as string;
  }

  removeDirectoryAt(path: string): void {
    ask("fs.remove-directory", { fd: this.#fd, path });
  }

  renameAt(path: string, target: Descriptor, newPath: string): void {
    ask("fs.rename", { fd: this.#fd, path, to: target.#fd, newPath });
  }

  symlinkAt(target: string, path: string): void {
    ask("fs.symlink", { fd: this.#fd, target, path });
  }

  unlinkFileAt(path: string): void {
    ask("fs.unlink", { fd: this.#fd, path });
  }

  isSameObject(other: Descriptor): boolean {
    return ask("fs.stat", { fd: this.#fd }).header.identity === ask("fs.stat", { fd: other.#fd }).header.identity;
  }

  metadataHash(): { lower: bigint; upper: bigint } {
    return hashOf(ask("fs.stat", { fd: this.#fd }).header);
  }

  metadataHashAt(flags: PathFlags, path: string): { lower: bigint; upper: bigint } {
    return hashOf(ask("fs.stat-at", { fd: this.#fd, path, follow: flags.symlinkFollow === true }).header);
  }

  [Symbol.dispose](): void {
    this.#handle.release();
  }
}

/** FNV-1a over what identifies the object, from two starting points. */
function hashOf(header: Header): { lower: bigint; upper: bigint } {
  const text = header.identity as string;
  const fnv = (seed: bigint) => {
    let hash = seed;
    for (let i = 0; i < text.length; i++) {
      hash = BigInt.asUintN(64, (hash ^ BigInt(text.charCodeAt(i))) * 0x100000001b3n);
    }
    return hash;
  };
  return { lower: fnv(0xcbf29ce484222325n), upper: fnv(0x9ae16a3b2f90404fn) };
}

/** `wasi:filesystem/types.directory-entry-stream`. */
export class DirectoryEntryStream {
  readonly #fd: number;
  #entries: [string, string][] = [];
  #at = 0;
  #done = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  readDirectoryEntry(): { type: string; name: string } | undefined {
    if (this.#at === this.#entries.length) {
      if (this.#done) return undefined;
      const { header } = ask("fs.next-entries", { fd: this.#fd });
      this.#entries = header.entries as [string, string][];
      this.#at = 0;
      this.#done = header.done as boolean;
      if (this.#entries.length === 0) return undefined;
    }
    const [name, type] = this.#entries[this.#at++]!;
    return { name, type };
  }

  [Symbol.dispose](): void {
    pipe.send(MessageType.release, 0, { fd: this.#fd });
  }
}

/** `wasi:filesystem/types.filesystem-error-code`. */
export function filesystemErrorCode(error: IoError): ErrorCode | undefined {
  return error.payload.file;
}

/** A preopen as the call names it. */
export interface HostPreopen {
  readonly guestPath: string;
  readonly fd: number;
  readonly writable: boolean;
}

/** `wasi:filesystem/preopens.get-directories`. */
export function directories(preopens: readonly HostPreopen[]): [Descriptor, string][] {
  return preopens.map(({ guestPath, fd, writable }) => {
    const flags = writable ? { read: true, mutateDirectory: true } : { read: true };
    return [new Descriptor(new FileHandle(fd, true), flags, "directory"), guestPath];
  });
}
