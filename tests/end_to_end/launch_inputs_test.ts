/**
 * What a launch reads besides its manifest: `--explain-scope` before anything is made, the workspace's `.env`, where
 * configuration and keys come from (spec cli 5, 12.3).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { agentProject, type AgentRun, capsule, toolEntry } from "../support/agent_project.ts";

const environment: JsonObject = {
  turns: [{ calls: [{ name: "probe-tool", input: { operation: "environment" } }] }, { show: "results" }],
};

function environmentSeen(run: AgentRun): Record<string, string> {
  assert.equal(run.status, 0, run.stderr);
  const [{ text }] = JSON.parse(run.result!) as [{ text: string }];
  return JSON.parse(text.split("\n")[1]!).environment;
}

Deno.test("the scope that is explained is the one a session starts with, and explaining makes nothing", async () => {
  const manifest = capsule({
    capabilities: {
      shell: { allow: ["sh"] },
      network: { allow: ["https://api.example.com", "localhost:1"] },
      filesystem: { scope: "sub", read_only: ["keep"] },
      env: { allow: ["COLOUR", "MY_SECRET"] },
    },
    artifacts: [
      toolEntry("probe-tool", { config: { a: 1 }, capabilities: { filesystem: { scope: "notes" }, state: {} } }),
      toolEntry("native-probe"),
    ],
  });
  await using project = await agentProject(manifest);
  const home = `${project.root}/fresh`;
  await Deno.mkdir(home);
  const [json, text] = await Promise.all([
    project.mur(["run", "--explain-scope", "--json", "--workdir", project.project], { home }),
    project.mur(["run", "--explain-scope", "--workdir", project.project], { home }),
  ]);
  const ran = await project.run({ task: "x", workdir: project.project });
  assert.equal(json.status, 0, json.stderr);
  assert.equal(ran.status, 0, ran.stderr);
  const report = JSON.parse(json.stdout) as JsonObject;
  assert.equal(json.stdout, `${JSON.stringify(report)}\n`);
  // The state store's path is below the home.
  const grants = JSON.stringify(ran.events("session_start")[0]!.effective_grants);
  assert.deepEqual(report, JSON.parse(grants.replaceAll(project.home, home)));
  assert.deepEqual([...Deno.readDirSync(home)], []);
  assert.deepEqual([...Deno.readDirSync(project.project)].map(({ name }) => name).sort(), [
    "murmur.lock",
    "murmur.yaml",
    "notes",
  ]);

  assert.equal(text.status, 0);
  for (
    const line of [
      "  declared:  advisory",
      "    - probe-tool (tool): one subtree of the accessible workdir — capabilities.filesystem.scope: notes",
      "    - https://api.example.com",
      `    - ${project.project}/murmur.yaml`,
      "  achieved:  scoped",
    ]
  ) assert.ok(text.stdout.includes(`${line}\n`), line);
  // Warnings that the manifest decides are those of the run.
  const warnings = (stderr: string) => stderr.split("\n").filter((line) => / warning\[/.test(line)).sort();
  // Beside those decided by what is installed and by the host.
  const launch = /W-SEC-(005|018|034)\]/;
  assert.deepEqual(warnings(text.stderr), warnings(ran.stderr).filter((line) => !launch.test(line)));
  assert.ok(warnings(text.stderr).length > 2);
});

Deno.test("explaining refuses what no launch could mend, reports the rest, and needs nothing installed", async () => {
  const declared: readonly [JsonObject, readonly string[], string | null, RegExp][] = [
    [capsule({ capabilities: { containment: "sealed" } }), [], null, /floor met: yes/],
    [
      capsule({ capabilities: { filesystem: { workdir_exec: true } } }),
      ["--containment", "scoped"],
      null,
      /mur run would refuse/,
    ],
    [capsule({ capabilities: { network: { allow: ["a b"] } } }), [], null, /E-CAP-001/],
    [capsule({ artifacts: [toolEntry("not-installed")] }), [], null, /^/],
    [capsule({ capabilities: { install: { tool: ["*"] } } }), [], null, /E-MAN-003/],
    [capsule({ artifacts: [toolEntry("probe-tool", { config: [] })] }), [], "E-CAP-010", /^/],
    [capsule({ capabilities: { env: { allow: ["AWS_KEY"] } } }), [], "E-CAP-016", /^/],
    [capsule(), ["--lifecycle-after-task", "x"], "E-IO-003", /^/],
    [capsule(), ["--containment", "x"], "E-IO-003", /^/],
    [capsule(), ["--system-prompt", "ignored"], null, /^/],
  ];
  await using project = await agentProject(capsule());
  const home = `${project.root}/fresh`;
  await Deno.mkdir(home);
  const explain = async ([manifest, args, code, says]: (typeof declared)[number], index: number) => {
    await project.write(`${index}/murmur.yaml`, JSON.stringify(manifest));
    const cwd = `${project.project}/${index}`;
    const explained = await project.mur(["run", "--explain-scope", ...args], { cwd, home });
    assert.equal(explained.status, code === null ? 0 : 1, `${index}: ${explained.stderr}`);
    if (code !== null) assert.match(explained.stderr, new RegExp(`^error\\[${code}\\]: `, "m"));
    assert.match(explained.stdout + explained.stderr, says);
  };
  for (let at = 0; at < declared.length; at += 3) {
    await Promise.all(declared.slice(at, at + 3).map((each, index) => explain(each, at + index)));
  }
  assert.deepEqual([...Deno.readDirSync(home)], []);
});

Deno.test(".env of the workspace gives defaults, never what steers the runtime", async () => {
  await using project = await agentProject("name: outer\nversion: 0.1.0\n");
  const inner = capsule({
    capabilities: { env: { allow: ["FROM_FILE", "SET", "QUOTED", "HTTP_PROXY", "PATH", "LD_PRELOAD"] } },
    artifacts: [toolEntry("probe-tool")],
  });
  await project.write("inner/murmur.yaml", JSON.stringify(inner));
  // The nearest directory with a manifest is the workspace: this file is not read.
  await project.write(".env", "FROM_FILE=outer\n");
  await project.write(
    "inner/.env",
    [
      "# comment",
      "",
      "  FROM_FILE = from the file ",
      "SET=file",
      "QUOTED=\"a 'b' \"",
      "MURMUR_A2A_TIMEOUT_SECS=1",
      "PATH=/nowhere",
      "http_proxy=http://127.0.0.1:1",
      "HTTP_PROXY=http://127.0.0.1:1",
      "LD_PRELOAD=/x.so",
      "export ODD=1",
    ].join("\n"),
  );
  const cwd = `${project.project}/inner`;
  const [read, skipped] = await Promise.all([
    project.run({ task: environment, cwd, env: { SET: "already" }, workdir: project.home }),
    project.run({ task: environment, cwd, args: ["--no-env-file"], workdir: project.home }),
  ]);
  const seen = environmentSeen(read);
  assert.deepEqual(
    [seen.FROM_FILE, seen.SET, seen.QUOTED, seen.PATH, seen.HTTP_PROXY, seen.LD_PRELOAD],
    ["from the file", "already", "a 'b' ", Deno.env.get("PATH"), undefined, undefined],
  );
  for (
    const [line, name] of [[6, "MURMUR_A2A_TIMEOUT_SECS"], [7, "PATH"], [8, "http_proxy"], [9, "HTTP_PROXY"], [
      10,
      "LD_PRELOAD",
    ]]
  ) {
    assert.match(read.stderr, new RegExp(`^warning: [^\\n]*inner/\\.env[^\\n]*${line}[^\\n]*${name}`, "m"));
  }
  assert.ok(!read.stderr.includes("/x.so"));
  const plain = environmentSeen(skipped);
  assert.deepEqual([plain.FROM_FILE, plain.SET, plain.QUOTED], [undefined, undefined, undefined]);
});

Deno.test("directories the operator grants are judged before anything is made, and reported", async () => {
  await using project = await agentProject(capsule());
  const data = `${project.root}/data`;
  await Deno.mkdir(data);
  await Deno.symlink(data, `${project.home}/link`);
  const configure = (...entries: readonly JsonObject[]) =>
    Deno.writeTextFile(`${project.murmur}/config.yaml`, JSON.stringify({ host_paths: entries }), { mode: 0o600 });

  await configure({ path: data, access: "read" }, { path: `${data}/absent`, access: "read-write" });
  const [refused, explained] = await Promise.all([project.run({ task: "x" }), project.mur(["run", "--explain-scope"])]);
  assert.equal(refused.status, 1);
  assert.match(
    refused.stderr,
    /^error\[E-IO-003\]: .*config\.yaml: host_paths\[1\], '.*\/data\/absent', does not exist$/m,
  );
  assert.equal(explained.status, 0);
  assert.match(explained.stdout + explained.stderr, /E-IO-003[^\n]*host_paths\[1\]/);
  for (const name of ["sessions", "records", "running"]) {
    await assert.rejects(Deno.stat(`${project.murmur}/${name}`), Deno.errors.NotFound, name);
  }
  await configure({ path: project.project, access: "read-write" });
  const inside = await project.run({ task: "x", workdir: project.project });
  assert.match(inside.stderr, /^error\[E-IO-003\]: .*lies in the work folder/m);

  await configure({ path: "~/link", access: "read-write" });
  const run = await project.run({ task: "x" });
  assert.equal(run.status, 0, run.stderr);
  const { host_paths } = run.events("session_start")[0]!.effective_grants as { host_paths: JsonObject[] };
  assert.deepEqual(host_paths, [{ path: data, access: "read-write", credentials: [] }]);
});
