/**
 * The loop behind every asynchronous thing in a component. A component's exports are synchronous and its engine runs no
 * microtasks of its own, so a call runs this loop until its promise is settled: microtasks first, then due timers, then
 * it waits in `wasi:io/poll` for whatever is awaited.
 *
 * @module
 */
import { dispose, host, type Pollable } from "./host.ts";

interface Waiter {
  readonly pollable: Pollable;
  readonly wake: () => void;
}

interface Timer {
  readonly id: number;
  dueAt: number;
  readonly interval: number | null;
  readonly run: () => void;
}

// `never` lets a promise's resolve function be a callback.
type TimerCallback = (...args: never[]) => void;

const MAX_TIMEOUT_MS = 2_147_483_647;

let microtasks: (() => void)[] = [];
let waiters: Waiter[] = [];
const timers = new Map<number, Timer>();
let nextTimerId = 1;
let report: (error: unknown) => void = () => {};

/** Milliseconds of the monotonic clock. */
export function monotonicMs(): number {
  return host().monotonicClock.now() / 1e6;
}

/** Where errors go that no one can catch: thrown by a timer or a microtask, or a rejection without a handler. */
export function onUncaught(handler: (error: unknown) => void): void {
  report = handler;
}

/** Hands an error to the handler of {@linkcode onUncaught}. */
export function reportUncaught(error: unknown): void {
  report(error);
}

/** Runs `callback` after the running code, before any timer. */
export function queueMicrotask(callback: () => void): void {
  if (typeof callback !== "function") throw new TypeError("queueMicrotask: the callback is not a function");
  microtasks.push(callback);
}

function runMicrotasks(): void {
  while (microtasks.length > 0) {
    const batch = microtasks;
    microtasks = [];
    for (const task of batch) {
      try {
        task();
      } catch (error) {
        report(error);
      }
    }
  }
}

function addTimer(callback: TimerCallback, delay: unknown, repeat: boolean, args: unknown[]): number {
  if (typeof callback !== "function") throw new TypeError("a timer's callback must be a function");
  const wanted = Number(delay ?? 0);
  // The rule of browsers: what is no number, negative or too large fires at once.
  const ms = wanted > 0 && wanted <= MAX_TIMEOUT_MS ? wanted : 0;
  const id = nextTimerId++;
  // An interval of 0 would starve everything that is awaited.
  timers.set(id, {
    id,
    dueAt: monotonicMs() + ms,
    interval: repeat ? Math.max(ms, 1) : null,
    run: () => (callback as (...args: unknown[]) => void)(...args),
  });
  return id;
}

/** Calls `callback` once after `delay` milliseconds. */
export function setTimeout(callback: TimerCallback, delay?: number, ...args: unknown[]): number {
  return addTimer(callback, delay, false, args);
}

/** Calls `callback` every `delay` milliseconds until it is cleared. */
export function setInterval(callback: TimerCallback, delay?: number, ...args: unknown[]): number {
  return addTimer(callback, delay, true, args);
}

/** Forgets a timer; unknown ids are ignored. */
export function clearTimeout(id?: number): void {
  if (id !== undefined) timers.delete(id);
}

/** Calls `wake` once the pollable is ready. The returned function stops waiting; the pollable stays the caller's. */
export function onReady(pollable: Pollable, wake: () => void): () => void {
  const waiter = { pollable, wake };
  waiters.push(waiter);
  return () => {
    waiters = waiters.filter((other) => other !== waiter);
  };
}

function nextDueAt(): number | null {
  let due: number | null = null;
  for (const timer of timers.values()) if (due === null || timer.dueAt < due) due = timer.dueAt;
  return due;
}

function runDueTimers(now: number): boolean {
  const due = [...timers.values()].filter((timer) => timer.dueAt <= now)
    .sort((a, b) => a.dueAt - b.dueAt || a.id - b.id);
  for (const timer of due) {
    // An earlier callback of this round may have cleared it.
    if (!timers.has(timer.id)) continue;
    if (timer.interval === null) timers.delete(timer.id);
    else timer.dueAt = now + timer.interval;
    try {
      timer.run();
    } catch (error) {
      report(error);
    }
    runMicrotasks();
  }
  return due.length > 0;
}

function waitForEvents(): boolean {
  const due = nextDueAt();
  if (waiters.length === 0 && due === null) return false;
  const round = waiters;
  const pollables = round.map((waiter) => waiter.pollable);
  const timer = due === null
    ? null
    : host().monotonicClock.subscribeDuration(Math.max(0, Math.ceil((due - monotonicMs()) * 1e6)));
  if (timer !== null) pollables.push(timer);
  let ready: ArrayLike<number>;
  try {
    ready = host().poll.poll(pollables);
  } finally {
    dispose(timer);
  }
  const woken = new Set<Waiter>();
  for (let i = 0; i < ready.length; i++) {
    const waiter = round[ready[i] ?? -1];
    if (waiter !== undefined) woken.add(waiter);
  }
  waiters = waiters.filter((waiter) => !woken.has(waiter));
  for (const waiter of woken) {
    waiter.wake();
    runMicrotasks();
  }
  return true;
}

/**
 * Runs the loop until the promise that `start` gives is settled, then returns its value or throws its reason. What is
 * still running then is dropped: the instance ends with the call.
 *
 * @throws {Error} When nothing is left that could settle the promise.
 */
export function runToCompletion<T>(start: () => PromiseLike<T>): T {
  let outcome: { readonly value: T } | { readonly reason: unknown } | null = null;
  const settled = () => outcome as { readonly value: T } | { readonly reason: unknown } | null;
  start().then((value) => {
    outcome = { value };
  }, (reason) => {
    outcome = { reason };
  });
  for (;;) {
    runMicrotasks();
    const end = settled();
    if (end !== null) {
      if ("value" in end) return end.value;
      throw end.reason;
    }
    if (nextDueAt() !== null && runDueTimers(monotonicMs())) continue;
    if (!waitForEvents()) throw new Error("the call awaits a promise that nothing can settle any more");
  }
}
