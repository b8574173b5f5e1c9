import assert from "node:assert/strict";
import {
  clearTimeout,
  onReady,
  onUncaught,
  queueMicrotask,
  runToCompletion,
  setInterval,
  setTimeout,
} from "./event_loop.ts";
import { GuestPromise } from "./promise.ts";
import { installTestHost, TestClock } from "./testing_host.ts";

function run<T>(work: (resolve: (value: T) => void, clock: TestClock) => void): { value: T; clock: TestClock } {
  const clock = new TestClock();
  installTestHost(clock);
  const value = runToCompletion<T>(() => new GuestPromise<T>((resolve) => work(resolve, clock)));
  return { value, clock };
}

Deno.test("timers fire in the order of their times, then of their making", () => {
  const log: string[] = [];
  const { clock } = run<void>((resolve) => {
    setTimeout(() => log.push("30"), 30);
    setTimeout(() => log.push("10a"), 10);
    setTimeout((...args: unknown[]) => log.push(`10b ${args.join()}`), 10, "x", "y");
    setTimeout(() => log.push("0"), -5);
    setTimeout(() => log.push("too long"), 2 ** 31);
    setTimeout(resolve, 40);
  });
  assert.deepEqual(log, ["0", "too long", "10a", "10b x,y", "30"]);
  assert.equal(clock.milliseconds, 1_040);
  assert.ok(clock.made.every(({ disposed }) => disposed), "a timer's pollable was kept");
});

Deno.test("microtasks run before the next timer, and between timers", () => {
  const log: string[] = [];
  run<void>((resolve) => {
    setTimeout(() => {
      log.push("first");
      queueMicrotask(() => {
        log.push("microtask");
        queueMicrotask(() => log.push("microtask's microtask"));
      });
    }, 0);
    setTimeout(() => log.push("second"), 0);
    setTimeout(resolve, 1);
  });
  assert.deepEqual(log, ["first", "microtask", "microtask's microtask", "second"]);
});

Deno.test("a cleared timer does not fire, not even one that is due in the same round", () => {
  const log: string[] = [];
  run<void>((resolve) => {
    let later = 0;
    setTimeout(() => clearTimeout(later), 5);
    later = setTimeout(() => log.push("never"), 5);
    const other = setTimeout(() => log.push("never either"), 6);
    clearTimeout(other);
    clearTimeout(undefined);
    clearTimeout(99_999);
    setTimeout(() => resolve(), 10);
  });
  assert.deepEqual(log, []);
});

Deno.test("an interval repeats until it is cleared, one of 0 ms does not starve the rest", () => {
  let ticks = 0;
  const { clock } = run<void>((resolve) => {
    const id = setInterval(() => {
      if (++ticks === 4) {
        clearTimeout(id);
        setTimeout(resolve, 50);
      }
    }, 10);
  });
  assert.equal(ticks, 4);
  assert.equal(clock.milliseconds, 1_090);
  let fast = 0;
  run<void>((resolve) => {
    const id = setInterval(() => void fast++, 0);
    setTimeout(() => {
      clearTimeout(id);
      resolve();
    }, 5);
  });
  // At once, then each millisecond.
  assert.equal(fast, 6);
});

Deno.test("a pollable wakes its waiter once; a stopped wait does not wake", () => {
  const log: string[] = [];
  const { clock } = run<void>((resolve, clock) => {
    onReady(clock.pollable(20), () => log.push("at 20"));
    const stop = onReady(clock.pollable(10), () => log.push("stopped"));
    stop();
    onReady(clock.pollable(40), resolve);
    setTimeout(() => log.push("timer at 30"), 30);
  });
  assert.deepEqual(log, ["at 20", "timer at 30"]);
  assert.equal(clock.milliseconds, 1_040);
});

Deno.test("what throws in a callback is reported and stops nothing", () => {
  const reported: unknown[] = [];
  onUncaught((error) => reported.push((error as Error).message));
  try {
    run<void>((resolve) => {
      queueMicrotask(() => {
        throw new Error("from a microtask");
      });
      setTimeout(() => {
        throw new Error("from a timer");
      }, 1);
      setTimeout(resolve, 2);
    });
  } finally {
    onUncaught(() => {});
  }
  assert.deepEqual(reported, ["from a microtask", "from a timer"]);
});

Deno.test("a promise nothing can settle is an error, a rejected one its reason", () => {
  installTestHost(new TestClock());
  assert.throws(() => runToCompletion(() => new GuestPromise<never>(() => {})), /nothing can settle/);
  assert.throws(() => runToCompletion(() => GuestPromise.reject(new RangeError("no"))), RangeError);
  assert.equal(runToCompletion(() => GuestPromise.resolve(7)), 7);
});

Deno.test("callbacks must be functions", () => {
  installTestHost(new TestClock());
  assert.throws(() => queueMicrotask(null as never), TypeError);
  assert.throws(() => setTimeout("code" as never), TypeError);
});
