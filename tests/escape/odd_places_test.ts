/**
 * Names and places that a launch did not expect: of the work folder, of what lies in it, and in what the agent says.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { agentProject, capsule, shownResults } from "../support/agent_project.ts";
import { canMount } from "../support/own_mounts.ts";

const FLOORS = ["scoped", "sealed"] as const;
const TOOLS = ["sh", "cat", "ls", "mkdir", "mv", "ln", "rm", "cp"];
const sh = (command: string): JsonObject => ({ name: "sh", input: { command } });
const turnOf = (...calls: readonly JsonObject[]): JsonObject => ({ turns: [{ calls }, { show: "results" }] });
const hostile = () => capsule({ capabilities: { shell: { allow: TOOLS } } });
const stdout = ({ text }: { readonly text: string }) => /\nStdout:\n([\s\S]*?)\nStderr:\n/.exec(text)?.[1] ?? text;

/** In front of a command: binds a directory to two places, to the second read-only. */
const BINDING = [
  "unshare",
  "-r",
  "-m",
  "sh",
  "-c",
  'mount --bind "$1" "$2" && mount --bind "$1" "$3" && mount -o remount,bind,ro "$3" && shift 3 && exec "$@"',
  "sh",
];

/** What a command must be able to do in its work folder, and what not. */
const EVERYDAY = "echo x > own && cat own && mkdir d && mv own d/own && cat d/own; echo y > murmur.yaml; " +
  "echo y > ../beside; ls";

for (const floor of FLOORS) {
  Deno.test(`${floor}: a work folder may have any name`, async () => {
    // No account file holds a line break.
    const lines = floor === "sealed" ? "" : "\n";
    for (const name of [`-n a${lines} b* ü {} 'it' "$HOME" \`x\` \\`, "x".repeat(200)]) {
      await using project = await agentProject(hostile());
      const workdir = `${project.root}/${name}`;
      await Deno.mkdir(workdir);
      const run = await project.run({ workdir, args: ["--containment", floor], task: turnOf(sh(EVERYDAY)) });
      assert.equal(run.status, 0, `${name}: ${run.stderr}`);
      assert.equal(stdout(shownResults(run)[0]!), "x\nx\nd\nmurmur.yaml\n", name);
      await assert.rejects(Deno.stat(`${project.root}/beside`), Deno.errors.NotFound);
    }
  });

  Deno.test(`${floor}: a work folder named by a link is the folder it leads to`, async () => {
    await using project = await agentProject(hostile());
    // Not below /tmp, which is the session's own for a command.
    const root = await Deno.makeTempDir({ dir: "/var/tmp" });
    await using _root = { [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }) };
    await Deno.mkdir(`${root}/real/work`, { recursive: true });
    await Deno.symlink("real", `${root}/alias`);
    const workdir = `${root}/alias/work`;
    const run = await project.run({
      workdir,
      args: ["--containment", floor],
      task: turnOf(sh(EVERYDAY), sh(`echo z > '${workdir}/named' && cat '${root}/real/work/named'`)),
    });
    assert.equal(run.status, 0, run.stderr);
    const said = shownResults(run).map(stdout);
    assert.deepEqual(said, ["x\nx\nd\nmurmur.yaml\n", "z\n"]);
    await assert.rejects(Deno.stat(`${root}/real/beside`), Deno.errors.NotFound);
  });

  Deno.test({
    name: `${floor}: what is mounted in a work folder is held as the rest of it is`,
    ignore: !canMount(),
    fn: async () => {
      await using project = await agentProject(hostile());
      const [workdir, other] = [`${project.root}/work`, `${project.root}/other`];
      for (const path of [`${workdir}/mounted`, `${workdir}/fixed`, other]) await Deno.mkdir(path, { recursive: true });
      await Deno.writeTextFile(`${other}/there`, "there");
      await Deno.copyFile("/bin/cat", `${other}/cat`);
      const run = await project.run({
        workdir,
        under: [...BINDING, other, `${workdir}/mounted`, `${workdir}/fixed`],
        args: ["--containment", floor],
        task: turnOf(
          sh("cat mounted/there; echo x > mounted/new && cat mounted/new"),
          sh("cat fixed/there; echo x > fixed/newer"),
          sh("mounted/cat there"),
          sh("mv mounted elsewhere; rm -rf mounted; ls -d mounted"),
        ),
      });
      assert.equal(run.status, 0, run.stderr);
      const said = shownResults(run).map(stdout);
      assert.equal(said[0], "therex\n");
      assert.equal(said[1], "there");
      assert.deepEqual(run.events("shell").slice(1, 3).map(({ exit_code }) => exit_code), [2, 126]);
      assert.equal(said[3], "mounted\n");
      assert.deepEqual([...Deno.readDirSync(other)].map(({ name }) => name).sort().includes("newer"), false);
    },
  });

  Deno.test(`${floor}: a folder that is granted for reading stays so around the work folder in it`, async () => {
    await using project = await agentProject(hostile());
    const data = `${project.root}/data`;
    await Deno.mkdir(`${data}/work`, { recursive: true });
    await Deno.writeTextFile(`${data}/file`, "data");
    await Deno.writeTextFile(
      `${project.murmur}/config.yaml`,
      `host_paths:\n  - path: ${data}\n    access: read\n`,
    );
    const run = await project.run({
      workdir: `${data}/work`,
      args: ["--containment", floor],
      task: turnOf(sh(EVERYDAY), sh("cat ../file; echo x >> ../file; rm ../file; mv ../file taken; ln ../file linked")),
    });
    assert.equal(run.status, 0, run.stderr);
    const said = shownResults(run).map(stdout);
    assert.deepEqual(said, ["x\nx\nd\nmurmur.yaml\n", "data"]);
    assert.equal(await Deno.readTextFile(`${data}/file`), "data");
    assert.deepEqual([...Deno.readDirSync(data)].map(({ name }) => name).sort(), ["file", "work"]);
  });
}

