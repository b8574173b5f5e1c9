/**
 * One hook of a session: its contract and its one instance (spec components 3.2, 10.1, 10.2).
 *
 * @module
 */
import type { HookBinding, HookContract } from "../../artifact/manifest/artifact_manifest.ts";
import { MurError } from "../../base/errors.ts";
import {
  type CallContext,
  ComponentFailure,
  type ComponentRuntime,
  type ComponentSpec,
  type SessionInstance,
} from "../component/component_runtime.ts";
import { functionOf, type HookEvents, REQUIRED_EVENTS } from "./hook_event.ts";
import { type HookAnswer, readHookAnswer } from "./hook_output.ts";

/** How a call of a hook ended. */
export type HookCall =
  | HookAnswer
  /** The hook has no function for the event. */
  | { readonly kind: "absent" }
  /** Its instance is gone; `first`: since this call. */
  | { readonly kind: "lost"; readonly text: string; readonly first: boolean };

/** A hook as it was staged. */
export interface StagedHook {
  readonly contract: HookContract;
  readonly onOverflow: "drop" | "block";
  readonly spec: ComponentSpec;
}

/** Whether a hook is told of an event (spec manifest 5.3). */
export function isBoundTo({ binding }: HookContract, event: HookBinding): boolean {
  return binding === null ? event !== "on-stage" : binding === event;
}

/** One hook with its instance. */
export class SessionHook {
  readonly staged: StagedHook;
  readonly #instance: SessionInstance;
  readonly #context: CallContext;
  /** Calls wait for each other: an instance serves one at a time. */
  #last: Promise<unknown> = Promise.resolve();
  /** Why the instance is gone, once that was told. */
  #lost: string | null = null;

  private constructor(staged: StagedHook, instance: SessionInstance, context: CallContext) {
    this.staged = staged;
    this.#instance = instance;
    this.#context = context;
  }

  /**
   * Makes the instance.
   *
   * @param events Functions it must have.
   * @throws {MurError} `E-RUN-001` when it cannot be made or misses a function, `E-RUN-002` for an import it is not given.
   */
  static async open(
    components: Pick<ComponentRuntime, "openInstance">,
    staged: StagedHook,
    context: CallContext,
    events: readonly HookBinding[] = REQUIRED_EVENTS,
  ): Promise<SessionHook> {
    const { spec } = staged;
    let instance: SessionInstance;
    try {
      instance = await components.openInstance(spec, context);
    } catch (cause) {
      if (!(cause instanceof ComponentFailure)) throw cause;
      throw new MurError(cause.kind === "missing-import" ? "E-RUN-002" : "E-RUN-001", cause.message, { cause });
    }
    const missing = events.find((event) => !instance.functions.has(functionOf(event)));
    if (missing === undefined) return new SessionHook(staged, instance, context);
    instance.close();
    throw new MurError(
      "E-RUN-001",
      `hook '${spec.name}' does not export 'murmur:hook/lifecycle@0.9.0#${missing}'`,
      { hint: `rebuild hook '${spec.name}' against the served interfaces` },
    );
  }

  get name(): string {
    return this.staged.spec.name;
  }

  get contract(): HookContract {
    return this.staged.contract;
  }

  /** Calls the function of an event. Never fails: how it ended is its value. */
  call<E extends HookBinding>(event: E, payload: HookEvents[E]): Promise<HookCall> {
    const call = this.#last.then(() => this.#callNow(event, payload));
    this.#last = call;
    return call;
  }

  close(): void {
    this.#instance.close();
  }

  async #callNow<E extends HookBinding>(event: E, payload: HookEvents[E]): Promise<HookCall> {
    if (this.#lost !== null) return { kind: "lost", text: this.#lost, first: false };
    if (this.#instance.lost) return this.#lose(`the instance of hook '${this.name}' is gone: its host process ended`);
    if (!this.#instance.functions.has(functionOf(event))) return { kind: "absent" };
    let answer: unknown;
    try {
      answer = await this.#instance.call(functionOf(event), payload, this.#context);
    } catch (cause) {
      if (!(cause instanceof ComponentFailure)) throw cause;
      return this.#lose(cause.message);
    }
    const read = readHookAnswer(answer);
    if (read !== null) return read;
    this.#instance.close();
    return this.#lose(`hook '${this.name}' ${event} gave an answer that cannot be read`);
  }

  #lose(text: string): HookCall {
    this.#lost = text;
    return { kind: "lost", text, first: true };
  }
}
