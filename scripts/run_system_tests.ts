/**
 * Runs the tests that need Debian packages. Every package of `.ci/packages` must be installed: a missing one is a failure,
 * never a skipped test.
 *
 * Usage: `deno task test:system`
 *
 * The last line is `N passed, N failed`.
 *
 * @module
 */
import { runJobs, testJobs, typeCheck } from "./test_runner.ts";

/** What takes longest begins first, so that nothing is left to wait for at the end. */
const LONGEST = ["delegation_faults", "reverse_proxy", "installed_programs", "killed_sessions"]
  .map((name) => `tests/system/${name}_test.ts`);

const root = decodeURIComponent(new URL("..", import.meta.url).pathname).replace(/\/$/, "");

async function isInstalled(name: string): Promise<boolean> {
  try {
    const { success, stdout } = await new Deno.Command("dpkg-query", {
      // A line for each architecture it is there for.
      args: ["-W", "-f=${db:Status-Status}\\n", name],
      stderr: "null",
    }).output();
    return success && new TextDecoder().decode(stdout).split("\n").includes("installed");
  } catch {
    return false;
  }
}

const listed = (await Deno.readTextFile(`${root}/.ci/packages`)).split("\n")
  .map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
const missing: string[] = [];
for (const name of listed) if (!await isInstalled(name)) missing.push(name);
for (const name of missing) console.error(`the Debian package ${name} is not installed`);

const count = await runJobs([
  typeCheck(root),
  ...await testJobs({ directory: root, paths: [...LONGEST, "tests/system"] }, 1),
]);
console.log(`${count.passed} passed, ${count.failed + missing.length} failed`);
Deno.exit(count.failed + missing.length > 0 ? 1 : 0);
