/**
 * Waiting for many descriptors at once. Deno's own pipes can't be had from a descriptor, and a thread for each that waits
 * would soon use up the 32 that all file access shares: this takes one, whatever the number of descriptors.
 *
 * @module
 */
import { MurError } from "./errors.ts";
import { FCNTL, type Libc, libc, O, POLL, POLL_RECORD_BYTES } from "./libc.ts";

/** Is told the events that came, bits of {@linkcode POLL}. Must not throw. */
export type DescriptorHandler = (events: number) => void;

interface Watched {
  readonly events: number;
  readonly handler: DescriptorHandler;
}

/** Pause before the next try when the kernel can't wait, in milliseconds. */
const RETRY_MS = 5;

class DescriptorWatch {
  readonly #c: Libc;
  readonly #watched = new Map<number, Watched>();
  /** To be closed when the wait that may name them is over: their numbers must not stand for others meanwhile. */
  #closing: number[] = [];
  /** Ends a wait, so that the next one has what changed. */
  readonly #wake: { readonly read: number; readonly write: number };
  #running = false;
  #waiting = false;

  constructor(c: Libc) {
    this.#c = c;
    const pair = c.pipe();
    if (typeof pair === "number") throw new MurError("E-IO-003", `no pipe can be made (error ${-pair})`);
    this.#wake = { read: pair[0], write: pair[1] };
    for (const fd of pair) c.fcntl(fd, FCNTL.SETFL, O.NONBLOCK);
  }

  /** Calls the handler whenever one of the events comes, until it is watched for others or no longer. */
  watch(fd: number, events: number, handler: DescriptorHandler): void {
    this.#watched.set(fd, { events, handler });
    this.#changed();
    if (!this.#running) void this.#run();
  }

  unwatch(fd: number): void {
    if (this.#watched.delete(fd)) this.#changed();
  }

  /** Closes a descriptor that was watched. */
  close(fd: number): void {
    this.#watched.delete(fd);
    if (!this.#waiting) return void this.#c.close(fd);
    this.#closing.push(fd);
    this.#changed();
  }

  #changed(): void {
    if (this.#waiting) this.#c.write(this.#wake.write, Uint8Array.of(1));
  }

  async #run(): Promise<void> {
    this.#running = true;
    // What is watched next from the same place goes into the first wait.
    await Promise.resolve();
    let waited = false;
    while (this.#watched.size > 0) {
      const watched = [...this.#watched];
      const records = new Uint8Array((watched.length + 1) * POLL_RECORD_BYTES);
      const view = new DataView(records.buffer);
      [[this.#wake.read, { events: POLL.IN }] as const, ...watched].forEach(([fd, { events }], index) => {
        view.setInt32(index * POLL_RECORD_BYTES, fd, true);
        view.setInt16(index * POLL_RECORD_BYTES + 4, events, true);
      });
      // What follows closely on what came needs no thread. Only once after each wait: a flood must not hold this one.
      let count: number = waited ? this.#c.pollAll(records) : 0;
      waited = count === 0;
      if (waited) {
        this.#waiting = true;
        count = await this.#c.pollElsewhere(records);
        this.#waiting = false;
        for (const fd of this.#closing.splice(0)) this.#c.close(fd);
      }
      if (count < 0) {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        continue;
      }
      const came = (index: number) => view.getInt16(index * POLL_RECORD_BYTES + 6, true);
      if (came(0) !== 0) this.#c.read(this.#wake.read, new Uint8Array(64));
      watched.forEach(([fd, entry], index) => {
        const events = came(index + 1);
        // One before it may have changed what is watched.
        if (events !== 0 && this.#watched.get(fd) === entry) entry.handler(events);
      });
    }
    this.#running = false;
  }
}

let watch: DescriptorWatch | undefined;

/**
 * The one watch of this thread, made on the first call.
 *
 * @throws {MurError} `E-IO-003` where there is no C library to wait with, or no descriptor left.
 */
export function descriptorWatch(): DescriptorWatch {
  return watch ??= new DescriptorWatch(libc());
}
