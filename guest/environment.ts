/**
 * The component's environment and the configuration its manifest entry carries (spec components 3.3, 4.5).
 *
 * @module
 */
import { host } from "./host.ts";

let variables: ReadonlyMap<string, string> | null = null;

/** The value of an environment variable, `undefined` when it is not set. */
export function env(name: string): string | undefined {
  variables ??= new Map(host().environment.getEnvironment());
  return variables.get(name);
}

/** Names and values of the whole environment. */
export function environment(): Record<string, string> {
  variables ??= new Map(host().environment.getEnvironment());
  return Object.fromEntries(variables);
}

/**
 * The `config:` of this artifact's entry in the capsule's manifest, `undefined` when it has none. Its shape is what the
 * operator wrote: check it before use.
 */
export function config<T = Record<string, unknown>>(): T | undefined {
  const json = env("MURMUR_ARTIFACT_CONFIG");
  return json === undefined ? undefined : JSON.parse(json) as T;
}
