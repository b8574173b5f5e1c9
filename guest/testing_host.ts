/**
 * A host for tests of the guest library outside a component: time that passes only when the loop waits, and whatever else
 * a test brings.
 *
 * @module
 */
import { type Host, installHost, type Pollable } from "./host.ts";

/** A pollable that a test makes ready. */
export class TestPollable implements Pollable {
  readyAt: number;
  disposed = false;
  readonly #clock: TestClock;

  constructor(clock: TestClock, readyAt: number) {
    this.#clock = clock;
    this.readyAt = readyAt;
  }

  ready(): boolean {
    return this.readyAt <= this.#clock.milliseconds;
  }

  block(): void {
    this.#clock.milliseconds = Math.max(this.#clock.milliseconds, this.readyAt);
  }

  [Symbol.dispose](): void {
    this.disposed = true;
  }
}

/** The time of a test. */
export class TestClock {
  milliseconds = 1_000;
  /** Every pollable a timer was waited for with. */
  readonly made: TestPollable[] = [];

  pollable(afterMs: number): TestPollable {
    const pollable = new TestPollable(this, this.milliseconds + afterMs);
    this.made.push(pollable);
    return pollable;
  }
}

/** Installs a host over a clock; members that a test does not bring fail when they are used. */
export function installTestHost(clock: TestClock, parts: Partial<Host> = {}): void {
  const base: Partial<Host> = {
    monotonicClock: {
      now: () => clock.milliseconds * 1e6,
      subscribeDuration: (nanoseconds) => clock.pollable(nanoseconds / 1e6),
    },
    poll: {
      poll(pollables) {
        const all = pollables as TestPollable[];
        if (all.length === 0) throw new Error("poll traps without pollables");
        const first = Math.min(...all.map(({ readyAt }) => readyAt));
        if (first === Infinity) throw new Error("nothing will ever be ready");
        clock.milliseconds = Math.max(clock.milliseconds, first);
        return all.flatMap((pollable, index) => (pollable.ready() ? [index] : []));
      },
    },
    ...parts,
  };
  installHost(base as Host);
}