Deno.test("what an agent says cannot end a record and begin another", async () => {
  await using project = await agentProject(hostile());
  const run = await project.run({
    args: ["--containment", "scoped"],
    task: turnOf(
      sh("echo a\u0000tier\u0000env"),
      { name: "cat", input: { command: "x\u0000rw\u0000exec\u0000/" } },
      sh("echo 'a\nunix\n1\nrw\nexec\n/'"),
      sh("echo \ud800"),
      { name: "sh\u0000", input: { command: "echo x" } },
      { name: "sh", input: { command: ["echo", "x"] } },
      sh("echo fine"),
    ),
  });
  assert.equal(run.status, 0, run.stderr);
  const results = shownResults(run);
  assert.deepEqual(results.map(({ error }) => error), [true, true, false, true, true, true, false]);
  // A lone half of a character has no bytes either.
  for (const index of [0, 1, 3]) assert.match(results[index]!.text, /an operand can't be passed to a program/);
  assert.equal(stdout(results[2]!), "a\nunix\n1\nrw\nexec\n/\n");
  assert.equal(stdout(results.at(-1)!), "fine\n");
});

Deno.test("a name that no account file can hold is told with its place", async () => {
  await using project = await agentProject(hostile());
  const workdir = `${project.root}/a:b`;
  await Deno.mkdir(workdir);
  const run = await project.run({ workdir, args: ["--containment", "sealed"], task: turnOf(sh("echo x")) });
  assert.equal(run.status, 1);
  assert.match(run.stderr, /^error\[E-IO-003\]: [^\n]*colon[^\n]*\n\s+hint: [^\n]*--workdir/m);
  const scoped = await project.run({ workdir, args: ["--containment", "scoped"], task: turnOf(sh("echo x")) });
  assert.equal(scoped.status, 0, scoped.stderr);
});
