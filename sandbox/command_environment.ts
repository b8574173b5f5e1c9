/**
 * The environment of a command: built from nothing, what may come from the host named, what must not removed, what is
 * ours set last (spec containment 12). Pure.
 *
 * @module
 */
import { strippedBy } from "../artifact/environment_patterns.ts";

/** Copied from the runtime's own environment when set. */
const BASELINE = [
  "PATH",
  "HOME",
  "USER",
  "LANG",
  "LC_ALL",
  "TMPDIR",
  "TEMP",
  "TMP",
  "CARGO_HOME",
  "RUSTUP_HOME",
  "TERM",
] as const;

/** The runtime's own channels; no command sees one, whatever declared it. */
const INTERNAL_NAMES: ReadonlySet<string> = new Set([
  "MURMUR_SPAWNER",
  "MURMUR_SPAWNER_LIFELINE",
  "MURMUR_FORMATION_ID",
  "MURMUR_FORMATION_CHANNEL",
  "MURMUR_FORMATION_PEERS",
  "MURMUR_FORMATION_LIFELINE",
  "MURMUR_ROOST_URL",
  "MURMUR_DOOR_TOKEN",
  "MURMUR_ARTIFACT_CONFIG",
]);

/** What an environment is built from. */
export interface CommandEnvironmentSources {
  /** The runtime's own environment. */
  readonly host: { get(name: string): string | undefined };
  /** The runtime's variables for shell commands of an agent capsule; empty for plan steps and native tools. */
  readonly session: Readonly<Record<string, string>>;
  /** `capabilities.shell.baseline_env`: exact names. */
  readonly baselineEnv: readonly string[];
  /** `capabilities.shell.strip_env`: patterns. */
  readonly stripEnv: readonly string[];
  /** Absolute path of the records directory's `home/`. */
  readonly home: string;
  /** Where temporary files go (spec containment 8). */
  readonly temporary: string;
  /** Absolute path of the runtime directory. */
  readonly runtimeDir: string;
}

/** The whole environment of one command. */
export function commandEnvironment(sources: CommandEnvironmentSources): Record<string, string> {
  const { host, session, baselineEnv, stripEnv, home, temporary, runtimeDir } = sources;
  const variables = new Map<string, string>();
  const copy = (name: string) => {
    const value = host.get(name);
    if (value !== undefined) variables.set(name, value);
  };
  BASELINE.forEach(copy);
  for (const [name, value] of Object.entries(session)) variables.set(name, value);
  // A declared name is for the host's other variables; it puts back none of the runtime's.
  baselineEnv.filter((name) => !(name in session)).forEach(copy);
  for (const name of variables.keys()) {
    if (strippedBy(name, stripEnv) !== null || INTERNAL_NAMES.has(name)) variables.delete(name);
  }
  return {
    ...Object.fromEntries(variables),
    HOME: home,
    USERPROFILE: home,
    TMPDIR: temporary,
    TMP: temporary,
    TEMP: temporary,
    MURMUR_RUNTIME_DIR: runtimeDir,
  };
}
