/**
 * An agent that works in the project itself cannot change what a later launch trusts (spec session 4.7, containment 4.8).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { agentProject, capsule, shownResults, toolEntry } from "../support/agent_project.ts";

const PROMPT = "Say what you are told.";
const SKILL = "# Local skill\n";

const manifest = (more: JsonObject = {}): JsonObject => ({
  ...capsule({
    artifacts: [
      { name: "murmur-tool-editor", version: "0.1.0", runtime: "tool" },
      toolEntry("probe-tool"),
      { name: "local-skill", runtime: "skill", version: "0.0.0", source: "skills/local" },
    ],
    inference: { system_prompt_file: "prompts/main.md", max_turns: 100 },
  }),
  ...more,
});

/** Files with what they hold; `null`: absent. */
const TRUSTED: Readonly<Record<string, string | null>> = {
  "murmur.yaml": null,
  "murmur.lock": null,
  "roster.yaml": null,
  ".env": "FROM_ENV=1\n",
  ".murmur/config.yaml": "containment: advisory\n",
  ".murmur/new.yaml": null,
  "prompts/main.md": PROMPT,
  "skills/local/skill.md": SKILL,
  "skills/local/new.md": null,
};

const edit = (path: string, create = false): JsonObject => ({
  name: "murmur-tool-editor",
  input: {
    operation: "write",
    target_path: path,
    content: "changed by the agent",
    ...create ? { create_only: true } : {},
  },
});
const probe = (input: JsonObject): JsonObject => ({ name: "probe-tool", input });

Deno.test("no tool writes, creates, replaces, removes or redirects a trusted file, by no way", async () => {
  await using project = await agentProject(manifest());
  for (const [path, content] of Object.entries(TRUSTED)) if (content !== null) await project.write(path, content);
  await project.write("ordinary.txt", "old");
  // Ways around the names: links of both kinds, to files, to directories, and to what does not exist.
  await Deno.mkdir(`${project.project}/links`);
  await Deno.symlink("../murmur.yaml", `${project.project}/links/manifest`);
  await Deno.symlink("../murmur.lock", `${project.project}/links/lock`);
  await Deno.symlink("../roster.yaml", `${project.project}/links/roster`);
  await Deno.symlink("../.murmur", `${project.project}/links/config`);
  await Deno.symlink("../prompts", `${project.project}/links/prompts`);
  await Deno.link(`${project.project}/prompts/main.md`, `${project.project}/links/hard.md`);
  await Deno.link(`${project.project}/.env`, `${project.project}/links/env`);

  // A first run writes the lock, which is trusted from then on.
  const first = await project.run({ task: "one", workdir: project.project });
  assert.equal(first.status, 0, first.stderr);
  const snapshot = async () => {
    const state: Record<string, string | null> = {};
    for (const path of Object.keys(TRUSTED)) {
      state[path] = await Deno.readTextFile(`${project.project}/${path}`).catch(() => null);
    }
    return state;
  };
  const before = await snapshot();
  assert.ok(before["murmur.lock"]!.length > 0);

  const attempts: JsonObject[] = [
    ...Object.keys(TRUSTED).flatMap((path) => [
      edit(path),
      edit(path, true),
      edit(`./links/../${path}`),
      probe({ operation: "write", path, text: "changed" }),
      probe({ operation: "rename", path: "ordinary.txt", to: path }),
      probe({ operation: "rename", path, to: "moved.txt" }),
      probe({ operation: "remove", path }),
    ]),
    ...["manifest", "lock", "roster", "config/config.yaml", "config/new.yaml", "prompts/main.md", "hard.md", "env"].map(
      (path) => probe({ operation: "write", path: `links/${path}`, text: "changed" }),
    ),
    probe({ operation: "rename", path: "links/config", to: ".murmur" }),
    ...[".murmur", "prompts", "skills/local", "skills"].flatMap((path) => [
      probe({ operation: "rename", path, to: "taken" }),
      probe({ operation: "remove", path }),
    ]),
    probe({ operation: "mkdir", path: ".murmur/artifacts" }),
    probe({ operation: "mkdir", path: "skills/local/more" }),
    probe({ operation: "mkdir", path: "murmur.yaml" }),
    probe({ operation: "write", path: "MURMUR.YAML", text: "changed" }),
    probe({ operation: "write", path: ".ENV", text: "changed" }),
  ];
  const allowed: JsonObject[] = [
    edit("ordinary.txt"),
    edit("sub.txt", true),
    probe({ operation: "write", path: "skills/other.md", text: "mine" }),
    probe({ operation: "read", path: "murmur.yaml" }),
    probe({ operation: "read", path: ".env" }),
  ];
  const run = await project.run({
    workdir: project.project,
    task: { turns: [{ calls: attempts }, { calls: allowed }, { show: "results" }] },
  });
  assert.equal(run.status, 0, run.stderr);
  const results = shownResults(run);
  attempts.forEach((attempt, index) => {
    const { input } = attempt as { input: { path?: string; operation: string } };
    // On a file system that tells cases apart these are other files.
    if (input.path === "MURMUR.YAML" || input.path === ".ENV") return;
    assert.ok(results[index]!.error, `${JSON.stringify(attempt)}: ${results[index]!.text}`);
  });
  assert.deepEqual(results.slice(attempts.length).map(({ error }) => error), allowed.map(() => false));
  assert.deepEqual(await snapshot(), before);
  assert.equal(await project.read("ordinary.txt"), "changed by the agent");

  const [start] = run.events("session_start");
  const grants = start!.effective_grants as { trusted_files: { guarded: string[]; unguarded: string[] } };
  assert.deepEqual(grants.trusted_files.unguarded, []);
  for (
    const name of ["murmur.yaml", "murmur.lock", "roster.yaml", ".env", ".murmur", "prompts/main.md", "skills/local"]
  ) {
    assert.ok(grants.trusted_files.guarded.includes(`${project.project}/${name}`), name);
  }

  // The next launch reads what the first one did.
  const again = await project.run({
    workdir: project.project,
    task: { turns: [{ calls: [{ name: "local-skill" }] }, { show: "request" }] },
  });
  assert.equal(again.status, 0, again.stderr);
  const request = JSON.parse(again.result!);
  assert.ok(request.system.endsWith(`\n\n${PROMPT}`));
  assert.equal(request.messages.at(-1).content[0].text, SKILL);
});

