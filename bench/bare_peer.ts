/**
 * A bare server in a process of its own, which benchmarks of a door compare theirs with.
 *
 * @module
 */
import { type ListeningProcess, startListening } from "../roost/testing/listening_process.ts";

/** A running bare server. */
export type BarePeer = ListeningProcess;

/**
 * Starts one.
 *
 * @param source Program text; the first thing it prints is its port.
 * @param args Its arguments.
 * @param under A command line in front of the program.
 */
export async function startBarePeer(
  source: string,
  args: readonly string[],
  under: readonly string[] = [],
): Promise<BarePeer> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(file, source);
  const peer = await startListening([
    ...under,
    Deno.execPath(),
    "run",
    "--quiet",
    "--no-config",
    "-A",
    file,
    ...args,
  ]);
  return {
    ...peer,
    async [Symbol.asyncDispose]() {
      await peer[Symbol.asyncDispose]();
      await Deno.remove(file);
    },
  };
}
