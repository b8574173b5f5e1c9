/**
 * Which environment variables never reach a command or a component, judged by name (spec manifest 9.4, 9.6).
 *
 * @module
 */

/** Names that are taken from every environment, whatever a manifest says. */
export const CREDENTIAL_PATTERNS: readonly string[] = [
  "ANTHROPIC_API_KEY",
  "OPENAI_API_KEY",
  "GOOGLE_API_KEY",
  "HUGGING_FACE_HUB_TOKEN",
  "NEXUS_API_KEY",
  "AWS_*",
  "GITHUB_TOKEN",
  "GH_TOKEN",
  "DOCKER_*",
  "KUBECONFIG",
  "NPM_TOKEN",
  "PYPI_TOKEN",
  "CARGO_REGISTRY_TOKEN",
  "*_API_KEY",
];

/** Whether a name matches `EXACT`, `PREFIX*`, `*SUFFIX` or `*MIDDLE*`. Case counts. A `*` elsewhere is a character. */
export function environmentPatternMatches(pattern: string, name: string): boolean {
  const open = pattern.startsWith("*");
  const close = pattern.endsWith("*") && pattern.length > (open ? 1 : 0);
  const core = pattern.slice(open ? 1 : 0, close ? -1 : undefined);
  if (open && close) return name.includes(core);
  if (open) return name.endsWith(core);
  if (close) return name.startsWith(core);
  return name === pattern;
}

/** What would take a name from an environment: the pattern, and who wrote it. */
export interface StrippedBy {
  readonly pattern: string;
  readonly source: "credential backstop" | "capabilities.shell.strip_env";
}

/** The first pattern that removes `name`, the built-in ones first; `null` when none does. */
export function strippedBy(name: string, stripEnv: readonly string[]): StrippedBy | null {
  const backstop = CREDENTIAL_PATTERNS.find((pattern) => environmentPatternMatches(pattern, name));
  if (backstop !== undefined) return { pattern: backstop, source: "credential backstop" };
  const written = stripEnv.find((pattern) => environmentPatternMatches(pattern, name));
  return written === undefined ? null : { pattern: written, source: "capabilities.shell.strip_env" };
}

const CREDENTIAL_PARTS = ["api_key", "token", "secret", "password"];
const CREDENTIAL_SEGMENTS = new Set([
  "KEY",
  "KEYS",
  "PASS",
  "PASSWD",
  "PASSPHRASE",
  "CREDENTIAL",
  "CREDENTIALS",
  "CREDS",
  "DSN",
  "AUTH",
  "PAT",
  "COOKIE",
]);

/** Whether a name looks like one of a credential (`W-SEC-024`). */
export function looksLikeCredential(name: string): boolean {
  const lower = name.toLowerCase();
  return CREDENTIAL_PARTS.some((part) => lower.includes(part)) ||
    name.toUpperCase().split(/[^A-Z0-9]+/).some((segment) => CREDENTIAL_SEGMENTS.has(segment));
}