Deno.test("a work folder above the runtime's own home hides that home from components", async () => {
  await using project = await agentProject(capsule({ artifacts: [toolEntry("probe-tool")] }));
  await Deno.writeTextFile(`${project.murmur}/config.yaml`, "credentials:\n  A_KEY: sk-hidden-from-the-agent\n");
  const run = await project.run({
    workdir: project.home,
    task: {
      turns: [
        {
          calls: [
            probe({ operation: "read", path: ".murmur/config.yaml" }),
            probe({ operation: "list", path: ".murmur" }),
            probe({ operation: "list", path: ".murmur/records" }),
            probe({ operation: "write", path: ".murmur/config.yaml", text: "changed" }),
            probe({ operation: "write", path: ".murmur/artifacts/x", text: "changed" }),
            probe({ operation: "rename", path: ".murmur", to: "taken" }),
            probe({ operation: "write", path: "ordinary", text: "fine" }),
          ],
        },
        { show: "results" },
      ],
    },
  });
  assert.equal(run.status, 0, run.stderr);
  assert.deepEqual(shownResults(run).map(({ error }) => error), [true, true, true, true, true, true, false]);
  assert.ok(!run.result!.includes("sk-hidden"));
});

Deno.test("beside commands the trusted files are held by mounts, those that are absent by placeholders", async () => {
  await using project = await agentProject(
    manifest({ capabilities: { shell: { allow: ["sh", "mkdir", "rm", "mv", "ln", "chmod", "touch"] } } }),
  );
  await project.write("prompts/main.md", PROMPT);
  await project.write("skills/local/skill.md", SKILL);
  const attempts = [
    "echo x > murmur.yaml",
    "echo x >> murmur.lock",
    "echo x > .env",
    "mkdir .murmur/x",
    "echo x > roster.yaml",
    "rm -f prompts/main.md",
    "mv prompts old",
    "mv skills/local skills/other",
    "ln -s /dev/null skills/local/skill.md",
    "echo y > new && mv -f new murmur.yaml",
    "chmod 666 murmur.yaml",
    "touch -d 2001-01-01 murmur.yaml",
  ];
  const before = [await project.read("murmur.yaml"), await project.read("prompts/main.md")];
  const [inside, outside] = await Promise.all([
    project.run({
      task: {
        turns: [
          { calls: [...attempts, "echo fine > ordinary"].map((command) => ({ name: "sh", input: { command } })) },
          { show: "results" },
        ],
      },
      workdir: project.project,
    }),
    project.run({ task: "x" }),
  ]);
  assert.equal(inside.status, 0, inside.stderr);
  const codes = shownResults(inside).map(({ text }) => /\nExit code: (\d+)\n/.exec(text)?.[1]);
  assert.deepEqual(codes, [...attempts.map((_, at) => codes[at] === "0" ? "refused" : codes[at]), "0"]);
  assert.deepEqual([await project.read("murmur.yaml"), await project.read("prompts/main.md")], before);
  assert.equal(await project.read("ordinary"), "fine\n");
  // Placeholders went with the session.
  for (const name of [".env", ".murmur", "roster.yaml"]) {
    await assert.rejects(Deno.lstat(`${project.project}/${name}`), Deno.errors.NotFound);
  }
  const trusted = (run: typeof inside) =>
    (run.events("session_start")[0]!.effective_grants as { trusted_files: JsonObject }).trusted_files;
  const guarded = trusted(inside).guarded as string[];
  for (
    const name of ["murmur.yaml", "murmur.lock", ".env", ".murmur", "roster.yaml", "prompts/main.md", "skills/local"]
  ) assert.ok(guarded.includes(`${project.project}/${name}`), name);
  assert.deepEqual(trusted(inside).unguarded, []);
  assert.ok(!inside.stderr.includes("W-SEC-033"));
  // The default work folder lies below the project, beside these files and not above them.
  assert.deepEqual(trusted(outside), { guarded: [], unguarded: [] });
  assert.ok(!outside.stderr.includes("W-SEC-033"));
});

