/**
 * How many bytes of large answers are in memory at once. A file must be whole in memory before its first byte leaves, as its
 * hash stands in the head of the answer; so the room for it is taken before it is read, and given back when it is gone.
 *
 * Those who find no room wait in the order they came, holding nothing.
 *
 * @module
 */

/** Room that was taken. */
export interface Room {
  /** Gives it back. A second call does nothing. */
  release(): void;
}

interface Waiting {
  readonly bytes: number;
  readonly resolve: (room: Room | null) => void;
  readonly timer: ReturnType<typeof setTimeout>;
}

/** Most that wait at once; further ones are turned away. */
const MAX_WAITING = 1_024;

/** A bound of bytes that are shared. */
export class ReadAdmission {
  readonly #budget: number;
  #taken = 0;
  /** In the order they came. */
  readonly #waiting = new Set<Waiting>();

  /** @param budget Bytes. What alone is larger is let in when nothing else is. */
  constructor(budget: number) {
    this.#budget = budget;
  }

  /** Bytes that are taken. */
  get taken(): number {
    return this.#taken;
  }

  /** Takes room at once; `null` when there is none, or others wait for it. */
  tryTake(bytes: number): Room | null {
    return this.#waiting.size === 0 && this.#fits(bytes) ? this.#take(bytes) : null;
  }

  /** Takes room as soon as there is some; `null` when there was none within `waitMs`, or too many wait already. */
  take(bytes: number, waitMs: number): Promise<Room | null> {
    const room = this.tryTake(bytes);
    if (room !== null || this.#waiting.size >= MAX_WAITING) return Promise.resolve(room);
    return new Promise((resolve) => {
      const waiting: Waiting = {
        bytes,
        resolve,
        timer: setTimeout(() => {
          this.#waiting.delete(waiting);
          resolve(null);
          // Those behind may be smaller.
          this.#admit();
        }, waitMs),
      };
      this.#waiting.add(waiting);
    });
  }

  /** Turns away everybody who waits. */
  close(): void {
    for (const { timer, resolve } of this.#waiting) {
      clearTimeout(timer);
      resolve(null);
    }
    this.#waiting.clear();
  }

  #fits(bytes: number): boolean {
    return this.#taken === 0 || this.#taken + bytes <= this.#budget;
  }

  #take(bytes: number): Room {
    this.#taken += bytes;
    let held = true;
    return {
      release: () => {
        if (!held) return;
        held = false;
        this.#taken -= bytes;
        this.#admit();
      },
    };
  }

  #admit(): void {
    for (const waiting of this.#waiting) {
      if (!this.#fits(waiting.bytes)) return;
      this.#waiting.delete(waiting);
      clearTimeout(waiting.timer);
      waiting.resolve(this.#take(waiting.bytes));
    }
  }
}
