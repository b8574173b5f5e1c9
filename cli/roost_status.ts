/**
 * `mur roost status`: what the spawn daemon counts, and what each running session may still spawn (spec cli 13.9).
 *
 * The daemon's API tells figures a session at a time and no list, so the sessions are those of the running records. Its
 * bounds it tells beside its answer to the health check, and its count beside the answer that it does not know a session.
 * Nothing is changed, the records included.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { HttpError } from "../base/http_error.ts";
import type { RoostBounds } from "../base/roost_bounds.ts";
import { DEFAULT_ROOST_URL, parseRoostUrl, RoostClient, type RoostSessionStatus } from "../base/roost_client.ts";
import { peekRunningDirectory, readRecordProcess, type RunningRecord } from "../base/running_record.ts";
import type { CliContext } from "./context.ts";
import { printTable } from "./text_table.ts";

/** Flags of `mur roost status`. */
export interface RoostStatusFlags {
  readonly url?: string;
  readonly json?: boolean;
}

/** Environment variable that names the daemon. */
const URL_VARIABLE = "MURMUR_ROOST_URL";

/** Sessions that are asked about at once. */
const AT_ONCE = 16;

/** A running session, and what the daemon knows of it; `null` when it knows nothing. */
interface ListedSession {
  readonly record: RunningRecord;
  readonly known: RoostSessionStatus | null;
}

/** Runs the command. @throws {MurError} `E-IO-003` when no daemon answers, `E-RUN-028`. */
export async function roostStatus(context: CliContext, flags: RoostStatusFlags = {}): Promise<number> {
  // Blank counts as unset.
  const url = flags.url ?? (context.env.get(URL_VARIABLE)?.trim() || DEFAULT_ROOST_URL);
  const address = parseRoostUrl(url);
  if (address === null) {
    const origin = flags.url === undefined ? URL_VARIABLE : "--url";
    throw new MurError("E-IO-003", `'${url}' of ${origin} is not the address of a mur-roost`, {
      hint: `it is plain HTTP on this machine, e.g. ${DEFAULT_ROOST_URL}`,
    });
  }
  const client = new RoostClient(address, context.bounds);
  const { records } = peekRunningDirectory(context.absoluteHome().running);
  const running = records.filter((record) => readRecordProcess(record).state !== "gone");
  let bounds: RoostBounds | null;
  let listed: readonly ListedSession[];
  let liveCapsules: number | null;
  try {
    bounds = await accepted(client.health());
    listed = await askAll(client, running);
    const known = listed.flatMap(({ known }) => known === null ? [] : [known]);
    // The last answer is the newest count.
    liveCapsules = known.at(-1)?.live_capsules ?? await client.liveCapsules();
  } catch (cause) {
    if (!(cause instanceof HttpError)) throw cause;
    throw new MurError("E-IO-003", `no mur-roost answers at ${client.where}: ${cause.message}`, {
      hint: "start it with mur-roost, or name another with --url",
      cause,
    });
  }
  const rows = asTree(listed);
  if (flags.json) {
    const sessions = rows.map(({ session: { record, known } }) => ({
      session_id: record.session_id,
      capsule_name: record.capsule_name,
      capsule_version: record.capsule_version,
      spawned_by: record.spawned_by ?? null,
      status: known?.status ?? "unregistered",
      depth_remaining: known?.depth_remaining ?? null,
      live_children: known?.live_children ?? null,
    }));
    const told = {
      max_depth: bounds?.maxDepth ?? null,
      max_concurrent: bounds?.maxConcurrent ?? null,
      max_live_capsules: bounds?.maxLiveCapsules ?? null,
    };
    context.stdout.line(JSON.stringify({ url, live_capsules: liveCapsules, ...told, sessions }));
    return 0;
  }
  context.stdout.line(`mur-roost answers at ${client.where}`);
  context.stdout.line(
    liveCapsules === null
      ? "live capsules: unknown, since this daemon does not tell them"
      : `live capsules: ${liveCapsules}`,
  );
  context.stdout.line(
    bounds === null
      ? "bounds: unknown, since this daemon does not tell them"
      : `bounds: ${bounds.maxLiveCapsules} live capsules (--max-live-capsules), ${bounds.maxConcurrent} children a session ` +
        `(--max-concurrent), ${bounds.maxDepth} levels of delegation (--max-depth)`,
  );
  if (rows.length === 0) {
    context.stdout.line("no running capsules");
    return 0;
  }
  context.stdout.line("");
  printTable(
    context.stdout,
    ["SESSION", "CAPSULE", "STATUS", "MAY DELEGATE", "CHILDREN"],
    rows.map(({ session: { record, known }, depth }) => [
      `${"  ".repeat(depth)}${record.session_id}`,
      `${record.capsule_name}@${record.capsule_version}`,
      known?.status ?? "unregistered",
      known === null ? "-" : `${known.depth_remaining} ${known.depth_remaining === 1 ? "level" : "levels"}`,
      known === null ? "-" : String(known.live_children),
    ]),
  );
  return 0;
}

async function askAll(client: RoostClient, records: readonly RunningRecord[]): Promise<ListedSession[]> {
  const listed: ListedSession[] = [];
  for (let at = 0; at < records.length; at += AT_ONCE) {
    listed.push(
      ...await Promise.all(
        records.slice(at, at + AT_ONCE).map(async (record) => {
          const answer = await client.status(record.session_id);
          if (!answer.ok && answer.status !== 404) throw refusal(client, answer.message);
          return { record, known: answer.ok ? answer.value : null };
        }),
      ),
    );
  }
  return listed;
}

/** Fails on a daemon that refuses to say whether it is there. */
async function accepted(answer: ReturnType<RoostClient["health"]>): Promise<RoostBounds | null> {
  const given = await answer;
  if (!given.ok) throw new HttpError("protocol", `it answered: ${given.message}`);
  return given.value;
}

function refusal(client: RoostClient, message: string): MurError {
  return new MurError("E-IO-003", `the mur-roost at ${client.where} refused to tell of a session: ${message}`);
}

/** Sessions with their depth in the tree: each below the one that spawned it, when that one is listed too. */
function asTree(listed: readonly ListedSession[]): { readonly session: ListedSession; readonly depth: number }[] {
  const ids = new Set(listed.map(({ record }) => record.session_id));
  const below = Map.groupBy(listed, ({ record }) => {
    const parent = record.spawned_by;
    return parent !== undefined && ids.has(parent) ? parent : null;
  });
  const rows: { session: ListedSession; depth: number }[] = [];
  const seen = new Set<ListedSession>();
  const add = (parent: string | null, depth: number) => {
    for (const session of below.get(parent) ?? []) {
      if (seen.has(session)) continue;
      seen.add(session);
      rows.push({ session, depth });
      add(session.record.session_id, depth + 1);
    }
  };
  add(null, 0);
  // Records that name each other hang below nobody; they are listed all the same.
  for (const session of listed) if (!seen.has(session)) rows.push({ session, depth: 0 });
  return rows;
}
