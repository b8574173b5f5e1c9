/**
 * A process that never asks for its child, which so becomes a zombie.
 *
 * @module
 */

/** The two of them; both are gone once it is disposed of. */
export interface NeglectfulParent extends AsyncDisposable {
  readonly pid: number;
  /** Of the child, which still runs for a moment. */
  readonly child: number;
  /** Kills the parent; whoever it left is waited for elsewhere. */
  end(): Promise<void>;
}

/** @param seconds How long its child runs. */
export async function neglectfulParent(seconds: number): Promise<NeglectfulParent> {
  // The shell forks a child and then becomes a program that knows nothing of it.
  const parent = new Deno.Command("sh", {
    args: ["-c", `sleep ${seconds} & echo $!; exec sleep 600`],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const reader = parent.stdout.getReader();
  const child = Number(new TextDecoder().decode((await reader.read()).value));
  let ended: Promise<void> | null = null;
  const end = () =>
    ended ??= (async () => {
      parent.kill("SIGKILL");
      await Promise.all([parent.status, reader.cancel()]);
    })();
  return { pid: parent.pid, child, end, [Symbol.asyncDispose]: end };
}
