/**
 * A bare server in a process of its own, which benchmarks of a door compare theirs with.
 *
 * @module
 */

/** A running bare server. */
export interface BarePeer extends AsyncDisposable {
  readonly port: number;
}

/**
 * Starts one.
 *
 * @param source Program text; the first thing it prints is its port.
 * @param argument Its only argument.
 */
export async function startBarePeer(source: string, argument: string): Promise<BarePeer> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(file, source);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-config", "-A", file, argument],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const port = Number((await reader.read()).value);
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
      await Deno.remove(file);
    },
  };
}
