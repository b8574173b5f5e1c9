import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { childEnvironment, type ChildEnvironmentFacts } from "./child_environment.ts";
import { parseSpawnerHandle } from "./spawner_handle.ts";

const HANDLE = { url: "http://localhost:1", sessionId: newId("ses"), contextId: "c", delegationId: newId("dlg") };

function environment(more: Partial<Omit<ChildEnvironmentFacts, "held">> & { held?: Record<string, string> } = {}) {
  const held = { PATH: "/bin", HOME: "/home/ada", ...more.held };
  return childEnvironment({
    parentAllow: [],
    childAllow: [],
    daemon: "http://127.0.0.1:7700",
    handle: HANDLE,
    formationId: null,
    ...more,
    held: { get: (name) => (held as Record<string, string>)[name] },
  });
}

Deno.test("a child holds the nine names and no other", () => {
  const held = {
    USER: "ada",
    LOGNAME: "ada",
    SECRET: "s",
    MURMUR_SPAWNER: "the parent's",
    MURMUR_SPAWNER_LIFELINE: "9",
    MURMUR_FORMATION_CHANNEL: "5",
    LD_PRELOAD: "/x.so",
  };
  const made = environment({ held, formationId: "frm_1" });
  assert.deepEqual(Object.keys(made).sort(), [
    "HOME",
    "LOGNAME",
    "MURMUR_FORMATION_ID",
    "MURMUR_HOST_WARNINGS_REPORTED",
    "MURMUR_ROOST_URL",
    "MURMUR_SPAWNER",
    "MURMUR_SPAWNER_LIFELINE",
    "PATH",
    "USER",
  ]);
  assert.equal(made.MURMUR_HOST_WARNINGS_REPORTED, "1");
  assert.equal(made.MURMUR_SPAWNER_LIFELINE, "3");
  assert.deepEqual(parseSpawnerHandle(made.MURMUR_SPAWNER), HANDLE);
  assert.ok(!("USER" in environment()) && !("LOGNAME" in environment()), "what the parent does not hold");
  assert.ok(!("MURMUR_FORMATION_ID" in environment({ held: { MURMUR_FORMATION_ID: "frm_2" } })), "outside a formation");
});

Deno.test("another name passes when both manifests list it and the parent holds it", () => {
  const held = { KEY: "k", OTHER: "o", EMPTY: "" };
  const listed = (parentAllow: string[], childAllow: string[]) => environment({ held, parentAllow, childAllow });
  assert.equal(listed(["KEY"], ["KEY"]).KEY, "k");
  assert.equal(listed(["EMPTY"], ["EMPTY"]).EMPTY, "");
  assert.ok(!("KEY" in listed([], ["KEY"])));
  assert.ok(!("KEY" in listed(["KEY"], [])));
  assert.ok(!("MISSING" in listed(["MISSING"], ["MISSING"])));
});

Deno.test("a child that lists a name of the runtime's gets the runtime's value, and no token of a formation", () => {
  const names = Object.keys(environment({ formationId: "frm_1", held: { USER: "u", LOGNAME: "l" } }));
  const taken = ["MURMUR_FORMATION_CHANNEL", "MURMUR_FORMATION_PEERS", "MURMUR_FORMATION_LIFELINE"];
  const held = Object.fromEntries([...names, ...taken].map((name) => [name, `the parent's ${name}`]));
  const listed = [...names, ...taken];
  const made = environment({ held, parentAllow: listed, childAllow: listed });
  assert.deepEqual(
    Object.entries(made).filter(([, value]) => value.startsWith("the parent's")).map(([name]) => name).sort(),
    ["HOME", "LOGNAME", "PATH", "USER"],
  );
  for (const name of taken) assert.ok(!(name in made), name);
});
