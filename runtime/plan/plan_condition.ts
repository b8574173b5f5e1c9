/**
 * The `if` of a plan's step: comparisons joined by `&&` and `||`, on text (spec components 12.3). Pure.
 *
 * @module
 */
import { shownValue } from "../../artifact/manifest/shown_value.ts";
import { readReference, type Reference, type ReferenceScope, referenceValue } from "./plan_reference.ts";

const OPERATORS = ["==", "!=", ">", "<"] as const;

type Operand = { readonly literal: string } | { readonly reference: Reference };

/** One comparison of two operands. */
export interface Comparison {
  readonly operator: typeof OPERATORS[number];
  readonly left: Operand;
  readonly right: Operand;
}

/** A condition: true when every comparison of one of its lists is. Without lists it is true. */
export type Condition = readonly (readonly Comparison[])[];

/** A condition, or why it is none; `reference` says that it has the form of one and a reference in it is wrong. */
export type ConditionReading =
  | { readonly condition: Condition }
  | { readonly problem: string; readonly kind: "form" | "reference" };

/** The text is no condition; caught by {@linkcode readCondition}. */
class ConditionProblem extends Error {
  constructor(readonly kind: "form" | "reference", message: string) {
    super(message);
  }
}

/** Reads a condition; a blank one is always true. */
export function readCondition(text: string, declared: ReferenceScope["declared"]): ConditionReading {
  if (text.trim() === "") return { condition: [] };
  try {
    const written = splitOutsideQuotes(text, "||").map((part) =>
      splitOutsideQuotes(part, "&&").map((comparison) => sides(comparison))
    );
    // The form of the whole is judged before its references.
    return {
      condition: written.map((all) =>
        all.map(({ operator, left, right }) => ({
          operator,
          left: operand(left, declared),
          right: operand(right, declared),
        }))
      ),
    };
  } catch (cause) {
    if (!(cause instanceof ConditionProblem)) throw cause;
    return { problem: cause.message, kind: cause.kind };
  }
}

/** Whether a condition holds. Every reference is looked up, also where the rest decides already. */
export function holds(condition: Condition, settled: ReferenceScope["settled"]): boolean {
  const value = (operand: Operand) =>
    "literal" in operand ? operand.literal : referenceValue(operand.reference, settled);
  const results = condition.map((all) =>
    all.map(({ operator, left, right }) => compare(value(left), operator, value(right)))
  );
  return results.length === 0 || results.some((all) => all.every((result) => result));
}

function compare(left: string, operator: Comparison["operator"], right: string): boolean {
  switch (operator) {
    case "==":
      return left === right;
    case "!=":
      return left !== right;
    case ">":
      return compareCodePoints(left, right) > 0;
    case "<":
      return compareCodePoints(left, right) < 0;
  }
}

/** Order of code points, which is that of UTF-8 bytes; JavaScript's own puts U+FFFF behind U+10000. */
export function compareCodePoints(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  let at = 0;
  while (at < length && left.charCodeAt(at) === right.charCodeAt(at)) at++;
  if (at === length) return left.length - right.length;
  // A surrogate belongs to a code point above every other unit's.
  const rank = (unit: number) => unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
  return rank(left.charCodeAt(at)) - rank(right.charCodeAt(at));
}

/** Places of a text that are outside quotes. @throws {ConditionProblem} when a quote is left open. */
function outsideQuotes(text: string): boolean[] {
  const outside: boolean[] = [];
  let quote: string | null = null;
  for (const unit of text.split("")) {
    outside.push(quote === null && unit !== "'" && unit !== '"');
    if (quote === null) quote = unit === "'" || unit === '"' ? unit : null;
    else if (unit === quote) quote = null;
  }
  if (quote !== null) throw formProblem(`a quote is left open in '${shownValue(text.trim())}'`);
  return outside;
}

function splitOutsideQuotes(text: string, separator: string): string[] {
  const outside = outsideQuotes(text);
  const parts: string[] = [];
  let start = 0;
  for (let at = text.indexOf(separator); at >= 0; at = text.indexOf(separator, at)) {
    if (outside[at]) {
      parts.push(text.slice(start, at));
      at = start = at + separator.length;
    } else at++;
  }
  return [...parts, text.slice(start)];
}

/** The two sides of one comparison, each of the form of an operand. */
function sides(text: string): { operator: Comparison["operator"]; left: string; right: string } {
  for (const operator of OPERATORS) {
    const [left, ...rest] = splitOutsideQuotes(text, operator);
    if (rest.length === 0) continue;
    return { operator, left: operandText(left!), right: operandText(rest.join(operator)) };
  }
  throw formProblem(`'${shownValue(text.trim())}' is no comparison; the operators are ${OPERATORS.join(", ")}`);
}

function operandText(text: string): string {
  const trimmed = text.trim();
  const quote = trimmed[0];
  const isLiteral = (quote === "'" || quote === '"') && trimmed.length >= 2 &&
    trimmed.indexOf(quote, 1) === trimmed.length - 1;
  if (isLiteral || /^\$.+\.[^.]+$/su.test(trimmed)) return trimmed;
  throw formProblem(`'${shownValue(trimmed)}' is neither a quoted text nor a reference like $step.status`);
}

function operand(text: string, declared: ReferenceScope["declared"]): Operand {
  if (!text.startsWith("$")) return { literal: text.slice(1, -1) };
  const reading = readReference(text, declared);
  if (reading === null) {
    throw new ConditionProblem("reference", `'${shownValue(text)}' refers to a step the plan does not have`);
  }
  if ("problem" in reading) throw new ConditionProblem("reference", reading.problem);
  return reading;
}

function formProblem(message: string): ConditionProblem {
  return new ConditionProblem("form", message);
}
