/**
 * What a delegated child is handed of its parent's environment, seen by the child's own process (roost seed "The child's
 * environment", spec roost 10.1).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { type AgentRun, capsule, shownResults } from "../support/agent_project.ts";
import { delegate, delegates, delegating, delegationWorld, worker } from "../support/delegation_world.ts";
import { murCommand } from "../support/mur_process.ts";

/** What a parent may hold that is no child's, whatever either manifest says. */
const HELD: Readonly<Record<string, string>> = {
  SECRET_KEY: "of the parent",
  FOR_PARENT: "listed by the parent alone",
  LD_LIBRARY_PATH: "/nowhere",
  SSH_AUTH_SOCK: "/nowhere/agent",
  XDG_RUNTIME_DIR: "/nowhere",
  MURMUR_HOST_WARNINGS_REPORTED: "",
  MURMUR_A2A_TIMEOUT_SECS: "40",
  MURMUR_DELEGATION_TIMEOUT_SECS: "50",
};

Deno.test("a child's process holds the names of the runtime, what both manifests list, and nothing else", async () => {
  const grants = (allow: readonly string[]): JsonObject => ({ env: { allow }, shell: { allow: ["env"] } });
  // A name of the runtime's may be listed: the child gets the runtime's value for it.
  const both = ["FOR_BOTH", "UNHELD", "MURMUR_HOST_WARNINGS_REPORTED"];
  await using world = await delegationWorld(
    capsule(delegating(["local/worker"], { name: "boss", capabilities: grants([...both, "FOR_PARENT"]) })),
    [worker("worker", { capabilities: grants(both) })],
  );
  const { root, home } = world.project;
  // The checkout's package cache is what the test itself adds, behind the record of what was handed over.
  const binary = async (record: string) => {
    const path = `${root}/recording-mur-${record}`;
    const command = murCommand([]).map((word) => `'${word}'`).join(" ");
    const denoDir = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
    await Deno.writeTextFile(
      path,
      `#!/bin/sh\ncat /proc/$$/environ > '${root}/${record}'\nDENO_DIR='${denoDir}' exec ${command} "$@"\n`,
      { mode: 0o755 },
    );
    return path;
  };
  const task: JsonObject = { turns: [{ calls: [{ name: "env", input: { command: "env" } }] }, { show: "results" }] };
  const start = async (record: string, more: Readonly<Record<string, string>>): Promise<AgentRun> => {
    const env = { ...HELD, FOR_BOTH: "for both", MURMUR_MUR_BINARY: await binary(record), ...more };
    const run = await world.run(delegates(delegate("worker", task)), env);
    assert.equal(run.status, 0, run.stderr);
    return run;
  };
  const [full, plain] = await Promise.all([
    // The launcher of an installed program sets the last one for itself.
    start("full", { USER: "ada", LOGNAME: "ada", MURMUR_CACHE_DIR: `${home}/.cache/murmur` }),
    start("plain", {}),
  ]);
  const handed = (record: string) =>
    Object.fromEntries(
      Deno.readTextFileSync(`${root}/${record}`).split("\0").filter((line) => line !== "").map((line) => {
        const equals = line.indexOf("=");
        return [line.slice(0, equals), line.slice(equals + 1)] as const;
      }),
    );
  const expected = (run: AgentRun, { MURMUR_SPAWNER }: Readonly<Record<string, string>>) => {
    const spawner = JSON.parse(MURMUR_SPAWNER!) as JsonObject;
    const [child] = world.children(run.trace);
    assert.match(String(spawner.url), /^http:\/\/localhost:\d+$/);
    assert.deepEqual({ ...spawner, url: "" }, {
      url: "",
      session_id: run.sessionId,
      context_id: run.events("task_start")[0]!.context_id,
      delegation_id: child!.delegationId,
    });
    return {
      PATH: Deno.env.get("PATH"),
      HOME: home,
      MURMUR_ROOST_URL: world.daemon.url,
      MURMUR_HOST_WARNINGS_REPORTED: "1",
      MURMUR_SPAWNER_LIFELINE: "3",
      MURMUR_SPAWNER,
      FOR_BOTH: "for both",
    };
  };
  const [ofFull, ofPlain] = [handed("full"), handed("plain")];
  assert.deepEqual(ofPlain, expected(plain, ofPlain));
  assert.deepEqual(ofFull, { ...expected(full, ofFull), USER: "ada", LOGNAME: "ada" });

  // A command of the child sees less again.
  const [child] = world.children(full.trace);
  const [shown] = shownResults({ result: Deno.readTextFileSync(`${child!.records}/out/result.txt`) });
  const names = shown!.text.split("\n").map((line) => line.split("=")[0]!);
  assert.ok(names.includes("MURMUR_SESSION_ID"), shown!.text);
  const hidden = [
    "SECRET_KEY",
    "FOR_PARENT",
    "MURMUR_SPAWNER",
    "MURMUR_SPAWNER_LIFELINE",
    "MURMUR_ROOST_URL",
    "LOGNAME",
  ];
  assert.deepEqual(names.filter((name) => hidden.includes(name)), []);
});
