/**
 * The events an `async` hook has not been told yet: first in, first out, one at a time (spec components 10.6).
 *
 * @module
 */
import type { HookBinding } from "../../artifact/manifest/artifact_manifest.ts";
import type { HookEvents } from "./hook_event.ts";

/** Most events that wait (spec components 15). */
export const MAX_QUEUED = 1_024;

/** Most characters of JSON that wait: one event may hold a whole history. */
export const MAX_QUEUED_CHARACTERS = 64 << 20;

/** An event with its payload. */
export type HookJob = {
  readonly [E in HookBinding]: { readonly event: E; readonly payload: HookEvents[E] };
}[HookBinding];

/** How a queue works. */
export interface HookQueueOptions {
  readonly onOverflow: "drop" | "block";
  /** Tells the hook one event; never fails. */
  readonly run: (job: HookJob) => Promise<void>;
  /** An event was discarded. */
  readonly dropped: (job: HookJob) => void;
}

/** The queue of one hook. */
export class HookQueue {
  readonly #options: HookQueueOptions;
  readonly #jobs: { readonly job: HookJob; readonly characters: number }[] = [];
  #characters = 0;
  #working = false;
  /** Who waits for room, or for the end. */
  #changed = Promise.withResolvers<void>();
  #closed = false;

  constructor(options: HookQueueOptions) {
    this.#options = options;
  }

  /** Events that wait or are being told. */
  get length(): number {
    return this.#jobs.length + (this.#working ? 1 : 0);
  }

  /** Queues an event; under `block` it waits for room. */
  async add(job: HookJob): Promise<void> {
    const characters = JSON.stringify(job.payload).length;
    while (!this.#hasRoom(characters) && !this.#closed) {
      if (this.#options.onOverflow === "drop") return this.#options.dropped(job);
      await this.#changed.promise;
    }
    if (this.#closed) return;
    this.#jobs.push({ job, characters });
    this.#characters += characters;
    if (!this.#working) void this.#work();
  }

  /** Takes no more events and settles when all are told, or at once when it is given up. */
  async drained(givenUp: AbortSignal): Promise<void> {
    const over = new Promise<void>((resolve) => givenUp.addEventListener("abort", () => resolve(), { once: true }));
    while (this.length > 0 && !givenUp.aborted) await Promise.race([this.#changed.promise, over]);
    this.#closed = true;
    this.#jobs.length = 0;
    this.#change();
  }

  #hasRoom(characters: number): boolean {
    if (this.#jobs.length === 0) return true;
    return this.#jobs.length < MAX_QUEUED && this.#characters + characters <= MAX_QUEUED_CHARACTERS;
  }

  async #work(): Promise<void> {
    this.#working = true;
    for (let next = this.#jobs.shift(); next !== undefined; next = this.#jobs.shift()) {
      this.#characters -= next.characters;
      this.#change();
      await this.#options.run(next.job);
    }
    this.#working = false;
    this.#change();
  }

  #change(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}
