/**
 * Runs the benchmarks, each against its peer in one run, and prints figures and budgets.
 *
 * Usage: `deno task bench [name…]`
 *
 * @module
 */
import { type BenchResult, formatResult, missesBudget } from "./result.ts";

/** Every benchmark by the name it is chosen with. */
const BENCHMARKS: Readonly<Record<string, () => Promise<{ run(): Promise<BenchResult> }>>> = {
  "start-up": () => import("./start_up.ts"),
  "installed-start": () => import("./installed_start.ts"),
  "running-list": () => import("./running_list.ts"),
  "component-call": () => import("./component_call.ts"),
  "token-count": () => import("./token_count.ts"),
  "long-session": () => import("./long_session.ts"),
  "many-capsules": () => import("./many_capsules.ts"),
  "confine": () => import("./confine.ts"),
  "session-command": () => import("./session_command.ts"),
  "egress": () => import("./egress.ts"),
  "door-calls": () => import("./door_calls.ts"),
  "door-streams": () => import("./door_streams.ts"),
  "resource-read": () => import("./resource_read.ts"),
  "resource-list": () => import("./resource_list.ts"),
  "handles": () => import("./handles.ts"),
  "roost-spawn": () => import("./roost_spawn.ts"),
  "workdir-snapshot": () => import("./workdir_snapshot.ts"),
  "child-launch": () => import("./child_launch.ts"),
  "delegation-burst": () => import("./delegation_burst.ts"),
  "roost-start": () => import("./roost_start.ts"),
  "roost-storm": () => import("./roost_storm.ts"),
  "roost-tokens": () => import("./roost_tokens.ts"),
};

const names = Deno.args.length > 0 ? Deno.args : Object.keys(BENCHMARKS);
let missed = 0;
for (const name of names) {
  const load = BENCHMARKS[name];
  if (load === undefined) {
    console.error(`no benchmark is called '${name}': ${Object.keys(BENCHMARKS).join(", ")}`);
    Deno.exit(2);
  }
  const result = await (await load()).run();
  console.log(formatResult(result));
  missed += result.figures.filter(missesBudget).length;
}
if (missed > 0) console.log(`${missed} budget(s) missed`);
Deno.exit(missed > 0 ? 1 : 0);
