/**
 * Tells hooks of events and takes their answers: the one place that knows which arm an event honours, what a fault is, and
 * that a policy hook without a clean `none` refuses (spec components 10.4 to 10.6).
 *
 * @module
 */
import type { HookBinding } from "../../artifact/manifest/artifact_manifest.ts";
import type { HookEvents } from "./hook_event.ts";
import type { HookFaults } from "./hook_faults.ts";
import { honouredArm, type HookArm, type HookOutput } from "./hook_output.ts";
import { type HookJob, HookQueue, MAX_QUEUED } from "./hook_queue.ts";
import { type HookCall, isBoundTo, type SessionHook } from "./session_hook.ts";

/** What the blocking hooks made of an event. */
export interface Dispatched {
  /** Answers in the honoured arm, in manifest order. */
  readonly answers: readonly { readonly hook: string; readonly output: HookOutput }[];
  /** Hooks that gave no answer. */
  readonly errors: readonly { readonly hook: string; readonly text: string }[];
}

/** A refused call. */
export interface Denial {
  readonly hook: string;
  readonly reason: string;
}

interface AsyncHook {
  readonly hook: SessionHook;
  readonly queue: HookQueue;
  /** Discarded events. */
  dropped: number;
}

/** Events at which a call waits for a decision. */
export type DecisionEvent = "on-tool-call" | "on-shell";

/** Dispatches the events of one session. */
export class HookDispatcher {
  readonly #hooks: readonly SessionHook[];
  readonly #blocking: readonly SessionHook[];
  readonly #async: readonly AsyncHook[];
  readonly #faults: HookFaults;

  /** @param hooks In manifest order. */
  constructor(hooks: readonly SessionHook[], faults: HookFaults) {
    this.#hooks = hooks;
    this.#faults = faults;
    this.#blocking = hooks.filter(({ contract }) => contract.executionMode === "blocking");
    this.#async = hooks.filter(({ contract }) => contract.executionMode === "async").map((hook) => {
      const entry: AsyncHook = {
        hook,
        queue: new HookQueue({
          onOverflow: hook.staged.onOverflow,
          run: (job) => this.#tell(hook, job),
          dropped: (job) => {
            // Whether the first or the thousandth is lost: the trace tells it once.
            if (entry.dropped++ === 0) {
              const text = `its queue of ${MAX_QUEUED} events is full, further ones are discarded`;
              faults.fault(hook.name, job.event, "queue-overflow", text);
            }
          },
        }),
        dropped: 0,
      };
      return entry;
    });
  }

  /** Whether any hook is told of an event. */
  has(event: HookBinding): boolean {
    return this.#hooks.some(({ contract }) => isBoundTo(contract, event));
  }

  /** Whether a blocking hook is told of an event. */
  hasBlocking(event: HookBinding): boolean {
    return this.#blocking.some(({ contract }) => isBoundTo(contract, event));
  }

  /** Tells every hook bound to an event. */
  async dispatch<E extends HookBinding>(event: E, payload: HookEvents[E]): Promise<Dispatched> {
    const answers: { hook: string; output: HookOutput }[] = [];
    const errors: { hook: string; text: string }[] = [];
    const honoured = honouredArm(event);
    for (const hook of this.#blocking) {
      if (!isBoundTo(hook.contract, event)) continue;
      const call = await hook.call(event, payload);
      const text = this.#failure(hook, event, call);
      if (text !== null) errors.push({ hook: hook.name, text });
      const output = this.#usable(hook, event, call, honoured);
      if (output !== null) answers.push({ hook: hook.name, output });
    }
    for (const { hook, queue } of this.#async) {
      if (isBoundTo(hook.contract, event)) await queue.add({ event, payload } as HookJob);
    }
    return { answers, errors };
  }

  /**
   * Asks the policy hooks of an event. Everything but a clean `none` refuses, whatever it is.
   *
   * @returns The first refusal; `null` when the call may be made.
   */
  async decide<E extends DecisionEvent>(event: E, payload: HookEvents[E]): Promise<Denial | null> {
    for (const hook of this.#blocking) {
      const { binding, commitPolicy } = hook.contract;
      if (commitPolicy !== "deny" || binding !== event) continue;
      const call = await hook.call(event, payload);
      if (call.kind === "output" && call.output.tag === "none") continue;
      this.#failure(hook, event, call);
      return { hook: hook.name, reason: refusalReason(call) };
    }
    return null;
  }

  /** A fault of an arm that was looked at outside. */
  discard(hook: string, event: HookBinding, arm: HookArm | "seed-rejected", why: string): void {
    this.#faults.fault(hook, event, arm, why);
  }

  /** Waits until the async hooks were told everything, at most `bound` milliseconds. */
  async drain(bound: number): Promise<void> {
    const givenUp = new AbortController();
    const timer = setTimeout(() => givenUp.abort(), bound);
    await Promise.all(this.#async.map(async (entry) => {
      const { hook, queue } = entry;
      await queue.drained(givenUp.signal);
      if (queue.length > 0) {
        this.#faults.fault(hook.name, "drain", "timeout", `not done ${bound} ms after the session's end`);
      }
      if (entry.dropped > 0) this.#faults.log(hook.name, `hook '${hook.name}': ${entry.dropped} events were discarded`);
    }));
    clearTimeout(timer);
  }

  close(): void {
    for (const hook of this.#hooks) hook.close();
  }

  /** Logs a call without an answer and gives its text; `null` for one with. */
  #failure(hook: SessionHook, event: HookBinding, call: HookCall): string | null {
    if (call.kind === "error") {
      this.#faults.log(hook.name, `hook '${hook.name}' ${event}: error: ${call.text}`);
      return call.text;
    }
    if (call.kind !== "lost") return null;
    if (call.first) this.#faults.fault(hook.name, event, "instance-lost", call.text);
    return call.text;
  }

  #usable(hook: SessionHook, event: HookBinding, call: HookCall, honoured: HookArm | null): HookOutput | null {
    if (call.kind !== "output" || call.output.tag === "none") return null;
    if (call.output.tag === honoured) return call.output;
    this.discard(hook.name, event, call.output.tag, `the answer '${call.output.tag}' is not taken here`);
    return null;
  }

  async #tell(hook: SessionHook, { event, payload }: HookJob): Promise<void> {
    const call = await hook.call(event, payload);
    if (call.kind === "error") this.#faults.fault(hook.name, event, "error", call.text);
    else if (call.kind === "lost") this.#failure(hook, event, call);
    else this.#usable(hook, event, call, null);
  }
}

/** Why a policy hook refuses, in the words of the hook or of what it lacks. */
function refusalReason(call: HookCall): string {
  switch (call.kind) {
    case "output": {
      const { output } = call;
      if (output.tag !== "deny") return `it answered '${output.tag}', which decides nothing`;
      return output.val.trim() === "" ? "it gave no reason" : output.val.trim();
    }
    case "error":
      return `it failed: ${call.text}`;
    case "absent":
      return "it has no function for this decision";
    case "lost":
      return call.text;
  }
}
