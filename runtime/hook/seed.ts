/**
 * How much of a proposed seed is taken (spec session 12, components 10.8). Pure.
 *
 * @module
 */

/** What a seed is judged by. */
export interface SeedBudget {
  /** `context.max_tokens`; `null` without one. */
  readonly window: number | null;
  /** `context.seed_budget`. */
  readonly share: number;
  /** `context.seed_overflow_margin`. */
  readonly margin: number;
}

/** Tokens a seed may have; 0 without a window. */
export function seedCeiling({ window, share }: SeedBudget): number {
  return window === null ? 0 : Math.floor(share * window);
}

/** What becomes of a seed. `from` is the index of the first message that is kept. */
export type SeedDecision =
  | { readonly kind: "rejected"; readonly reason: "no_budget" | "message_over_budget" | "overflow_over_limit" }
  | { readonly kind: "seeded" }
  | { readonly kind: "trimmed"; readonly from: number }
  /** The messages before `from` are to be summarised; without a summary they are dropped. */
  | { readonly kind: "overflows"; readonly from: number };

/** Seeds beyond the ceiling by more than so many ceilings are rejected. */
const MOST_OVERFLOW = 3;

/** Index of the first message such that it and all later ones have at most `ceiling` tokens. */
export function firstFitting(tokens: readonly number[], ceiling: number): number {
  let total = tokens.reduce((sum, count) => sum + count, 0);
  let from = 0;
  while (total > ceiling) total -= tokens[from++]!;
  return from;
}

/** @param tokens Of each message, oldest first. */
export function judgeSeed(tokens: readonly number[], budget: SeedBudget): SeedDecision {
  if (budget.window === null) return { kind: "rejected", reason: "no_budget" };
  const ceiling = seedCeiling(budget);
  if (tokens.some((count) => count > ceiling)) return { kind: "rejected", reason: "message_over_budget" };
  const over = tokens.reduce((sum, count) => sum + count, 0) - ceiling;
  if (over > MOST_OVERFLOW * ceiling) return { kind: "rejected", reason: "overflow_over_limit" };
  if (over <= 0) return { kind: "seeded" };
  const from = firstFitting(tokens, ceiling);
  return over <= budget.margin * ceiling ? { kind: "trimmed", from } : { kind: "overflows", from };
}
