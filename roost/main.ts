/**
 * Entry of `mur-roost`, the spawn referee: counts what runs, binds, listens, answers (seed roost "Start the daemon"; spec
 * roost 2).
 *
 * @module
 */
import { reasonOf } from "../base/errors.ts";
import { murmurHomeAt } from "../base/murmur_home.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../base/time_bounds.ts";
import { VERSION } from "../base/version.ts";
import { derivedCeiling, parseArguments } from "./arguments.ts";
import { MAX_CONNECTIONS, serveHttp } from "./http_server.ts";
import { Ledger } from "./ledger.ts";
import { createLog } from "./log.ts";
import { Referee } from "./referee.ts";
import { StoreRegistry } from "./registry.ts";
import { RunningCensus } from "./running_census.ts";

/** How long requests that are being answered may take when the daemon is told to stop, in milliseconds. */
const STOP_MS = 500;

const encoder = new TextEncoder();

/** Writes a line that somebody waits for. One whose reader went away is nobody's. */
function say(line: string, stream: { writeSync(bytes: Uint8Array): number } = Deno.stderr): void {
  try {
    for (let rest = encoder.encode(`${line}\n`); rest.length > 0;) rest = rest.subarray(stream.writeSync(rest));
  } catch {
    // There is no other place to say it.
  }
}

function refuse(reason: string): number {
  say(`mur-roost: ${reason}`);
  return 1;
}

/** The system's own words for a failure, without the call that Deno names behind them. */
function systemReason(error: unknown): string {
  const text = reasonOf(error);
  return /^(.*? \(os error \d+\))/.exec(text)?.[1] ?? text;
}

/**
 * Runs the daemon until a signal ends it.
 *
 * @returns The exit status: 0 after `SIGTERM`, `SIGINT` or `--version`, 1 when it did not start.
 */
export async function main(args: readonly string[], bounds: TimeBounds = DEFAULT_TIME_BOUNDS): Promise<number> {
  const parsed = parseArguments(args);
  if (parsed.kind === "refused") return refuse(parsed.message);
  if (parsed.kind === "version") {
    say(`mur-roost ${VERSION}`, Deno.stdout);
    return 0;
  }
  const { port, registryPath, spawnAllow, maxDepth, maxConcurrent, ...given } = parsed.arguments;
  const cannotCount = "cannot count the capsules already running on this host";
  const homePath = Deno.env.get("HOME");
  if (!homePath?.startsWith("/")) {
    const why = homePath ? `HOME is '${homePath}', which is not an absolute path` : "HOME is not set";
    return refuse(`${cannotCount}: the home directory could not be resolved: ${why}`);
  }
  const home = murmurHomeAt(homePath);
  const maxLiveCapsules = given.maxLiveCapsules ?? derivedCeiling(navigator.hardwareConcurrency);

  const census = new RunningCensus(home.running);
  const started = performance.now();
  let count: ReturnType<RunningCensus["count"]>;
  try {
    count = census.count();
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    return refuse(`${cannotCount}: ${home.running}: ${systemReason(cause)}`);
  }
  const took = (performance.now() - started).toFixed(1);
  const { found, read, stale, unreadable } = count;
  say(
    `mur-roost: ${found.length} live capsules already running on this host, counted from ${home.running} (${read} ` +
      `records read in ${took} ms; ${stale} stale and ${unreadable} unreadable not counted)`,
  );

  let listener: Deno.TcpListener;
  try {
    listener = Deno.listen({ hostname: "127.0.0.1", port });
  } catch (error) {
    return refuse(`failed to bind port ${port}: ${systemReason(error)}`);
  }
  const log = createLog(Deno.stderr);
  const referee = new Referee({
    ledger: new Ledger({ maxDepth, maxConcurrent, maxLiveCapsules }, found),
    registry: new StoreRegistry(registryPath === null ? home.artifacts : absolute(registryPath)),
    census,
    spawnAllow: new Set(spawnAllow),
    log: log.event,
  });
  const server = serveHttp(listener, {
    handler: (request) => referee.answer(request),
    requestMs: bounds.roostRequest,
    maxConnections: MAX_CONNECTIONS,
  });
  const stopped = new Promise<string>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, () => resolve(signal));
  });
  say(`mur-roost: listening on 127.0.0.1:${listener.addr.port}`);
  say(`mur-roost: machine ceiling ${maxLiveCapsules} live capsules (--max-live-capsules)`);

  const signal = await stopped;
  log.event({ event: "stopping", signal });
  await server.close(STOP_MS);
  await log.flush(STOP_MS);
  return 0;
}

function absolute(path: string): string {
  return path.startsWith("/") ? path : `${Deno.cwd()}/${path}`;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
