/**
 * The whole environment of a delegated child (roost seed "The child's environment", spec roost 10.1). Pure.
 *
 * @module
 */
import { LIFELINE_DESCRIPTOR, LIFELINE_VARIABLE } from "./lifeline.ts";
import { ROOST_VARIABLE } from "./registration.ts";
import { formatSpawnerHandle, SPAWNER_VARIABLE, type SpawnerHandle } from "./spawner_handle.ts";

/** What it is made from. */
export interface ChildEnvironmentFacts {
  /** What the parent's process holds. */
  readonly held: { get(name: string): string | undefined };
  /** `capabilities.env.allow` of the two manifests. */
  readonly parentAllow: readonly string[];
  readonly childAllow: readonly string[];
  readonly daemon: string;
  readonly handle: SpawnerHandle;
  /** The parent's formation; `null` outside one. */
  readonly formationId: string | null;
}

/** What a formation hands its members only: tokens and lifelines that are no child's. */
const NEVER_HANDED: ReadonlySet<string> = new Set([
  "MURMUR_FORMATION_CHANNEL",
  "MURMUR_FORMATION_PEERS",
  "MURMUR_FORMATION_LIFELINE",
]);

/** Names the runtime gives: a manifest that lists one gets no other value for it. */
const RUNTIME_NAMES: ReadonlySet<string> = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  ROOST_VARIABLE,
  "MURMUR_HOST_WARNINGS_REPORTED",
  LIFELINE_VARIABLE,
  SPAWNER_VARIABLE,
  "MURMUR_FORMATION_ID",
]);

/** The variables of a child; nothing else reaches it. */
export function childEnvironment(facts: ChildEnvironmentFacts): Record<string, string> {
  const { held, parentAllow, childAllow, daemon, handle, formationId } = facts;
  const environment: Record<string, string> = {};
  const copy = (name: string) => {
    const value = held.get(name);
    if (value !== undefined) environment[name] = value;
  };
  for (const name of childAllow) {
    if (!parentAllow.includes(name) || RUNTIME_NAMES.has(name) || NEVER_HANDED.has(name)) continue;
    copy(name);
  }
  for (const name of ["PATH", "HOME", "USER", "LOGNAME"]) copy(name);
  environment.MURMUR_HOST_WARNINGS_REPORTED = "1";
  environment[LIFELINE_VARIABLE] = String(LIFELINE_DESCRIPTOR);
  if (formationId !== null) environment.MURMUR_FORMATION_ID = formationId;
  environment[SPAWNER_VARIABLE] = formatSpawnerHandle(handle);
  environment[ROOST_VARIABLE] = daemon;
  return environment;
}
