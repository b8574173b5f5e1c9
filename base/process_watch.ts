/**
 * Whether any of many noted processes has ended, asked again and again (spec cli 4.3, layers 1 and 2). Where the kernel
 * gives descriptors that stand for processes, one call asks for all of them; elsewhere each is looked at on its own.
 *
 * @module
 */
import { descriptorLimit } from "./descriptor_limit.ts";
import { type Libc, libc, POLL_RECORD_BYTES } from "./libc.ts";
import { readProcess } from "./process_identity.ts";

/** A process as it was noted: pid and start token. */
export interface NotedProcess {
  readonly pid: number;
  readonly start: string;
}

/** Most processes that are watched by descriptor; further ones are looked at one by one. */
const MAX_DESCRIPTORS = 1_024;

/** Part of this process's descriptors that is taken for watching: the others are for its connections and files. */
const SHARE_OF_DESCRIPTORS = 4;

/** Events to wait for: readable. */
const POLL_IN = 1;

/** Watches processes, each under a key of the caller's. */
export class ProcessWatch implements Disposable {
  readonly #libc: Libc | null;
  readonly #maxDescriptors: number;
  readonly #noted = new Map<string, NotedProcess>();
  /** Descriptors of processes that were the noted ones when they were opened. */
  readonly #descriptors = new Map<string, number>();
  /** What the kernel is asked with; `null` when it does not fit the descriptors any more. */
  #records: Uint8Array<ArrayBuffer> | null = null;
  /** Processes without a descriptor. */
  readonly #others = new Set<string>();

  /** @param useDescriptors False looks at each process on its own. */
  constructor(useDescriptors = Deno.build.os === "linux") {
    this.#libc = useDescriptors ? openLibc() : null;
    this.#maxDescriptors = this.#libc === null ? 0 : watchableDescriptors(descriptorLimit());
  }

  /** Watches a process; one that was watched under the key is forgotten. */
  watch(key: string, process: NotedProcess): void {
    this.forget(key);
    this.#noted.set(key, process);
    const descriptor = this.#open(process);
    if (descriptor === null) {
      this.#others.add(key);
    } else {
      this.#descriptors.set(key, descriptor);
      this.#records = null;
    }
  }

  forget(key: string): void {
    if (!this.#noted.delete(key)) return;
    this.#others.delete(key);
    const descriptor = this.#descriptors.get(key);
    if (descriptor === undefined) return;
    this.#descriptors.delete(key);
    this.#records = null;
    this.#libc!.close(descriptor);
  }

  /** Keys of processes that are gone. They are not watched any more. */
  gone(): readonly string[] {
    if (this.#noted.size === 0) return NONE;
    const gone = [...this.#endedByDescriptor()];
    for (const key of this.#others) if (this.#isGone(key)) gone.push(key);
    for (const key of gone) this.forget(key);
    return gone;
  }

  [Symbol.dispose](): void {
    for (const key of [...this.#noted.keys()]) this.forget(key);
  }

  #isGone(key: string): boolean {
    const { pid, start } = this.#noted.get(key)!;
    return readProcess(pid, start).state === "gone";
  }

  #endedByDescriptor(): readonly string[] {
    if (this.#descriptors.size === 0) return NONE;
    if (this.#records === null) {
      this.#records = new Uint8Array(POLL_RECORD_BYTES * this.#descriptors.size);
      const view = new DataView(this.#records.buffer);
      let at = 0;
      for (const descriptor of this.#descriptors.values()) {
        view.setInt32(at, descriptor, true);
        view.setInt16(at + 4, POLL_IN, true);
        at += POLL_RECORD_BYTES;
      }
    }
    const ended = this.#libc!.pollAll(this.#records);
    if (ended === 0) return NONE;
    const keys = [...this.#descriptors.keys()];
    if (ended < 0) return keys.filter((key) => this.#isGone(key));
    const view = new DataView(this.#records.buffer);
    return keys.filter((_, index) => view.getInt16(POLL_RECORD_BYTES * index + 6, true) !== 0);
  }

  /** A descriptor of the very process that was noted; `null` when there is none to be had. */
  #open({ pid, start }: NotedProcess): number | null {
    if (this.#libc === null || this.#descriptors.size >= this.#maxDescriptors) return null;
    if (!Number.isSafeInteger(pid) || pid <= 0 || pid > 0x7fff_ffff) return null;
    const descriptor = this.#libc.pidfdOpen(pid);
    if (descriptor < 0) return null;
    // Read after it was opened: it stands for the process that bore the pid then, or for one that has ended.
    if (readProcess(pid, start).state === "same") return descriptor;
    this.#libc.close(descriptor);
    return null;
  }
}

/** How many processes may be watched by descriptor, of so many descriptors that there may be. */
export function watchableDescriptors(limit: number): number {
  return Math.min(MAX_DESCRIPTORS, Math.floor(limit / SHARE_OF_DESCRIPTORS));
}

const NONE: readonly string[] = [];

function openLibc(): Libc | null {
  try {
    return libc();
  } catch {
    return null;
  }
}
