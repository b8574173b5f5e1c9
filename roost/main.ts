/**
 * Entry of `mur-roost`, the spawn referee: counts what runs, binds, listens, answers (seed roost "Start the daemon"; spec
 * roost 2).
 *
 * @module
 */
import { descriptorLimit } from "../base/descriptor_limit.ts";
import { readVariable } from "../base/environment_variable.ts";
import { reasonOf } from "../base/errors.ts";
import { type Libc, libc } from "../base/libc.ts";
import { murmurHomeAt } from "../base/murmur_home.ts";
import { hardenProcess } from "../base/process_hardening.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../base/time_bounds.ts";
import { VERSION } from "../base/version.ts";
import { derivedCeiling, parseArguments } from "./arguments.ts";
import { countRunning, type StartCount } from "./count_running.ts";
import { answerAtFront, healthAnswer, pathOf, refused } from "./front.ts";
import { type HttpAnswer, type HttpHandler, type HttpRequest, MAX_CONNECTIONS, serveHttp } from "./http_server.ts";
import { createLog, type Log } from "./log.ts";
import { listenOnLoopback } from "./loopback_listener.ts";
import type { RefereeOptions } from "./open_referee.ts";
import type { Referee } from "./referee.ts";

/** When a daemon that nobody asked anything loads what decides, in milliseconds after it listens. */
const WARM_UP_MS = 1_000;

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
  const noHome = (why: string) => refuse(`${cannotCount}: the home directory could not be resolved: ${why}`);
  let homePath: string | undefined;
  try {
    homePath = readVariable("HOME");
  } catch (error) {
    return noHome(reasonOf(error));
  }
  if (!homePath?.startsWith("/")) {
    return noHome(homePath ? `HOME is '${homePath}', which is not an absolute path` : "HOME is not set");
  }
  const home = murmurHomeAt(homePath);
  const maxLiveCapsules = given.maxLiveCapsules ?? derivedCeiling(navigator.hardwareConcurrency);

  let c: Libc;
  try {
    c = libc();
  } catch (error) {
    return refuse(reasonOf(error));
  }
  // It will hold the keys and every credential: no other process of this user looks into it, and no core file holds them.
  hardenProcess();
  const started = performance.now();
  let count: StartCount;
  try {
    count = countRunning(home.running, c);
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

  const listener = listenOnLoopback(c, port);
  if (typeof listener === "number") {
    return refuse(`failed to bind port ${port}: ${c.errorText(-listener)} (os error ${-listener})`);
  }
  const log = createLog(Deno.stderr);
  const { handler, open } = answering({
    bounds: { maxDepth, maxConcurrent, maxLiveCapsules },
    found,
    runningPath: home.running,
    registryPath: registryPath === null ? home.artifacts : absolute(registryPath),
    approvalMs: bounds.spawnApproval,
    spawnAllow: new Set(spawnAllow),
    log: log.event,
  }, log);
  const server = serveHttp(c, listener, {
    handler,
    requestMs: bounds.roostRequest,
    // Reading records and archives takes descriptors too, and watching processes a quarter of them.
    maxConnections: Math.min(MAX_CONNECTIONS, Math.floor(descriptorLimit() / 2)),
    // Not by a timer: Deno loads 5 ms of code for the first one that is set.
    settled: { afterMs: WARM_UP_MS, work: open },
  });
  const stopped = new Promise<string>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, () => resolve(signal));
  });
  say(`mur-roost: listening on 127.0.0.1:${listener.port}`);
  say(`mur-roost: machine ceiling ${maxLiveCapsules} live capsules (--max-live-capsules)`);

  const signal = await stopped;
  log.event({ event: "stopping", signal });
  await server.close(STOP_MS);
  await log.flush(STOP_MS);
  return 0;
}

/** Answers requests. What decides is loaded for the first one that needs it, or when it is told to be. */
function answering(options: RefereeOptions, log: Log): { readonly handler: HttpHandler; readonly open: () => void } {
  let referee: Referee | null = null;
  let opening: Promise<Referee> | null = null;
  // Written out, the specifier would have it parsed before the daemon listens.
  const open = () =>
    opening ??= (import(new URL("./open_referee.ts", import.meta.url).href) as Promise<
      typeof import("./open_referee.ts")
    >).then(({ openReferee }) => openReferee(options)).then((opened) => referee = opened);
  const failed = (error: unknown): HttpAnswer => {
    log.event({ event: "defect", error: error instanceof Error ? error.stack ?? error.message : String(error) });
    return refused(500, "the daemon failed");
  };
  const answerLater = async (request: HttpRequest, path: string) => {
    const kept = { ...request, content: request.content.slice() };
    return (await open()).answer(kept, path);
  };
  const health = healthAnswer(options.bounds);
  const handler: HttpHandler = (request) => {
    try {
      const path = pathOf(request.target);
      const atFront = answerAtFront(request, path, health);
      if (atFront !== null) return atFront;
      const answer = referee === null ? answerLater(request, path) : referee.answer(request, path);
      return answer instanceof Promise ? answer.catch(failed) : answer;
    } catch (error) {
      return failed(error);
    }
  };
  // Whoever asks first is told when it fails.
  return { handler, open: () => void open().catch(() => {}) };
}

function absolute(path: string): string {
  return path.startsWith("/") ? path : `${Deno.cwd()}/${path}`;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
