/**
 * Runs the tests: all of them as the current user and, when that is root, the suites about containment, installation and
 * sessions once more as an ordinary user, since limits and permissions mean different things to the two.
 *
 * Usage: `deno task test [path…]`
 *
 * The last line is `N passed, N failed` over both runs.
 *
 * @module
 */
import { asOrdinaryUser, denoJob, runJobs, runTests, type TestCount, testJobs, typeCheck } from "./test_runner.ts";

/** Every room with tests that need nothing but Node, git and a C compiler. */
const SUITES = [
  "base",
  "artifact",
  "launcher",
  "sandbox",
  "planes",
  "toolchain",
  "runtime",
  "roost",
  "cli",
  "components",
  "guest",
  "scripts",
  "tests/escape",
  "tests/end_to_end",
];

/** What is run again as an ordinary user. */
const UNPRIVILEGED_SUITES = [
  "base/rooted_dir_test.ts",
  "base/atomic_file_test.ts",
  "base/running_record_test.ts",
  "base/tree_copy_test.ts",
  "runtime/delegation",
  "cli/new_test.ts",
  "artifact/store_test.ts",
  "artifact/lockfile_test.ts",
  "launcher",
  "sandbox",
  "planes/export_root_test.ts",
  "planes/file_reader_test.ts",
  "planes/listing_test.ts",
  "runtime/component",
  "tests/escape",
  "runtime/session/command_containment_test.ts",
  "tests/end_to_end",
];

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
