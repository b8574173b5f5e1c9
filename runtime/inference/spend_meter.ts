/**
 * The spend meter of one session: asks the state machine and the machine's ledger before every driver call, and charges
 * it afterwards (spec session 9.8).
 *
 * @module
 */
import type { SpendAdmission, SpendGate, SpendRefusal } from "../agent/turn_loop.ts";
import { admitSpend, openingSpend, settleSpend, spendOpen, spendRefusalText } from "./spend.ts";
import type { SpendLedger } from "./spend_ledger.ts";

/** A session's meter. */
export interface SpendMeter extends SpendGate {
  /** Whether a call is in flight; metered gateways send only then. */
  readonly open: boolean;
  /** Input and output of all settled calls. */
  readonly used: number;
}

export interface SpendMeterOptions {
  readonly sessionId: string;
  /** `inference.max_session_tokens`. */
  readonly sessionCeiling: number | null;
  /** `spend.machine_tokens_per_day` with its ledger; `null`: no ceiling, and nothing is written. */
  readonly machine: { readonly ceiling: number; readonly ledger: SpendLedger } | null;
}

/** A meter that has counted nothing. */
export function createSpendMeter(options: SpendMeterOptions): SpendMeter {
  const { machine } = options;
  let state = openingSpend({ session: options.sessionCeiling, machine: machine?.ceiling ?? null });

  return {
    limited: options.sessionCeiling !== null || machine !== null,
    async admit(inputTokens, mostOutputTokens): Promise<SpendAdmission | SpendRefusal> {
      const today = machine === null ? 0 : await machine.ledger.today();
      const [next, decision] = admitSpend(state, { input: inputTokens, mostOutput: mostOutputTokens }, today);
      state = next;
      if (!decision.admitted) return { ...decision, text: spendRefusalText(decision) };
      const { id } = decision;
      let charged = false;
      return {
        admitted: true,
        async settle(input, output) {
          if (charged) return;
          charged = true;
          try {
            // The ledger first: a call asked about meanwhile may count this one twice, never not at all.
            await machine?.ledger.append(options.sessionId, input, output);
          } finally {
            state = settleSpend(state, id, input, output);
          }
        },
      };
    },
    get open() {
      return spendOpen(state);
    },
    get used() {
      return state.used;
    },
  };
}
