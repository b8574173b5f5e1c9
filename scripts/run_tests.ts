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
import { asOrdinaryUser, runTests, type TestCount } from "./test_runner.ts";

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
const chosen = Deno.args.length > 0 ? Deno.args : SUITES;

let total: TestCount = await runTests({ directory: root, paths: chosen });
if (Deno.uid() === 0 && Deno.args.length === 0) {
  console.log("\nonce more as an ordinary user:");
  const again = await asOrdinaryUser(
    root,
    (user) => runTests({ directory: user.checkout, paths: UNPRIVILEGED_SUITES, user }),
  );
  total = { passed: total.passed + again.passed, failed: total.failed + again.failed };
}
console.log(`${total.passed} passed, ${total.failed} failed`);
Deno.exit(total.failed > 0 ? 1 : 0);
