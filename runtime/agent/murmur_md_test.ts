import assert from "node:assert/strict";
import fc from "fast-check";
import { listedDescription, murmurMd, type MurmurMdFacts } from "./murmur_md.ts";

const FACTS: MurmurMdFacts = {
  runtimeVersion: "0.1.0",
  now: new Date(0),
  capsuleName: "demo",
  capsuleVersion: "1.2.3",
  sessionId: "ses_1",
  url: "localhost:41000",
  model: "m-1",
  workdir: "/w",
  runtimeDir: "/r",
  recordsDir: "/records",
  contextBudget: null,
  compactionHook: false,
  copiedFolder: null,
  artifacts: [],
  boundSkill: null,
  shellAllow: [],
  install: null,
};

function headings(text: string): string[] {
  return text.split("\n").filter((line) => line.startsWith("#"));
}

Deno.test("the sections in their order, the optional ones only when there is something to say", () => {
  assert.deepEqual(headings(murmurMd(FACTS)), [
    "# MURMUR",
    "## Identity",
    "## Capsule",
    "## Directory layout",
    "## Installed tools",
    "## Calling a tool",
    "## Shell commands",
    "## Checkpointing",
  ]);
  const full = murmurMd({
    ...FACTS,
    artifacts: [{ name: "guide", version: null, runtime: "skill", description: null }],
    install: { skill: ["*"], tool: [] },
  });
  assert.deepEqual(headings(full).slice(5), [
    "## Installed skills",
    "## Calling a tool",
    "## Shell commands",
    "## Checkpointing",
    "## Managing artifacts",
  ]);
  assert.match(full, /Skills that may be pulled: \*\n- Tools that may be pulled: none/);
});

Deno.test("identity, model and times", () => {
  const text = murmurMd(FACTS);
  assert.match(text, /mur 0\.1\.0 at 1970-01-01T00:00:00\.000Z/);
  assert.match(text, /- Capsule: demo 1\.2\.3\n- Session: ses_1\n- URL: localhost:41000\n/);
  assert.match(text, /- Model: m-1\n/);
  assert.match(murmurMd({ ...FACTS, model: null }), /- Model: none configured/);
  assert.match(murmurMd({ ...FACTS, url: "" }), /- URL: \n/);
});

Deno.test("the budget line: compaction counts as configured with a budget and a hook only", () => {
  const line = (contextBudget: number | null, compactionHook: boolean) =>
    murmurMd({ ...FACTS, contextBudget, compactionHook }).split("\n").find((row) => row.startsWith("- Context budget"));
  assert.equal(line(9_000, true), "- Context budget: 9000 tokens (compaction configured)");
  assert.equal(line(9_000, false), "- Context budget: 9000 tokens (compaction not configured)");
  assert.equal(line(null, true), "- Context budget: not set tokens (compaction not configured)");
});

Deno.test("tools and skills are listed with version, runtime and description", () => {
  const text = murmurMd({
    ...FACTS,
    artifacts: [
      { name: "fetch", version: "1.0.0", runtime: "tool", description: "Fetches\n`things`" },
      { name: "bare", version: null, runtime: "tool", description: "  " },
      { name: "guide", version: "2.0.0", runtime: "skill", description: "Guides" },
      { name: "persona", version: "1.0.0", runtime: "skill", description: null },
    ],
    boundSkill: "persona",
  });
  assert.match(text, /^- \*\*fetch\*\* \(v1\.0\.0, tool\) — Fetches things$/m);
  assert.match(text, /^- \*\*bare\*\* \(vunknown, tool\)$/m);
  assert.match(text, /^- \*\*guide\*\* \(v2\.0\.0, skill\) — Guides \*\(call by name to load guidance\)\*$/m);
  assert.match(
    text,
    /^- \*\*persona\*\* \(v1\.0\.0, skill\) \*\(bound as system prompt — already in context, not separately callable\)\*$/m,
  );
  assert.match(murmurMd(FACTS), /No tools are installed\./);
  assert.match(text, /unverified/);
});

Deno.test("shell: off, interpreters, direct binaries", () => {
  assert.match(murmurMd(FACTS), /Shell commands are off\./);
  const text = murmurMd({ ...FACTS, shellAllow: ["bash", "jq", "sh"] });
  assert.match(text, /- Interpreters: bash, sh\./);
  assert.match(text, /- Direct: jq\./);
});

Deno.test("a child on a copied folder is told so", () => {
  assert.match(
    murmurMd({ ...FACTS, copiedFolder: { files: 3, bytes: 4_096 } }),
    /copy of your parent's: 3 files, 4096 bytes\. What you change does not reach the parent\./,
  );
  assert.doesNotMatch(murmurMd(FACTS), /parent/);
});

Deno.test("a description is one line of at most 200 characters without backticks or control characters", () => {
  assert.equal(listedDescription("a\r\n\tb   `c`\u0007\u009b"), "a b c");
  assert.equal(listedDescription("x".repeat(200)), "x".repeat(200));
  assert.equal(listedDescription("😀".repeat(201)), `${"😀".repeat(200)}…`);
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 500 }), (text) => {
    const shown = listedDescription(text);
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(shown, /[`\u0000-\u001f\u007f-\u009f]/);
    assert.ok([...shown].length <= 201);
    // No description adds a heading or a list item of its own.
    const listed = murmurMd({ ...FACTS, artifacts: [{ name: "t", version: "1", runtime: "tool", description: text }] });
    assert.equal(listed.split("\n").length, murmurMd(FACTS).split("\n").length);
  }));
});
