/**
 * Launches a child that lists its descriptors and then waits for the end of its lifeline; prints what the child said and
 * waits to be killed.
 *
 * @module
 */
import { hardenProcess } from "../../../base/process_hardening.ts";
import { SpawnedProcess } from "../spawned_process.ts";

hardenProcess();
const script = "ls -m /proc/$$/fd; while read -r line <&3; do :; done";
const child = new SpawnedProcess({
  command: "/bin/bash",
  args: ["-c", script],
  env: { PATH: "/usr/bin:/bin" },
  cwd: "/",
  input: "",
  bounds: { childStopGrace: 1_000, childLastWords: 100 },
  nothingNew: new Set(),
  diagnostics: () => {},
});
console.log(JSON.stringify({ pid: child.pid, descriptors: await child.firstLine }));
await child.exited;
