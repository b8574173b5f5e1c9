/**
 * Runs the tests: all of them as the current user and, when that is root, the suites about containment, installation and
 * sessions once more as an ordinary user, since limits and permissions mean different things to the two.
 *
 * Usage: `deno task test [path…]`. What is named runs in one process that shows each test as it ends, as this user. All of
 * it runs in several, a few at a time, each shown when it ends.
 *
 * The last line is `N passed, N failed` over both runs.
 *
 * @module
 */
import { asOrdinaryUser, denoJob, runJobs, runTests, type TestCount, testJobs, typeCheck } from "./test_runner.ts";

/**
 * Every room with tests that need nothing but Node, git and a C compiler. Those that take long begin early, but after what
 * they start from is made.
 */
const SUITES = [
  "base",
  "artifact",
  "tests/end_to_end",
  "tests/escape",
  "launcher",
  "sandbox",
  "runtime",
  "roost",
  "cli",
  "scripts",
  "toolchain",
  "components",
  "guest",
  "planes",
];

/**
 * What is run again as an ordinary user: wherever files, limits, signals, processes or namespaces of the user matter. What a
 * session computes, says to a model or answers at its door is the same for both.
 */
const UNPRIVILEGED_SUITES = [
  ...endToEnd([
    "contained_commands",
    "conversation",
    "credentials",
    "delegation_endings",
    "delegation_faults",
    "hostile_home",
    "interruption",
    "launch_inputs",
    "launch_refusals",
    "network_access",
    "peer_files",
    "resource_planes",
    "roost_start",
    "run_limits",
    "run_trace",
    "running_capsule",
    "script_capsule",
    "spawned_session",
    "supply_chain",
    "tool_calls",
    "trusted_files",
  ]),
  "tests/escape",
  "launcher",
  "sandbox",
  "runtime/session/command_containment_test.ts",
  ...["files", "limits", "process", "walls"].map((name) => `runtime/component/component_${name}_test.ts`),
  "runtime/component/host_ahead_test.ts",
  "runtime/component/transpile_cache_test.ts",
  "runtime/delegation",
  "cli/new_test.ts",
  "artifact/lockfile_test.ts",
  "artifact/store_test.ts",
  "base/atomic_file_test.ts",
  "base/rooted_dir_test.ts",
  "base/running_record_test.ts",
  "base/tree_copy_test.ts",
  "planes/export_root_test.ts",
  "planes/file_reader_test.ts",
  "planes/listing_test.ts",
];

function endToEnd(names: readonly string[]): string[] {
  return names.map((name) => `tests/end_to_end/${name}_test.ts`);
}

const root = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

async function everything(): Promise<TestCount> {
  const first = await runJobs([
    denoJob("what the end-to-end tests start from", root, ["run", "-A", "tests/support/prepared_home.ts"]),
    typeCheck(root),
    ...await testJobs({ directory: root, paths: SUITES }),
  ]);
  if (Deno.uid() !== 0) return first;
  console.log("\nonce more as an ordinary user:");
  const again = await asOrdinaryUser(
    root,
    async (user) => await runJobs(await testJobs({ directory: user.checkout, paths: UNPRIVILEGED_SUITES, user })),
  );
  return { passed: first.passed + again.passed, failed: first.failed + again.failed };
}

const { passed, failed } = Deno.args.length > 0
  ? await runTests({ directory: root, paths: Deno.args })
  : await everything();
console.log(`${passed} passed, ${failed} failed`);
Deno.exit(failed > 0 ? 1 : 0);
