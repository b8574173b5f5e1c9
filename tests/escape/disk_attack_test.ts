/**
 * Ways to fill a disk past `workdir_max_bytes` where a walk through the work folder finds nothing, by commands of real
 * sessions (spec containment 14.3).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { agentProject, capsule } from "../support/agent_project.ts";
import { AS_NOBODY } from "../support/mur_process.ts";

const MANY = 60_000_000;
const CEILING = 20_000_000;
/** Longer than the guard takes to look. */
const WAIT = "sleep 25";

/** Scripts by what they fill. */
const ATTACKS: Readonly<Record<string, string>> = {
  "into a file": `head -c ${MANY} /dev/zero > big; ${WAIT}`,
  "into a file without a name": `exec 3> big; rm big; head -c ${MANY} /dev/zero >&3; ${WAIT}`,
  "into files of several programs without a name": `for i in 1 2 3; do (exec 3> big$i; rm big$i; head -c ${
    MANY / 3
  } /dev/zero >&3; ${WAIT}) & done; wait`,
  "into a folder that is closed": `mkdir d; head -c ${MANY} /dev/zero > d/big; chmod 0 d; ${WAIT}`,
  "into a folder in folders that are closed":
    `mkdir -p d/e/f; head -c ${MANY} /dev/zero > d/e/f/big; chmod 0 d/e/f; chmod 200 d/e; chmod 400 d; ${WAIT}`,
  "into its home and its temporary folder": `head -c ${MANY / 2} /dev/zero > "$HOME/big"; head -c ${
    MANY / 2
  } /dev/zero > /tmp/big; ${WAIT}`,
  "into files of a byte each": `mkdir d; cd d; i=0; while [ $i -lt ${
    MANY / 10_000
  } ]; do echo > $i; i=$((i+1)); done; ${WAIT}`,
  "into its output": `head -c ${MANY} /dev/zero; ${WAIT}`,
};

const HARMLESS = `head -c ${CEILING / 2} /dev/zero > big; exec 3> b; rm b; head -c ${CEILING / 4} /dev/zero >&3; ` +
  "mkdir d; chmod 0 d; sleep 12; echo fine";

async function session(script: string, under: readonly string[]) {
  await using project = await agentProject(capsule({
    capabilities: {
      shell: { allow: ["sh", "head", "rm", "sleep", "chmod", "mkdir"] },
      resources: { workdir_max_bytes: CEILING },
    },
    lifecycle: { shell_grace_secs: 60 },
  }));
  const calls: JsonObject[] = [{ name: "sh", input: { command: script } }];
  const run = await project.run({ under, task: { turns: [{ calls }, { show: "results" }] } });
  await new Deno.Command("chmod", { args: ["-R", "u+rwx", project.project] }).output();
  return run;
}

for (const [who, under] of [["this user", []], ["a user without any capability", AS_NOBODY]] as const) {
  Deno.test(`${who}: more than the work folder may hold is found wherever a command puts it`, async () => {
    const names = Object.keys(ATTACKS);
    const [harmless, ...attacks] = await Promise.all(
      [HARMLESS, ...Object.values(ATTACKS)].map((script) => session(script, under)),
    );
    assert.equal(harmless!.status, 0, harmless!.stderr);
    assert.match(harmless!.result!, /fine/);
    for (const [index, run] of attacks.entries()) {
      assert.equal(run.status, 1, names[index]);
      assert.match(run.stderr, /^error\[E-RUN-013\]: session workdir grew to \d{8,} bytes/m, names[index]);
    }
  });
}