Deno.test("no folder between a launch and its project's root becomes the root", async () => {
  await using project = await agentProject(manifest({}));
  const capsuleFile = "capsules/a/agent.yaml";
  await project.write(capsuleFile, JSON.stringify(capsule({ capabilities: { shell: { allow: ["sh", "mv"] } } })));
  await Deno.mkdir(`${project.project}/src/app`, { recursive: true });
  const options = {
    cwd: `${project.project}/src/app`,
    args: ["--manifest", `${project.project}/${capsuleFile}`],
    workdir: project.project,
  };
  const folders = ["src", "src/app", "capsules", "capsules/a"];
  const attempts = [...folders.map((folder) => `echo x > ${folder}/murmur.yaml`), "mv src old", "mv capsules old"];
  const run = await project.run({
    ...options,
    task: {
      turns: [{ calls: attempts.map((command) => ({ name: "sh", input: { command } })) }, { show: "results" }],
    },
  });
  assert.equal(run.status, 0, run.stderr);
  for (const { text } of shownResults(run)) assert.doesNotMatch(text, /\nExit code: 0\n/);
  for (const folder of folders) await assert.rejects(Deno.lstat(`${project.project}/${folder}/murmur.yaml`));
  // What it would have been good for: from then on a file of its making is read.
  await project.write("capsules/murmur.yaml", "x");
  await project.write("capsules/.env", "no assignment");
  const next = await project.run({ ...options, task: "x" });
  assert.match(next.stderr, /^error\[E-IO-003\]: [^\n]*\/capsules\/\.env/m);
});

Deno.test("a trusted name that is a link can't be held: it is told, and caps the class", async () => {
  await using project = await agentProject(manifest({ capabilities: { shell: { allow: ["sh"] } } }));
  await project.write("prompts/main.md", PROMPT);
  await project.write("elsewhere/skill.md", SKILL);
  await Deno.mkdir(`${project.project}/skills`);
  await Deno.symlink("../elsewhere", `${project.project}/skills/local`);
  const run = await project.run({ task: "x", workdir: project.project });
  assert.equal(run.status, 0, run.stderr);
  const grants = run.events("session_start")[0]!.effective_grants as Record<string, JsonObject>;
  assert.deepEqual(grants.trusted_files!.unguarded, [`${project.project}/skills/local`]);
  assert.equal(run.events("session_start")[0]!.containment_achieved, "advisory");
  assert.match(run.stderr, /warning\[W-SEC-033\]: [^\n]*skills\/local/);
  const refused = await project.run({ task: "x", workdir: project.project, args: ["--containment", "scoped"] });
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /^error\[E-CAP-003\]: [^\n]*skills\/local/m);
});

Deno.test("beside a native tool too: it is a program like any other", async () => {
  await using project = await agentProject(capsule({ artifacts: [toolEntry("native-probe")] }));
  const before = await project.read("murmur.yaml");
  const run = await project.run({
    task: {
      turns: [{ calls: [{ name: "native-probe", input: { script: "echo x > murmur.yaml; echo wrote > own" } }] }, {
        show: "results",
      }],
    },
    workdir: project.project,
  });
  assert.equal(await project.read("murmur.yaml"), before);
  assert.equal(await project.read("own"), "wrote\n");
  assert.equal(run.status, 0, run.stderr);
  const grants = run.events("session_start")[0]!.effective_grants as Record<string, JsonObject>;
  assert.deepEqual(grants.trusted_files!.unguarded, []);
  assert.ok((grants.trusted_files!.guarded as string[]).includes(`${project.project}/murmur.yaml`));
  assert.match(run.stderr, /W-SEC-005\]: of the tools, 'native-probe' run natively/);
});

Deno.test("an empty file of a trusted name reads as absent", async () => {
  await using project = await agentProject(capsule());
  await project.write("below/murmur.yaml", "");
  await project.write("below/.env", "");
  await project.write("murmur.lock", "");
  const run = await project.run({ task: "x" });
  assert.equal(run.status, 0, run.stderr);
  assert.match(await project.read("murmur.lock"), /program-driver/);
  const empty = await project.run({ task: "x", cwd: `${project.project}/below` });
  assert.match(empty.stderr, /^error\[E-IO-001\]: /m);
});
