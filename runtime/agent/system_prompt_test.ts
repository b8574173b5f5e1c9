import assert from "node:assert/strict";
import { processSystemPrompt, promptSource, systemPrompt, tracedPromptSource } from "./system_prompt.ts";

const PARTS = { capsuleName: "demo", capsuleVersion: "1.2.3", planTool: false, prompt: "Count files.\n" };

Deno.test("the block comes first, then a blank line, then the prompt byte for byte", () => {
  const text = systemPrompt(PARTS);
  assert.ok(text.startsWith("[Capsule]\nName: demo\nVersion: 1.2.3\n"));
  assert.ok(text.endsWith("\n\nCount files.\n"));
  assert.match(text, /MURMUR\.md/);
  assert.match(text, /<untrusted-content source=NAME>/);
  assert.match(text, /forgery/);
  assert.doesNotMatch(text, /submit-plan/);
  assert.match(systemPrompt({ ...PARTS, planTool: true }), /submit-plan/);
});

Deno.test("without a prompt the block is sent all the same", () => {
  const text = systemPrompt({ ...PARTS, prompt: null });
  assert.ok(text.startsWith("[Capsule]\n"));
  assert.ok(text.endsWith("\n\n"));
  assert.equal(text, systemPrompt({ ...PARTS, prompt: "" }));
});

Deno.test("nothing in it varies from launch to launch", async () => {
  const before = systemPrompt(PARTS);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(systemPrompt(PARTS), before);
  assert.doesNotMatch(before, /ses_|\/home|\/tmp|\d{4}-\d{2}-\d{2}/);
});

Deno.test("a process driver gets notices and prompt without the header", () => {
  const text = processSystemPrompt(PARTS);
  assert.doesNotMatch(text, /\[Capsule\]|Name:|Version:/);
  assert.match(text, /forgery/);
  assert.ok(text.endsWith("\n\nCount files.\n"));
});

Deno.test("the first source that applies is the prompt", () => {
  const all = { systemPrompt: "inline", systemPromptFile: "p.md", systemPromptArtifact: "skill" };
  const none = { systemPrompt: null, systemPromptFile: null, systemPromptArtifact: null };
  assert.deepEqual(promptSource("  given \n", all), { kind: "cli", text: "given" });
  assert.deepEqual(promptSource("", all), { kind: "cli", text: "" });
  assert.deepEqual(promptSource(null, all), { kind: "inline", text: "inline" });
  assert.deepEqual(promptSource(null, { ...all, systemPrompt: null }), { kind: "file", path: "p.md" });
  assert.deepEqual(promptSource(null, { ...none, systemPromptArtifact: "skill" }), { kind: "artifact", name: "skill" });
  assert.deepEqual(promptSource(null, none), { kind: "none" });
  assert.deepEqual(
    [promptSource("", all), promptSource(null, all), promptSource(null, none)].map(tracedPromptSource),
    ["cli", "manifest", "none"],
  );
});
