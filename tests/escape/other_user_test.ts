/**
 * What another user of the machine gets at of a delegation that runs: its folders and records, its processes, the daemon and
 * the parent's door (roost seed "The completion path", spec roost 1, 12, 16.3).
 *
 * Every directory above what Murmur makes is open to all here, so that only its own modes stand before them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json_value.ts";
import { capsule } from "../support/agent_project.ts";
import {
  childProcesses,
  delegate,
  delegates,
  delegating,
  delegationWorld,
  readTrace,
  worker,
} from "../support/delegation_world.ts";
import { doorCalls, message, type RpcAnswer } from "../support/door_session.ts";
import { stillRunning, until } from "../support/process_tree.ts";

const OTHER = "65534";
const STARTS_MS = 40_000;

/** Runs each line as another user; the lines that succeeded. */
async function succeed(lines: readonly string[]): Promise<string[]> {
  const script = lines.map((line, index) => `( ${line} ) >/dev/null 2>&1 && echo ${index}`).join("\n");
  const { stdout } = await new Deno.Command("setpriv", {
    args: [`--reuid=${OTHER}`, `--regid=${OTHER}`, "--clear-groups", "--", "sh", "-c", `${script}\nexit 0`],
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
  }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "").map((line) => lines[Number(line)]!);
}

Deno.test({
  name: "another user reads no file and no process of a delegation, reports for no child and redeems no approval",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const boss = capsule(delegating(["local/worker"], { name: "boss" }));
    await using world = await delegationWorld(boss, [worker("worker")]);
    const { root, home, project, murmur } = world.project;
    for (const path of [root, home, project, murmur]) Deno.chmodSync(path, 0o755);
    const says = (text: string, delayMs: number): JsonObject => ({ turns: [{ delayMs, text }] });
    const run = await world.start(delegates(
      delegate("worker", says("the answer", 0)),
      delegate("worker", says("never", 120_000)),
    ));
    await until("one child is over, the other works", () => {
      const children = world.children(readTrace(run.records));
      return children.length === 2 && children[0]!.completion?.delivered === true &&
        children[1]!.trace.some(({ event_type }) => event_type === "task_start");
    }, STARTS_MS);
    const [over, working] = world.children(readTrace(run.records));
    const [child] = childProcesses(run.pid);
    const processes = [run.pid, child!.pid, world.daemon.child.pid];

    // What anybody can do shows that the attempts below would succeed if they could.
    assert.equal((await succeed([`ls ${home}`, `cat /proc/${child!.pid}/cmdline`])).length, 2);
    const files = [over!, working!].flatMap(({ workdir, records }) => [
      `ls ${workdir}`,
      `touch ${workdir}/x`,
      `ls ${records}`,
      `cat ${records}/trace.jsonl`,
      `cat ${records}/completion.json`,
      `echo {} > ${records}/completion.json`,
      `cat ${records}/out/result.txt`,
    ]);
    const attempts = [
      ...files,
      `ls ${run.records}`,
      `ls ${run.records}/children`,
      `mkdir ${run.records}/children/worker-0123456789abcdef`,
      `ls ${murmur}/running`,
      `ls ${murmur}/sessions/${run.sessionId}`,
      ...processes.flatMap((pid) => [
        `cat /proc/${pid}/environ`,
        `ls /proc/${pid}/fd`,
        `cat /proc/${pid}/mem`,
        `readlink /proc/${pid}/cwd`,
        `kill -0 ${pid}`,
      ]),
      // The lifeline, the pipe the approval came by, and what the child says.
      ...[0, 1, 2, 3].flatMap((fd) => [
        `timeout 1 head -c 1 /proc/${child!.pid}/fd/${fd}`,
        `: > /proc/${child!.pid}/fd/${fd}`,
      ]),
    ];
    assert.deepEqual(await succeed(attempts), []);

    // Command lines are open to all: they name the parent's session, and no token.
    for (const pid of processes) assert.doesNotMatch(Deno.readTextFileSync(`/proc/${pid}/cmdline`), /ms[ac]1\./);

    // A door and a daemon see no user: what is asked there counts by what it proves.
    const door = doorCalls(Number(run.url.slice(run.url.lastIndexOf(":") + 1)));
    const report = (session: string, delegation: string): Promise<RpcAnswer> =>
      door.rpc("SendMessage", message("status: ok"), {
        "x-murmur-task-origin": "completion",
        "x-murmur-completion-session": session,
        "x-murmur-delegation-id": delegation,
      });
    assert.equal((await report(newId("ses"), newId("dlg"))).error?.code, -31001);
    assert.equal((await report(run.sessionId, newId("dlg"))).error?.code, -31002);
    const payload = btoa(JSON.stringify({ v: 1, sid: run.sessionId, depth: 9 })).replace(/=+$/, "");
    const forged = `msa1.${payload}.${"A".repeat(43)}`;
    const claimed = await world.daemon.register(newId("ses"), "worker", forged, "0.1.0");
    assert.deepEqual([claimed.status, Object.keys(claimed.body)], [403, ["error"]]);
    assert.equal((await world.daemon.spawn(`msc1.e30.${"A".repeat(43)}`, "worker", "0.1.0")).status, 403);
    assert.equal((await world.daemon.deregister(`msc1.e30.${"A".repeat(43)}`)).status, 403);

    // None of it told on the child or its parent.
    assert.equal(stillRunning([child!]).length, 1);
    assert.deepEqual(readTrace(run.records).filter(({ event_type }) => event_type === "delegation").length, 1);
    run.kill("SIGTERM");
    const ended = await run.finish();
    assert.deepEqual(ended.events("delegation").map(({ outcome }) => outcome), ["ok", "terminated"]);
  },
});
