/**
 * Starts the capsule beside this file, gives it two tasks, shows what it does, and stops it.
 *
 * Usage: `deno run -A examples/embedding/main.ts`, once `murmur-driver-scripted` is installed (docs/embedding.md).
 */
import { launchCapsule, MurError } from "../../mod.ts";

const here = decodeURIComponent(new URL(".", import.meta.url).pathname).replace(/\/$/, "");

try {
  await using capsule = await launchCapsule({
    cwd: here,
    workdir: Deno.cwd(),
    onWarning: ({ code, message }) => console.error(`${code}: ${message}`),
  });
  console.log(`${capsule.name} serves on ${capsule.url}`);
  for (const text of ["What is here?", "And now?"]) {
    const task = capsule.send(text);
    for await (const event of task.events) {
      if (event.type === "status") console.log(`  ${event.state}: ${event.message}`);
      if (event.type === "artifact") console.log(`  ${event.toolName} was called`);
    }
    const { state, response } = await task.result;
    console.log(`${text} ${state === "completed" ? response : state}`);
  }
  console.log(`The trace is in ${capsule.recordsDir}`);
} catch (error) {
  if (!(error instanceof MurError)) throw error;
  console.error(`${error.code}: ${error.message}`);
  Deno.exitCode = 1;
}
