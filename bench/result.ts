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
  /** Smallest value that meets the budget. */
  readonly atLeast?: number;
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

/** Whether a figure misses a budget of its. */
export function missesBudget({ value, atMost = Infinity, atLeast = -Infinity }: Figure): boolean {
  return value > atMost || value < atLeast;
}

/** One line per figure, budgets met or missed at its end. */
export function formatResult({ name, figures }: BenchResult): string {
  const lines = figures.map((figure) => {
    const { what, value, unit, atMost, atLeast } = figure;
    const shown = `${value.toFixed(value < 10 ? 2 : 1)} ${unit}`;
    const budget = atMost ?? atLeast;
    const verdict = budget === undefined
      ? ""
      : `  budget ${atMost === undefined ? "at least " : ""}${budget} ${unit}: ${
        missesBudget(figure) ? "MISSED" : "met"
      }`;
    return `  ${what.padEnd(62)} ${shown.padStart(12)}${verdict}`;
  });
  return [name, ...lines].join("\n");
}
