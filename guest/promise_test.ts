import assert from "node:assert/strict";
import fc from "fast-check";
import { onUncaught, runToCompletion } from "./event_loop.ts";
import { GuestPromise } from "./promise.ts";
import { installTestHost, TestClock } from "./testing_host.ts";

/** The constructor under test, or the engine's own to compare with. */
type Kind = PromiseConstructor;
const OURS = GuestPromise as unknown as Kind;

/** What a scenario logs, with reactions of our promises run by our loop. */
function logOfOurs(scenario: (P: Kind, log: (entry: unknown) => void) => void): unknown[] {
  installTestHost(new TestClock());
  const log: unknown[] = [];
  runToCompletion(() => {
    scenario(OURS, (entry) => log.push(entry));
    // Long enough for every chain of the scenarios.
    let end = GuestPromise.resolve<unknown>(null);
    for (let i = 0; i < 80; i++) end = end.then(() => null) as typeof end;
    return end;
  });
  return log;
}

async function logOfEngine(scenario: (P: Kind, log: (entry: unknown) => void) => void): Promise<unknown[]> {
  const log: unknown[] = [];
  scenario(Promise, (entry) => log.push(entry));
  await new Promise((resolve) => setTimeout(resolve, 0));
  return log;
}

const shown = (value: unknown): string => {
  if (value instanceof AggregateError) return `AggregateError ${value.errors.map(shown).join()}`;
  return value instanceof Error ? value.constructor.name : JSON.stringify(value) ?? String(value);
};

const SCENARIOS: Record<string, (P: Kind, log: (entry: unknown) => void) => void> = {
  "the order of reactions"(P, log) {
    const first = P.resolve(1);
    first.then(() => log("a1")).then(() => log("a2")).then(() => log("a3"));
    first.then(() => log("b1")).then(() => log("b2"));
    P.reject(2).catch(() => log("c1")).then(() => log("c2"));
    log("sync");
  },
  "a promise returned from a reaction takes two more turns"(P, log) {
    P.resolve().then(() => P.resolve("inner")).then((value) => log(value));
    let chain = P.resolve();
    for (let i = 0; i < 6; i++) chain = chain.then(() => log(i));
  },
  "resolving with a promise"(P, log) {
    new P((resolve) => resolve(P.resolve("wrapped"))).then(log);
    P.resolve(P.resolve("same")).then(log);
    let chain = P.resolve();
    for (let i = 0; i < 5; i++) chain = chain.then(() => log(i));
  },
  "thenables"(P, log) {
    P.resolve({ then: (resolve: (value: string) => void) => resolve("thenable") } as PromiseLike<string>).then(log);
    P.resolve({
      then(resolve: (value: string) => void, reject: (reason: string) => void) {
        resolve("first");
        reject("second");
        throw new Error("third");
      },
    } as PromiseLike<string>).then(log, log);
    P.resolve({
      get then(): never {
        throw new RangeError("getter");
      },
    } as never).catch((error) => log(shown(error)));
    P.resolve({ then: 5 } as never).then((value) => log(shown(value)));
  },
  "throwing executors and double settling"(P, log) {
    new P(() => {
      throw new TypeError("no");
    }).catch((error) => log(shown(error)));
    new P((resolve) => {
      resolve("kept");
      throw new Error("dropped");
    }).then(log);
    new P((resolve, reject) => {
      reject("kept too");
      resolve("dropped");
    }).catch(log);
  },
  "itself"(P, log) {
    let resolve: (value: unknown) => void = () => {};
    const promise = new P((given) => void (resolve = given));
    resolve(promise);
    promise.catch((error) => log(shown(error)));
  },
  "handlers that are no functions"(P, log) {
    P.resolve(1).then(null, undefined).then(5 as never).then(log);
    P.reject(2).then(null).catch(null).catch(log);
  },
  "finally"(P, log) {
    P.resolve("kept").finally(() => "ignored").then(log);
    P.reject("reason").finally(() => log("cleaned")).catch(log);
    P.resolve(1).finally(() => P.reject("later")).catch(log);
    P.resolve(1).finally(() => {
      throw new Error("thrown");
    }).catch((error) => log(shown(error)));
    P.resolve(2).finally(undefined).then(log);
  },
  "all"(P, log) {
    P.all([P.resolve(1), 2, { then: (resolve: (value: number) => void) => resolve(3) }]).then((v) => log(shown(v)));
    P.all(new Set(["x"])).then((v) => log(shown(v)));
    P.all([]).then((v) => log(shown(v)));
    P.all([P.resolve(1), P.reject("bad"), P.reject("worse")]).catch(log);
    P.all(5 as never).catch((error) => log(shown(error)));
  },
  "allSettled, any, race"(P, log) {
    P.allSettled([P.resolve(1), P.reject("no")]).then((v) => log(shown(v)));
    P.any([P.reject(1), P.resolve(2)]).then(log);
    P.any([P.reject(1), P.reject(2)]).catch((error) => log(shown(error)));
    P.any([]).catch((error) => log(shown(error)));
    P.race([new P(() => {}), P.resolve("fast"), P.reject("late")]).then(log);
    P.race([P.reject("first"), P.resolve("second")]).catch(log);
  },
  "withResolvers and try"(P, log) {
    const { promise, resolve } = P.withResolvers<string>();
    promise.then(log);
    resolve("outside");
    P.try((a: number, b: number) => a + b, 1, 2).then(log);
    P.try(() => {
      throw new RangeError("caught");
    }).catch((error) => log(shown(error)));
  },
  "subclasses"(P, log) {
    class Sub<T> extends P<T> {}
    const sub = Sub.resolve(1).then(() => 2);
    log(sub instanceof Sub);
    log(Sub.all([1]) instanceof Sub);
    sub.finally(() => {}).then(log);
    log(Object.prototype.toString.call(sub));
  },
};

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  Deno.test(`promises do as the engine's: ${name}`, async () => {
    const expected = await logOfEngine(scenario);
    assert.ok(expected.length > 0);
    assert.deepEqual(logOfOurs(scenario), expected);
  });
}

