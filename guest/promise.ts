/**
 * `Promise` on the component's own event loop. The engine never runs the reactions of its own promises in a synchronous
 * component, so the build lowers `async` functions onto this constructor and the global is replaced by it.
 *
 * Follows ECMAScript 2025 "Promise Objects" step by step, so that reactions run in the order every other engine gives.
 * Left out: `Symbol.species`.
 *
 * @module
 */
import { queueMicrotask, reportUncaught } from "./event_loop.ts";

type Resolve<T> = (value: T | PromiseLike<T>) => void;
type Reject = (reason?: unknown) => void;

interface Capability<T> {
  readonly promise: GuestPromise<T>;
  readonly resolve: Resolve<T>;
  readonly reject: Reject;
}

interface Reaction {
  readonly capability: Capability<unknown> | null;
  readonly onFulfilled: ((value: unknown) => unknown) | null;
  readonly onRejected: ((reason: unknown) => unknown) | null;
}

type State =
  | { kind: "pending"; reactions: Reaction[] }
  | { kind: "fulfilled"; value: unknown }
  | { kind: "rejected"; value: unknown };

type Constructor = new <T>(executor: (resolve: Resolve<T>, reject: Reject) => void) => GuestPromise<T>;

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function runReaction(reaction: Reaction, fulfilled: boolean, value: unknown): void {
  const handler = fulfilled ? reaction.onFulfilled : reaction.onRejected;
  const capability = reaction.capability;
  let result: unknown;
  try {
    if (handler === null) {
      if (!fulfilled) throw value;
      result = value;
    } else {
      result = handler(value);
    }
  } catch (error) {
    capability?.reject(error);
    return;
  }
  capability?.resolve(result);
}

function capabilityOf<T>(constructor: unknown): Capability<T> {
  let resolve: Resolve<T> | undefined;
  let reject: Reject | undefined;
  const promise = new (constructor as Constructor)<T>((onResolve, onReject) => {
    if (resolve !== undefined || reject !== undefined) throw new TypeError("a promise executor was called twice");
    resolve = onResolve;
    reject = onReject;
  });
  if (typeof resolve !== "function" || typeof reject !== "function") {
    throw new TypeError("a promise constructor did not hand out its functions");
  }
  return { promise, resolve, reject };
}

/** The promise constructor of components. */
export class GuestPromise<T> {
  #state: State = { kind: "pending", reactions: [] };
  #handled = false;

  constructor(executor: (resolve: Resolve<T>, reject: Reject) => void) {
    if (typeof executor !== "function") throw new TypeError("the promise executor is not a function");
    const { resolve, reject } = this.#resolvingFunctions();
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  #resolvingFunctions(): { resolve: Resolve<T>; reject: Reject } {
    let done = false;
    const resolve: Resolve<T> = (resolution) => {
      if (done) return;
      done = true;
      if ((resolution as unknown) === this) return this.#reject(new TypeError("a promise cannot resolve to itself"));
      if (!isObject(resolution)) return this.#fulfill(resolution);
      let then: unknown;
      try {
        then = (resolution as { then?: unknown }).then;
      } catch (error) {
        return this.#reject(error);
      }
      if (typeof then !== "function") return this.#fulfill(resolution);
      const callThen = then;
      queueMicrotask(() => {
        const functions = this.#resolvingFunctions();
        try {
          callThen.call(resolution, functions.resolve, functions.reject);
        } catch (error) {
          functions.reject(error);
        }
      });
    };
    const reject: Reject = (reason) => {
      if (done) return;
      done = true;
      this.#reject(reason);
    };
    return { resolve, reject };
  }

