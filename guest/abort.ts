/**
 * `AbortController` and `AbortSignal` (WHATWG DOM 3.1, 3.2) without the rest of the event model: a signal knows one event,
 * `abort`.
 *
 * @module
 */
import { setTimeout } from "./event_loop.ts";

type Listener = ((event: AbortEvent) => void) | { handleEvent(event: AbortEvent): void };

/** What a listener is given. */
export interface AbortEvent {
  readonly type: "abort";
  readonly target: AbortSignal;
}

let allowed = false;

/** The global `AbortSignal`. */
export class AbortSignal {
  #aborted = false;
  #reason: unknown = undefined;
  #listeners: { readonly listener: Listener; readonly once: boolean }[] = [];
  /** Called before the listeners. */
  onabort: ((event: AbortEvent) => void) | null = null;

  constructor() {
    if (!allowed) throw new TypeError("AbortSignal: use an AbortController, or AbortSignal.timeout, any or abort");
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  addEventListener(type: "abort", listener: Listener | null, options: boolean | { once?: boolean } = {}): void {
    if (type !== "abort" || listener === null) return;
    if (this.#listeners.some((entry) => entry.listener === listener)) return;
    this.#listeners.push({ listener, once: typeof options === "object" && options.once === true });
  }

  removeEventListener(type: "abort", listener: Listener | null): void {
    if (type === "abort") this.#listeners = this.#listeners.filter((entry) => entry.listener !== listener);
  }

  /** @internal */
  static make(): { signal: AbortSignal; abort: (reason: unknown) => void } {
    allowed = true;
    try {
      const signal = new AbortSignal();
      return { signal, abort: (reason) => signal.#abort(reason) };
    } finally {
      allowed = false;
    }
  }

  #abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason === undefined ? new DOMException("The operation was aborted", "AbortError") : reason;
    const event: AbortEvent = { type: "abort", target: this };
    this.onabort?.(event);
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const { listener } of listeners) {
      if (typeof listener === "function") listener.call(this, event);
      else listener.handleEvent(event);
    }
  }

  static abort(reason?: unknown): AbortSignal {
    const { signal, abort } = AbortSignal.make();
    abort(reason);
    return signal;
  }

  static timeout(milliseconds: number): AbortSignal {
    const { signal, abort } = AbortSignal.make();
    setTimeout(() => abort(new DOMException("The operation timed out", "TimeoutError")), milliseconds);
    return signal;
  }

  static any(signals: Iterable<AbortSignal>): AbortSignal {
    const all = [...signals];
    const { signal, abort } = AbortSignal.make();
    const first = all.find((source) => source.aborted);
    if (first !== undefined) {
      abort(first.reason);
      return signal;
    }
    for (const source of all) source.addEventListener("abort", () => abort(source.reason), { once: true });
    return signal;
  }
}

/** The global `AbortController`. */
export class AbortController {
  readonly signal: AbortSignal;
  readonly #abort: (reason: unknown) => void;

  constructor() {
    const { signal, abort } = AbortSignal.make();
    this.signal = signal;
    this.#abort = abort;
  }

  abort(reason?: unknown): void {
    this.#abort(reason);
  }
}
