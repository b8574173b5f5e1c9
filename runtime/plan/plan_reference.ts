/**
 * References of a plan's step to what earlier steps gave: `$<id>.output` and `$<id>.status` (spec components 12.2). Pure.
 *
 * @module
 */
import { shownValue } from "../../artifact/manifest/shown_value.ts";
import { isJsonObject, type JsonValue } from "../../base/json_value.ts";

/** Most UTF-16 units that references put into one step's input: outputs may be referred to again and again. */
export const MAX_FILLED_LENGTH = 1_048_576;

/** Status of a step that is over. */
export type StepStatus = "success" | "failed" | "skipped";

/** What can be referred to of a settled step. */
export interface Referable {
  readonly status: StepStatus;
  readonly output: string | null;
}

/** A reference to a step of the plan. */
export interface Reference {
  readonly id: string;
  readonly field: "output" | "status";
}

/** A text as a reference. `null`: it is none, and stands for itself. */
export type ReferenceReading = { readonly reference: Reference } | { readonly problem: string } | null;

/**
 * Reads a text that may be a reference. The field is after the last dot.
 *
 * Text with a dollar and a dot that names neither a step nor a field, like `$5.00` or `$HOME/.profile`, is no reference;
 * with one of the two it is a reference that is wrong.
 *
 * @param declared Ids of the plan's steps.
 */
export function readReference(text: string, declared: { has(id: string): boolean }): ReferenceReading {
  if (!text.startsWith("$")) return null;
  const dot = text.lastIndexOf(".");
  if (dot < 2) return null;
  const id = text.slice(1, dot);
  const field = text.slice(dot + 1);
  const isField = field === "output" || field === "status";
  const isStep = declared.has(id);
  if (isField && isStep) return { reference: { id, field } };
  if (isField) return { problem: `'${shownValue(text)}' refers to a step the plan does not have` };
  if (isStep) return { problem: `'${shownValue(text)}' refers to a field that is neither output nor status` };
  return null;
}

/** The first wrong reference anywhere in an input; `null` when there is none. */
export function wrongReference(input: JsonValue, declared: { has(id: string): boolean }): string | null {
  if (typeof input === "string") {
    const reading = readReference(input, declared);
    return reading !== null && "problem" in reading ? reading.problem : null;
  }
  const members = Array.isArray(input) ? input : isJsonObject(input) ? Object.values(input) : [];
  for (const member of members) {
    const problem = wrongReference(member, declared);
    if (problem !== null) return problem;
  }
  return null;
}

/** A reference that has no value; the text says why. */
export class ReferenceFailure extends Error {
  override readonly name = "ReferenceFailure";
}

/** Values of references while a plan runs. */
export interface ReferenceScope {
  readonly declared: { has(id: string): boolean };
  readonly settled: ReadonlyMap<string, Referable>;
}

/** The text a reference stands for. @throws {ReferenceFailure} when its step is not settled. */
export function referenceValue({ id, field }: Reference, settled: ReferenceScope["settled"]): string {
  const step = settled.get(id);
  if (step === undefined) {
    throw new ReferenceFailure(`'$${id}.${field}' refers to a step that is not settled yet; name it in depends_on`);
  }
  return field === "status" ? step.status : step.output ?? "";
}

/**
 * The input with every string that is a reference replaced by its value. Keys stay as they are.
 *
 * @throws {ReferenceFailure} for a step that is not settled, or when the values are too long together.
 */
export function fillReferences<T extends JsonValue>(input: T, { declared, settled }: ReferenceScope): T {
  let length = 0;
  const fill = (value: JsonValue): JsonValue => {
    if (typeof value === "string") {
      const reading = readReference(value, declared);
      if (reading === null) return value;
      if ("problem" in reading) throw new ReferenceFailure(reading.problem);
      const text = referenceValue(reading.reference, settled);
      length += text.length;
      if (length > MAX_FILLED_LENGTH) {
        throw new ReferenceFailure(`the references of this input stand for more than ${MAX_FILLED_LENGTH} characters`);
      }
      return text;
    }
    if (Array.isArray(value)) return value.map(fill);
    // A member named __proto__ is data here too: entries are defined, not assigned.
    if (isJsonObject(value)) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item)]));
    return value;
  };
  // Objects stay objects and texts stay texts.
  return fill(input) as T;
}
