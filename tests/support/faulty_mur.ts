/**
 * `mur` for tests of what fails between sessions: with short time bounds, and a delegated child that sends itself a signal
 * at a step of its life that nothing outside could hit. `TEST_FAULT` says which: `<capsule>:<step>:<signal>`.
 *
 * @module
 */
import { processContext } from "../../cli/context.ts";
import { main } from "../../cli/main.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../../base/time_bounds.ts";

/** Bounds a test can wait for, and a busy machine can keep. */
export const SHORT_BOUNDS: TimeBounds = {
  ...DEFAULT_TIME_BOUNDS,
  childLaunch: 15_000,
  childDelivery: 8_000,
  childStopGrace: 1_500,
  reportedExit: 3_000,
  completionPost: 2_000,
  delegationBackstop: 20_000,
  roostAnswer: 5_000,
  teardown: 6_000,
};

/** A step of a delegated child's life, in their order. */
export type FaultStep =
  /** Its process has started and done nothing. */
  | "launch"
  /** It serves, and has not said so. */
  | "ready"
  /** It said so, and its door answers nobody yet. */
  | "reported"
  /** Its record is written, and its parent not told. */
  | "post"
  /** Its parent answered, and it did not write that down. */
  | "posted"
  /** All is done but the exit. */
  | "exit";

let played = false;

/** Sends this process its signal when it is at its step, the first time. */
function fault(at: FaultStep): void {
  const [capsule, step, signal] = (Deno.env.get("TEST_FAULT") ?? "").split(":");
  if (played || step !== at || !Deno.args.includes(`local/${capsule}`)) return;
  played = true;
  Deno.kill(Deno.pid, signal as Deno.Signal);
}

if (import.meta.main) {
  fault("launch");
  const context = processContext(SHORT_BOUNDS);
  const { stdout } = context;
  const line = (text: string) => {
    const isReadiness = text.startsWith("{");
    if (isReadiness) fault("ready");
    const written = stdout.line(text);
    if (isReadiness) fault("reported");
    return written;
  };
  const spawner = JSON.parse(Deno.env.get("MURMUR_SPAWNER") ?? "{}") as { readonly url?: string };
  const parentPort = Number(spawner.url?.slice(spawner.url.lastIndexOf(":") + 1) ?? 0);
  const connect = Deno.connect as (options: Deno.ConnectOptions) => Promise<Deno.TcpConn>;
  Deno.connect = (async (options: Deno.ConnectOptions) => {
    // Nothing else of a child connects to its parent's door.
    const isReport = options.port === parentPort;
    if (isReport) fault("post");
    const connection = await connect(options);
    if (!isReport) return connection;
    const close = connection.close.bind(connection);
    connection.close = () => {
      fault("posted");
      close();
    };
    return connection;
  }) as typeof Deno.connect;
  const status = await main(Deno.args, { ...context, stdout: { ...stdout, line } });
  fault("exit");
  Deno.exit(status);
}
