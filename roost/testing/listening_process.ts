/**
 * A server in a process of its own, and what it costs.
 *
 * @module
 */

/** A process that listens. */
export interface ListeningProcess extends AsyncDisposable {
  readonly port: number;
  readonly pid: number;
}

/** Starts a program; the first thing it prints is its port. */
export async function startListening([program, ...args]: readonly string[]): Promise<ListeningProcess> {
  const child = new Deno.Command(program!, { args, stdin: "null", stdout: "piped", stderr: "inherit" }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const port = Number((await reader.read()).value);
  return {
    port,
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
    },
  };
}

/** Processor time of a process so far, in milliseconds; clock ticks are 10 ms on Linux. */
export function processorMs(pid: number): number {
  const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