  #fulfill(value: unknown): void {
    const reactions = this.#state.kind === "pending" ? this.#state.reactions : [];
    this.#state = { kind: "fulfilled", value };
    for (const reaction of reactions) queueMicrotask(() => runReaction(reaction, true, value));
  }

  #reject(reason: unknown): void {
    const reactions = this.#state.kind === "pending" ? this.#state.reactions : [];
    this.#state = { kind: "rejected", value: reason };
    for (const reaction of reactions) queueMicrotask(() => runReaction(reaction, false, reason));
    if (!this.#handled) {
      // Two turns, so that `const p = f(); await other; await p` in the same job is not reported.
      queueMicrotask(() =>
        queueMicrotask(() => {
          if (!this.#handled) reportUncaught(reason);
        })
      );
    }
  }

  then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): GuestPromise<A | B> {
    const capability = capabilityOf<A | B>(speciesOf(this));
    const reaction: Reaction = {
      capability: capability as Capability<unknown>,
      onFulfilled: typeof onFulfilled === "function" ? onFulfilled as (value: unknown) => unknown : null,
      onRejected: typeof onRejected === "function" ? onRejected : null,
    };
    const state = this.#state;
    if (state.kind === "pending") state.reactions.push(reaction);
    else queueMicrotask(() => runReaction(reaction, state.kind === "fulfilled", state.value));
    this.#handled = true;
    return capability.promise;
  }

  catch<B = never>(onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null): GuestPromise<T | B> {
    return this.then(undefined, onRejected);
  }

  finally(onFinally?: (() => void) | null): GuestPromise<T> {
    if (typeof onFinally !== "function") return this.then(onFinally as undefined, onFinally as undefined);
    const constructor = speciesOf(this);
    return this.then(
      (value) => resolveWith<unknown>(constructor, onFinally()).then(() => value),
      (reason) =>
        resolveWith<unknown>(constructor, onFinally()).then(() => {
          throw reason;
        }),
    );
  }

  static resolve<T>(value?: T | PromiseLike<T>): GuestPromise<Awaited<T>> {
    return resolveWith(this, value) as GuestPromise<Awaited<T>>;
  }

  static reject<T = never>(reason?: unknown): GuestPromise<T> {
    const capability = capabilityOf<T>(this);
    capability.reject(reason);
    return capability.promise;
  }

  static withResolvers<T>(): Capability<T> {
    return capabilityOf<T>(this);
  }

  static try<T, A extends unknown[]>(callback: (...args: A) => T | PromiseLike<T>, ...args: A): GuestPromise<T> {
    const capability = capabilityOf<T>(this);
    try {
      capability.resolve(callback(...args));
    } catch (error) {
      capability.reject(error);
    }
    return capability.promise;
  }

  static all<T>(values: Iterable<T | PromiseLike<T>>): GuestPromise<Awaited<T>[]> {
    return combine<T, Awaited<T>[]>(this, values, (item, index, into) => {
      item.then((value) => into.put(index, value as Awaited<T>), into.reject);
    }, (results, finish) => finish.resolve(results as Awaited<T>[]));
  }

  static allSettled<T>(values: Iterable<T | PromiseLike<T>>): GuestPromise<PromiseSettledResult<Awaited<T>>[]> {
    return combine<T, PromiseSettledResult<Awaited<T>>[]>(this, values, (item, index, into) => {
      item.then(
        (value) => into.put(index, { status: "fulfilled", value }),
        (reason) => into.put(index, { status: "rejected", reason }),
      );
    }, (results, finish) => finish.resolve(results as PromiseSettledResult<Awaited<T>>[]));
  }

  static any<T>(values: Iterable<T | PromiseLike<T>>): GuestPromise<Awaited<T>> {
    return combine<T, Awaited<T>>(this, values, (item, index, into) => {
      item.then(into.resolve as (value: T) => void, (reason) => into.put(index, reason));
    }, (reasons, finish) => finish.reject(new AggregateError(reasons, "all promises were rejected")));
  }

  static race<T>(values: Iterable<T | PromiseLike<T>>): GuestPromise<Awaited<T>> {
    const capability = capabilityOf<Awaited<T>>(this);
    try {
      const resolve = resolverOf(this);
      for (const value of values) {
        (resolve(value) as PromiseLike<Awaited<T>>).then(capability.resolve, capability.reject);
      }
    } catch (error) {
      capability.reject(error);
    }
    return capability.promise;
  }

  get [Symbol.toStringTag](): string {
    return "Promise";
  }
}

function speciesOf(promise: object): unknown {
  const constructor: unknown = promise.constructor;
  return constructor === undefined ? GuestPromise : constructor;
}

function resolveWith<T>(constructor: unknown, value: T | PromiseLike<T> | undefined): GuestPromise<T> {
  if (value instanceof GuestPromise && value.constructor === constructor) return value as GuestPromise<T>;
  const capability = capabilityOf<T>(constructor);
  capability.resolve(value as T);
  return capability.promise;
}

function resolverOf(constructor: unknown): (value: unknown) => unknown {
  const resolve = (constructor as { resolve?: unknown }).resolve;
  if (typeof resolve !== "function") throw new TypeError("the promise constructor has no resolve function");
  return (value) => resolve.call(constructor, value);
}

interface Collector<R> {
  put(index: number, value: unknown): void;
  readonly resolve: Resolve<R>;
  readonly reject: Reject;
}

function combine<T, R>(
  constructor: unknown,
  values: Iterable<T | PromiseLike<T>>,
  take: (item: PromiseLike<T>, index: number, into: Collector<R>) => void,
  finish: (results: unknown[], capability: Capability<R>) => void,
): GuestPromise<R> {
  const capability = capabilityOf<R>(constructor);
  try {
    const resolve = resolverOf(constructor);
    const results: unknown[] = [];
    const done = new Set<number>();
    // One more than the items, taken back once all are started: a thenable may answer at once.
    let open = 1;
    const close = () => {
      if (--open === 0) finish(results, capability);
    };
    const collector: Collector<R> = {
      put(index, value) {
        if (done.has(index)) return;
        done.add(index);
        results[index] = value;
        close();
      },
      resolve: capability.resolve,
      reject: capability.reject,
    };
    let index = 0;
    for (const value of values) {
      open++;
      results.push(undefined);
      take(resolve(value) as PromiseLike<T>, index++, collector);
    }
    close();
  } catch (error) {
    capability.reject(error);
  }
  return capability.promise;
}
