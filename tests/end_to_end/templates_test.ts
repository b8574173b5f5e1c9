/**
 * What `mur new` makes runs and builds at once, with the commands it prints.
 *
 * @module
 */
import assert from "node:assert/strict";
import {
  type AgentProject,
  agentProject,
  callsThenResults,
  capsule,
  hookEntry,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";
import { startProviderServer } from "../support/provider_server.ts";

/** The commands that are printed below `next:`. */
function printed(out: string): string[] {
  return out.slice(out.indexOf("next:\n") + "next:\n".length).trim().split("\n").map((line) => line.trim());
}

/** A project whose home has the drivers; the new artifact is a directory in it. */
async function withHome(work: (project: AgentProject) => Promise<void>): Promise<void> {
  await using project = await agentProject(capsule());
  await work(project);
}

Deno.test("a scripted capsule runs offline with the command that is printed", () =>
  withHome(async (project) => {
    const made = await project.mur(["new", "capsule", "helper", "--provider", "scripted"]);
    assert.equal(made.status, 0, made.stderr);
    assert.deepEqual(printed(made.stdout), ["cd helper", 'mur run --task "What is in your work folder?"']);
    const run = await project.mur(["run", "--output", "text", "--task", "What is in your work folder?"], {
      cwd: `${project.project}/helper`,
    });
    assert.equal(run.status, 0, run.stderr);
    assert.match(
      run.stdout,
      /^You asked: What is in your work folder\?\n\nA script answers[^]*workdir\/ses_[0-9a-f]{32}\n/,
    );
    const trace = await project.mur(["trace", "show"], { cwd: `${project.project}/helper` });
    assert.match(trace.stdout, /status: {5}ok/);
  }));

for (const provider of ["anthropic", "openai"] as const) {
  Deno.test(`a capsule for ${provider} asks the configured endpoint with the configured key`, () =>
    withHome(async (project) => {
      await using server = await startProviderServer({ format: provider, key: "sk-test" });
      server.script.push({ toolCalls: [{ name: "sh", input: { command: "echo found" } }] }, {
        text: "Nothing is there.",
      });
      const key = `${provider.toUpperCase()}_API_KEY`;
      await Deno.writeTextFile(
        `${project.murmur}/config.yaml`,
        `inference: { provider: ${provider}, endpoint: "${server.endpoint}" }\ncredentials: { ${key}: sk-test }\n`,
        { mode: 0o600 },
      );
      const made = await project.mur(["new", "capsule", "helper"]);
      assert.deepEqual(printed(made.stdout), ["cd helper", 'mur run --task "What is in your work folder?"']);
      const run = await project.mur(["run", "--output", "text", "--task", "Look."], {
        cwd: `${project.project}/helper`,
      });
      assert.equal(run.status, 0, run.stderr);
      assert.equal(run.stdout, "Nothing is there.\n");
      assert.deepEqual(server.problems, []);
      assert.match(JSON.stringify(server.requests[1]?.body), /found/);
    }));
}

Deno.test("a hook builds, installs and refuses", () =>
  withHome(async (project) => {
    const made = await project.mur(["new", "hook", "gatekeeper"]);
    assert.equal(made.status, 0, made.stderr);
    const [build, install, entry] = printed(made.stdout);
    assert.equal(build, "mur build gatekeeper");
    const built = await project.mur(["build", "gatekeeper"]);
    assert.equal(built.status, 0, built.stderr);
    assert.ok(install!.startsWith("mur install ./gatekeeper/gatekeeper-0.1.0.mur.zip "));
    const installed = await project.mur(["install", "./gatekeeper/gatekeeper-0.1.0.mur.zip"]);
    assert.equal(installed.status, 0, installed.stderr);
    assert.match(entry!, /- \{ name: gatekeeper, version: "0\.1\.0", runtime: hook \}$/);
    await project.write(
      "murmur.yaml",
      JSON.stringify(
        capsule({ artifacts: [toolEntry("probe-tool"), hookEntry("gatekeeper", null, { version: "0.1.0" })] }),
      ),
    );
    const list = (path: string) => ({ name: "probe-tool", input: { operation: "list", path } });
    const run = await project.run({ task: callsThenResults(list("."), list(".git/hooks")) });
    assert.equal(run.status, 0, run.stderr);
    const [passed, refused] = shownResults(run);
    assert.equal(passed!.error, false);
    assert.match(refused!.text, /refused by hook 'gatekeeper': probe-tool must not touch \.git/);
  }));

Deno.test("a tool builds, installs and answers", () =>
  withHome(async (project) => {
    const made = await project.mur(["new", "tool", "word-count"]);
    assert.equal(made.status, 0, made.stderr);
    const [build, install] = printed(made.stdout);
    assert.equal(build, "mur build word-count");
    const built = await project.mur(["build", "word-count"]);
    assert.equal(built.status, 0, built.stderr);
    assert.equal(built.stdout, "Built artifact: word-count/word-count-0.1.0.mur.zip\n");
    assert.ok(install!.startsWith("mur install ./word-count/word-count-0.1.0.mur.zip "));
    const installed = await project.mur(["install", "./word-count/word-count-0.1.0.mur.zip"]);
    assert.equal(installed.status, 0, installed.stderr);
    await project.write(
      "murmur.yaml",
      JSON.stringify(capsule({ artifacts: [{ ...toolEntry("word-count"), version: "0.1.0" }] })),
    );
    await project.write("here/notes.txt", "one two\nthree ä\n");
    const run = await project.run({
      workdir: `${project.project}/here`,
      task: callsThenResults(
        { name: "word-count", input: { path: "notes.txt" } },
        { name: "word-count", input: { path: "none.txt" } },
      ),
    });
    assert.equal(run.status, 0, run.stderr);
    const [counted, absent] = shownResults(run);
    assert.match(counted!.text, /"path":"notes\.txt","lines":2,"words":4,"characters":16/);
    assert.match(absent!.text, /none\.txt does not exist/);
  }));
