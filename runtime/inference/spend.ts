/**
 * Spend ceilings as a state machine (spec session 9.8): before a driver call its input and greatest possible output are
 * reserved, and it is sent only while nothing can cross a ceiling. Pure; {@linkcode createSpendMeter} of
 * `spend_meter.ts` feeds it.
 *
 * @module
 */

/** Ceilings in tokens; `null`: none. */
export interface SpendCeilings {
  /** `inference.max_session_tokens`. */
  readonly session: number | null;
  /** `spend.machine_tokens_per_day`. */
  readonly machine: number | null;
}

/** What was spent and what may still be. Immutable. */
export interface SpendState {
  readonly ceilings: SpendCeilings;
  /** Input and output of the settled calls of this session. */
  readonly used: number;
  /** Reservations of the calls in flight, by their id. */
  readonly reserved: ReadonlyMap<number, number>;
  readonly nextId: number;
  /** The session ceiling refused a call: every later one is refused too. */
  readonly latched: boolean;
}

/** Why a call is not sent (spec trace 6, `spend_ceiling_reached`). */
export interface SpendRefusalNumbers {
  readonly limit: "session" | "machine";
  readonly ceiling: number;
  /** Everything earlier, calls in flight included. */
  readonly used: number;
  /** Input and greatest output of the refused call. */
  readonly requested: number;
}

export type SpendDecision =
  | { readonly admitted: true; readonly id: number }
  | ({ readonly admitted: false } & SpendRefusalNumbers);

/** A session that has spent nothing. */
export function openingSpend(ceilings: SpendCeilings): SpendState {
  return { ceilings, used: 0, reserved: new Map(), nextId: 1, latched: false };
}

function inFlight(state: SpendState): number {
  let sum = 0;
  for (const tokens of state.reserved.values()) sum += tokens;
  return sum;
}

/**
 * Judges one call. The session's ceiling is asked first; only its refusal latches.
 *
 * @param request Input and greatest output in tokens.
 * @param machineDay What the ledger of the day holds, this session's settled calls included; ignored without a machine
 * ceiling.
 */
export function admitSpend(
  state: SpendState,
  request: { readonly input: number; readonly mostOutput: number },
  machineDay: number,
): readonly [SpendState, SpendDecision] {
  const { ceilings } = state;
  const requested = request.input + request.mostOutput;
  const flying = inFlight(state);
  const used = state.used + flying;
  if (ceilings.session !== null && (state.latched || used + requested > ceilings.session)) {
    return [
      { ...state, latched: true },
      { admitted: false, limit: "session", ceiling: ceilings.session, used, requested },
    ];
  }
  if (ceilings.machine !== null && machineDay + flying + requested > ceilings.machine) {
    return [
      state,
      { admitted: false, limit: "machine", ceiling: ceilings.machine, used: machineDay + flying, requested },
    ];
  }
  const id = state.nextId;
  const reserved = new Map(state.reserved).set(id, requested);
  return [{ ...state, reserved, nextId: id + 1 }, { admitted: true, id }];
}

/** Replaces a reservation by what the call cost. One that is not open changes nothing: a call is charged once. */
export function settleSpend(state: SpendState, id: number, input: number, output: number): SpendState {
  if (!state.reserved.has(id)) return state;
  const reserved = new Map(state.reserved);
  reserved.delete(id);
  return { ...state, reserved, used: state.used + input + output };
}

/** Whether any call is in flight: a metered gateway sends only then (spec components 5.4). */
export function spendOpen(state: SpendState): boolean {
  return state.reserved.size > 0;
}

/** What the result file and the final status say (spec session 9.8). */
export function spendRefusalText(refusal: SpendRefusalNumbers): string {
  const which = refusal.limit === "session"
    ? `inference.max_session_tokens is ${refusal.ceiling}`
    : `spend.machine_tokens_per_day is ${refusal.ceiling}`;
  const span = refusal.limit === "session" ? "this session has used" : "this machine has used today";
  return `stopped: spend ceiling reached: ${which}, ${span} ${refusal.used}, and the next call may need ` +
    `${refusal.requested}; retrying will not get past it`;
}
