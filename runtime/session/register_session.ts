/**
 * Which session registers with the spawn daemon, and as what (spec roost 9). What that takes is loaded by those that do.
 *
 * @module
 */
import type { Registration } from "../delegation/registration.ts";
import type { StagedSession } from "./stage_session.ts";

/**
 * Registers a session that may delegate, or was launched under an approval.
 *
 * @returns `null` for any other, which opens no connection.
 * @throws {MurError} `E-RUN-019`.
 */
export async function registerSession(staged: StagedSession): Promise<Registration | null> {
  const { options, manifest, sessionId } = staged;
  const approval = options.spawned?.approval ?? null;
  if (manifest.capabilities.spawnAllow.length === 0 && approval === null) return null;
  const { register } = await import("../delegation/registration.ts");
  return await register({
    daemon: options.env.get("MURMUR_ROOST_URL"),
    sessionId,
    name: fullName(staged),
    version: manifest.version,
    approval,
    bounds: options.bounds,
  });
}

/** The full name a launch gave, else that of the scope stores keep their artifacts under (spec roost 18, 20). */
export function fullName({ options: { source }, manifest }: Pick<StagedSession, "options" | "manifest">): string {
  return source.kind === "installed" && source.name.includes("/") ? source.name : `local/${manifest.name}`;
}
