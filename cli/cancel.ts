/**
 * `mur cancel`: cancels one task of a running capsule; session, conversation and queue stay (spec cli 13.4).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { CliContext } from "./context.ts";
import { type DoorClient, RPC_CODE } from "../base/door_client.ts";
import { doorError, rpcError } from "./door_error.ts";
import { doorAtUrl } from "./door_url.ts";
import { residueLines } from "./residue_lines.ts";
import { findServingSession } from "./running_session.ts";
import { parseTask, taskWord } from "../base/stream_events.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur cancel`. */
export interface CancelFlags {
  readonly url?: string;
}

/**
 * Runs the command with `<SESSION> <TASK_ID>`, or `<TASK_ID>` alone beside `--url`.
 *
 * @throws {MurError} `E-RUN-022`, `E-RUN-023`, `E-RUN-028`, `E-IO-003`.
 */
export async function cancel(
  context: CliContext,
  flags: CancelFlags,
  first: string,
  second: string | undefined,
): Promise<number> {
  if ((flags.url === undefined) !== (second !== undefined)) {
    throw new UsageError("mur cancel takes <SESSION> <TASK_ID>, or --url <host:port> <TASK_ID>");
  }
  const taskId = second ?? first;
  const [door, name] = flags.url === undefined
    ? await findServingSession(first, context).then((found): [DoorClient, string] => [found.door, found.id])
    : [doorAtUrl(flags.url, context), flags.url] as [DoorClient, string];
  const answer = await door.call("CancelTask", { id: taskId }).catch((error) => {
    throw doorError(error, name);
  });
  if (answer.ok) {
    const task = parseTask(answer.result);
    if (task === null) throw new MurError("E-IO-003", `the door of ${name} answered CancelTask with what is no task`);
    report(context, taskId, task.state, residueLines(task.residue));
    return 0;
  }
  const { code, metadata } = answer.failure;
  if (code === RPC_CODE.notCancelable) {
    report(context, taskId, taskWord(metadata.state) ?? "ended", []);
    return 0;
  }
  if (code === RPC_CODE.taskNotFound) throw new MurError("E-IO-003", `${name} holds no task '${taskId}'`);
  throw rpcError(answer.failure, `CancelTask at ${name}`);
}

function report(context: CliContext, task: string, state: string, residue: readonly string[]): void {
  context.stdout.line(`task:    ${task}`);
  context.stdout.line(`state:   ${state}`);
  for (const line of residue) context.stdout.line(line);
}
