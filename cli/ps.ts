/**
 * `mur ps`: the capsules that run on this machine (spec cli 13.1).
 *
 * @module
 */
import type { CliContext } from "./context.ts";
import { doorOf, doorProblems, readRunningSessions, type RunningSession, type SessionDoor } from "./running_session.ts";
import { sessionTree } from "./session_tree.ts";

/** Flags of `mur ps`. */
export interface PsFlags {
  readonly json?: boolean;
}

/** One listed session. */
interface ListedSession extends RunningSession {
  /** Why its door does not answer; `null` for a running session. */
  readonly problem: string | null;
}

/** Header and widths of the columns; the last is as wide as it is. */
const COLUMNS = [["SESSION", 36], ["CAPSULE", 24], ["STATUS", 12], ["DETACHED", 8], ["UPTIME", 9], ["URL", 0]] as const;

/** Runs the command. @throws {MurError} `E-RUN-028`. */
export async function ps(context: CliContext, flags: PsFlags = {}, now: number = Date.now()): Promise<number> {
  const { sessions, pruned } = await readRunningSessions(context, { pruneOlder: true });
  const listed = await askDoors(sessions, context);
  const notes = [
    ...pruned.map(({ id, reason }) => `pruned: ${id} — ${reason}`),
    ...listed.flatMap(({ id, problem }) => problem === null ? [] : [`unreachable: ${id} — ${problem}`]),
  ];
  if (notes.length > 0) context.stderr.line(notes.join("\n"));
  context.stdout.line(
    flags.json
      ? JSON.stringify({ sessions: listed.map((each) => described(each, now)), pruned })
      : listed.length === 0
      ? "no running capsules"
      : table(listed, now),
  );
  return 0;
}

/** Newest first; a delegated session below the one it works for. */
function table(listed: readonly ListedSession[], now: number): string {
  const tree = sessionTree(listed, ({ id }) => id, ({ record }) => record.spawned_by);
  const rows = tree.map(({ session: { id, record, problem }, branch }) => [
    id,
    `${branch}${record.capsule_name}@${record.capsule_version}`,
    problem === null ? "running" : "unreachable",
    record.outlives_launcher ? "yes" : "no",
    uptime(record.started_at, now),
    record.url ?? "-",
  ]);
  return [COLUMNS.map(([name]) => name), ...rows].map((row) =>
    row.map((cell, column) => cell.replaceAll(/\s/g, " ").padEnd(COLUMNS[column]![1])).join("  ").trimEnd()
  ).join("\n");
}

/** Asks every door at once; whatever has not answered when the bound is over is unreachable. */
async function askDoors(sessions: readonly RunningSession[], context: CliContext): Promise<ListedSession[]> {
  const deadline = performance.now() + context.bounds.listedDoors;
  const asked: SessionDoor[] = [];
  const problems = new Map<string, string | null>();
  for (const { id, record, unverified } of sessions) {
    problems.set(id, unverified);
    if (unverified !== null || record.url === null) continue;
    const door = doorOf(record, context);
    if (door === null) problems.set(id, `'${record.url}' is no address of a door`);
    else asked.push({ id, door });
  }
  const answers = await doorProblems(asked, deadline);
  for (const [index, { id }] of asked.entries()) problems.set(id, answers[index]!);
  return sessions.map((session) => ({ ...session, problem: problems.get(session.id)! }));
}

/** `HH:MM:SS`, from a day on with the days before it; `-` for a time nobody can read. */
export function uptime(startedAt: string, now: number): string {
  const started = Date.parse(startedAt);
  if (Number.isNaN(started)) return "-";
  const seconds = Math.max(0, Math.floor((now - started) / 1_000));
  const two = (value: number) => String(value).padStart(2, "0");
  const days = Math.floor(seconds / 86_400);
  const clock = `${two(Math.floor(seconds / 3_600) % 24)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days === 0 ? clock : `${days}d ${clock}`;
}

/** One session for a program; no token is among it. */
function described({ id, record, problem }: ListedSession, now: number) {
  const started = Date.parse(record.started_at);
  return {
    session_id: id,
    capsule_name: record.capsule_name,
    capsule_version: record.capsule_version,
    status: problem === null ? "running" : "unreachable",
    reason: problem,
    detached: record.outlives_launcher,
    started_at: record.started_at,
    uptime_seconds: Number.isNaN(started) ? null : Math.max(0, Math.floor((now - started) / 1_000)),
    url: record.url,
    pid: record.pid,
    workdir: record.workdir,
    records_dir: record.records_dir,
    ...(record.spawned_by === undefined ? {} : { spawned_by: record.spawned_by }),
    ...(record.formation_id === undefined ? {} : { formation_id: record.formation_id }),
    ...(record.formation_member === undefined ? {} : { formation_member: record.formation_member }),
  };
}
