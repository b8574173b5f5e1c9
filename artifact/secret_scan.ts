/**
 * Finds literal secrets in a manifest that is about to be packed (spec cli 10.1, manifest 5.5; `W-SEC-004`).
 *
 * @module
 */
import { isMap, isScalar, LineCounter, parseDocument, visit } from "yaml";
import type { Warning } from "../base/errors.ts";

/** A value that looks like a secret written out. */
export interface SecretFinding {
  /** Dotted path of the key, list positions as `[i]`. */
  readonly field: string;
  /** Line of the value, counted from 1. */
  readonly line: number;
  /** First four characters and `****`; `****` alone when there are no more than four. */
  readonly shown: string;
}

const SECRET_KEY = /api_key|token|secret|password/i;
const REFERENCE = /^\$\{[A-Z_][A-Z0-9_]*\}$/;

/** Whether a value of a secret-looking key looks like the secret itself. */
function looksLiteral(value: string): boolean {
  if (REFERENCE.test(value.trim())) return false;
  return value.startsWith("sk-") || [...value].length > 8;
}

/** Shows enough of a value to find it in the file, and no more. */
function masked(value: string): string {
  const characters = [...value];
  return characters.length <= 4 ? "****" : `${characters.slice(0, 4).join("")}****`;
}

/** Scans the text of a manifest that parses; text that does not parse has no findings. */
export function findLiteralSecrets(text: string): readonly SecretFinding[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, logLevel: "silent" });
  if (document.errors.length > 0) return [];
  const findings: SecretFinding[] = [];
  visit(document, {
    Pair(_, pair, ancestors) {
      if (!isScalar(pair.key) || !isScalar(pair.value) || typeof pair.value.value !== "string") return;
      const key = String(pair.key.value);
      if (!SECRET_KEY.test(key) || !looksLiteral(pair.value.value)) return;
      const line = lines.linePos(pair.value.range?.[0] ?? 0).line;
      findings.push({ field: pathOf([...ancestors, pair]), line, shown: masked(pair.value.value) });
    },
  });
  return findings;
}

/** Dotted path of the last node of a chain from the root. */
function pathOf(chain: readonly unknown[]): string {
  let path = "";
  for (const [index, node] of chain.entries()) {
    const parent = chain[index - 1];
    if (isMap(parent)) {
      const key = (node as { key?: unknown }).key;
      path += `${path === "" ? "" : "."}${isScalar(key) ? String(key.value) : "?"}`;
    } else if (parent !== undefined && Array.isArray((parent as { items?: unknown }).items)) {
      path += `[${(parent as { items: unknown[] }).items.indexOf(node)}]`;
    }
  }
  return path;
}

/** The warnings for a manifest, one per finding. `file` is how the operator would name it. */
export function secretWarnings(text: string, file: string): readonly Warning[] {
  return findLiteralSecrets(text).map(({ field, line, shown }) => ({
    code: "W-SEC-004",
    source: null,
    message: `${file}: field '${field}' at line ${line} looks like a secret written out (${shown})`,
    details: ["everyone who gets the artifact can read it; write ${NAME} and set the value where it runs"],
  }));
}
