/**
 * Patterns of `capabilities.install`: which artifacts a running session may pull (spec manifest 9.11).
 *
 * @module
 */
import { bareHalf, MAX_NAME_LENGTH, parseArtifactName } from "./artifact_name.ts";

/** What an entry may look like, for messages. */
export const INSTALL_PATTERN_FORMS = "*, a prefix followed by one *, a name, or <scope>/<name>";

/** Whether an entry is a pattern. */
export function isInstallPattern(pattern: string): boolean {
  if (pattern === "*") return true;
  if (!pattern.endsWith("*")) return parseArtifactName(pattern) !== null;
  const prefix = pattern.slice(0, -1);
  return /^[a-z0-9][a-z0-9-]*(?:\/[a-z0-9-]*)?$/.test(prefix) &&
    prefix.split("/").every((half) => half.length <= MAX_NAME_LENGTH);
}

/**
 * Whether a pattern lets an artifact in: a pattern with `/` is compared with the full name, one without with the bare
 * half. A name matching neither grammar is let in by nothing, `*` included.
 */
export function installPatternMatches(pattern: string, name: string): boolean {
  if (parseArtifactName(name) === null || !isInstallPattern(pattern)) return false;
  if (pattern === "*") return true;
  const subject = pattern.includes("/") ? name : bareHalf(name);
  return pattern.endsWith("*") ? subject.startsWith(pattern.slice(0, -1)) : subject === pattern;
}

/**
 * Whether everything a child's entry lets in is let in by the parent's entry, by their texts alone: an entry with `/`
 * and one without are matched against different halves, so neither ever covers the other.
 */
export function installPatternCovers(parent: string, child: string): boolean {
  if (!isInstallPattern(parent) || !isInstallPattern(child)) return false;
  if (parent === "*") return true;
  if (child === "*" || parent.includes("/") !== child.includes("/")) return false;
  return parent.endsWith("*") ? child.startsWith(parent.slice(0, -1)) : child === parent;
}
