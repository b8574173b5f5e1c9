/**
 * Numbers, durations and short ids as the trace commands print them (spec trace 12.2).
 *
 * @module
 */

/** With `,` between thousands. */
export function thousands(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `812ms`, from a second on `1.2s`. */
export function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)}ms` : `${(ms / 1_000).toFixed(1)}s`;
}

/** Mean as a whole number, `—` of nothing. */
export function average(total: number, count: number): string {
  return count === 0 ? "—" : (total / count).toFixed(0);
}

/** First 12 characters of an id or hash, and `…` when that cuts it. */
export function short(id: string): string {
  return id.length <= 12 ? id : `${id.slice(0, 12)}…`;
}

/** The first `length` characters, and `…` when that cuts. */
export function cut(text: string, length: number): string {
  const characters = [...text];
  return characters.length <= length ? text : `${characters.slice(0, length).join("")}…`;
}

/** `✓` for a call that went well. */
export function mark(status: unknown): string {
  return status === "ok" || status === "success" ? "✓" : "✗";
}

/** Exit codes counted: `2 ok, 1 failed (exit 3)`. */
export function exitCodes(codes: readonly number[]): string {
  const byCode = Map.groupBy(codes, (code) => code);
  const failed = [...byCode].filter(([code]) => code !== 0).sort(([a], [b]) => a - b)
    .map(([code, same]) => `${same.length} failed (exit ${code})`);
  return [`${byCode.get(0)?.length ?? 0} ok`, ...failed].join(", ");
}

/** A label padded so that its value starts in column 13. */
export function row(label: string, value: string): string {
  return `${label.length < 12 ? label.padEnd(12) : `${label} `}${value}`;
}

/** The line over a section, 49 wide. */
export function sectionRule(title: string): string {
  return `── ${title} `.padEnd(49, "─");
}
