/**
 * Which session registers with the spawn daemon, and as what (spec roost 9). What that takes is loaded by those that do.
 *
 * @module
 */
import type { Registration } from "../delegation/registration.ts";
import type { StagedSession } from "./stage_session.ts";

/** Whether a session registers: one that may delegate, or was launched under an approval. Any other opens no connection. */
export function registers({ options, manifest }: StagedSession): boolean {
  return manifest.capabilities.spawnAllow.length > 0 || (options.spawned?.approval ?? null) !== null;
}

/**
 * Registers a session.
 *
 * @param maybeRegistered Told when it fails and the daemon may count the session all the same: then its running record has to
 * stay, naming a process that is gone, until the daemon or `mur ps` has seen it.
 * @throws {MurError} `E-RUN-019`.
 */
export async function registerSession(staged: StagedSession, maybeRegistered: () => void): Promise<Registration> {
  const { options, manifest, sessionId } = staged;
  const approval = options.spawned?.approval ?? null;
  const { mayBeRegistered, register } = await import("../delegation/registration.ts");
  try {
    return await register({
      daemon: options.env.get("MURMUR_ROOST_URL"),
      sessionId,
      name: fullName(staged),
      version: manifest.version,
      approval,
      bounds: options.bounds,
    });
  } catch (error) {
    if (mayBeRegistered(error)) maybeRegistered();
    throw error;
  }
}

/** The full name a launch gave, else that of the scope stores keep their artifacts under (spec roost 18, 20). */
export function fullName({ options: { source }, manifest }: Pick<StagedSession, "options" | "manifest">): string {
  return source.kind === "installed" && source.name.includes("/") ? source.name : `local/${manifest.name}`;
}
