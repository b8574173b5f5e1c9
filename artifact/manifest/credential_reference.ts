/**
 * `${NAME}` of a credential (spec manifest 3.5). Reading one resolves nothing.
 *
 * @module
 */
import type { CredentialReference } from "./capsule_manifest.ts";

/** Whether a text is the name of a credential or environment variable: `[A-Z_][A-Z0-9_]*`. */
export function isCredentialName(name: string): boolean {
  return /^[A-Z_][A-Z0-9_]*$/.test(name);
}

/** A non-blank value as a reference, when trimmed it is exactly `${NAME}`, or as the literal it is. */
export function parseCredential(value: string): CredentialReference {
  const match = /^\$\{([A-Z_][A-Z0-9_]*)\}$/.exec(value.trim());
  return match === null ? { kind: "literal", value } : { kind: "reference", name: match[1]! };
}
