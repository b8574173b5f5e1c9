/**
 * What a benchmark reports: figures with their unit and, where there is one, the budget each is held against.
 *
 * @module
 */

/** One measured figure. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  /** `ms`, `x` for a ratio against the named peer, `MB`, … */
  readonly unit: string;
  /** Largest value that meets the budget. */
  readonly atMost?: number;
}

/** One benchmark's figures. */
export interface BenchResult {
  readonly name: string;
  readonly figures: readonly Figure[];
}

/** Median of some samples. */
export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** One line per figure, budgets met or missed at its end. */
export function formatResult({ name, figures }: BenchResult): string {
  const lines = figures.map(({ what, value, unit, atMost }) => {
    const shown = `${value.toFixed(value < 10 ? 2 : 1)} ${unit}`;
    const verdict = atMost === undefined ? "" : `  budget ${atMost} ${unit}: ${value <= atMost ? "met" : "MISSED"}`;
    return `  ${what.padEnd(62)} ${shown.padStart(12)}${verdict}`;
  });
  return [name, ...lines].join("\n");
}