type Step = "then" | "catch" | "finally" | "nested" | "throw" | "thenable";

Deno.test("promises do as the engine's: chains of any steps, interleaved", async () => {
  const steps = fc.array(fc.constantFrom<Step>("then", "catch", "finally", "nested", "throw", "thenable"), {
    maxLength: 6,
  });
  const chains = fc.array(fc.tuple(fc.boolean(), steps), { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(chains, async (given) => {
      const scenario = (P: Kind, log: (entry: unknown) => void) => {
        given.forEach(([rejected, list], chain) => {
          let promise: Promise<unknown> = rejected ? P.reject(`r${chain}`) : P.resolve(`v${chain}`);
          list.forEach((step, index) => {
            const mark = `${chain}.${index} ${step}`;
            const enter = (value: unknown) => {
              log(`${mark} ${value}`);
              if (step === "throw") throw mark;
              if (step === "nested") return P.resolve(mark).then((inner) => inner);
              if (step === "thenable") return { then: (resolve: (value: unknown) => void) => resolve(mark) };
              return mark;
            };
            if (step === "catch") promise = promise.catch(enter);
            else if (step === "finally") promise = promise.finally(() => log(mark));
            else promise = promise.then(enter);
          });
          promise.then((value) => log(`${chain} = ${value}`), (reason) => log(`${chain} ! ${reason}`));
        });
      };
      assert.deepEqual(logOfOurs(scenario), await logOfEngine(scenario));
    }),
    { numRuns: 150 },
  );
});

Deno.test("a rejection is reported only when nothing handles it", () => {
  const reported: unknown[] = [];
  onUncaught((reason) => reported.push(reason));
  try {
    logOfOurs((P) => {
      P.reject("unhandled");
      P.reject("handled").catch(() => {});
      const later = P.reject("handled in the next turn");
      P.resolve().then(() => later.catch(() => {}));
      P.reject("passed on").then(() => {});
    });
  } finally {
    onUncaught(() => {});
  }
  assert.deepEqual(reported, ["unhandled", "passed on"]);
});

Deno.test("a promise needs an executor and new", () => {
  assert.throws(() => new GuestPromise(undefined as never), TypeError);
  assert.throws(() => (GuestPromise as unknown as () => void)(), TypeError);
});
