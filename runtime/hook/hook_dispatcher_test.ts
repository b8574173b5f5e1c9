/**
 * The rules of dispatch over scripted instances; that a real process keeps its side is shown by the sessions of
 * `tests/end_to_end/hooks_test.ts`.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { CommitPolicy, HookBinding } from "../../artifact/manifest/artifact_manifest.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { ComponentFailure, type ComponentSpec } from "../component/component_runtime.ts";
import { functionOf } from "./hook_event.ts";
import { HookDispatcher } from "./hook_dispatcher.ts";
import { HookFaults } from "./hook_faults.ts";
import { SessionHook, type StagedHook } from "./session_hook.ts";

const EVENTS: readonly HookBinding[] = [
  "on-session-start",
  "on-task-start",
  "on-inference",
  "on-tool-call",
  "on-shell",
  "on-compaction",
  "on-task-end",
  "on-session-end",
];

/** What an instance does at a call: answers so, fails so, or is found gone. */
type Answer = { readonly value: unknown } | { readonly failure: "deadline" | "trap" } | "gone";

interface ScriptedHook {
  readonly name: string;
  readonly binding?: HookBinding;
  readonly policy?: CommitPolicy;
  readonly mode?: "async";
  readonly missing?: readonly HookBinding[];
  readonly answer: (call: number) => Answer;
}

/** Opens a dispatcher over scripted hooks. */
async function withHooks(
  hooks: readonly ScriptedHook[],
  work: (
    dispatcher: HookDispatcher,
    faults: () => readonly (readonly string[])[],
    called: readonly string[],
  ) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  using records = RootedDir.open(directory);
  const faults = new HookFaults({ records, redact: (text) => text });
  const called: string[] = [];
  const opened = await Promise.all(hooks.map((hook) => {
    const staged: StagedHook = {
      contract: {
        binding: hook.binding ?? null,
        executionMode: hook.mode ?? "blocking",
        commitPolicy: hook.policy ?? "none",
      },
      onOverflow: "drop",
      spec: { name: hook.name } as ComponentSpec,
    };
    let calls = 0;
    let lost = false;
    const instance = {
      functions: new Set(EVENTS.filter((event) => !hook.missing?.includes(event)).map(functionOf)),
      get lost() {
        lost ||= hook.answer(calls + 1) === "gone";
        return lost;
      },
      call(name: string) {
        called.push(`${hook.name} ${name}`);
        const answer = hook.answer(++calls);
        if (answer === "gone") throw new Error("called though it is gone");
        if ("value" in answer) return Promise.resolve(answer.value);
        lost = true;
        return Promise.reject(new ComponentFailure(answer.failure, `it ended by ${answer.failure}`));
      },
      close: () => void (lost = true),
    };
    return SessionHook.open({ openInstance: () => Promise.resolve(instance) }, staged, {}, []);
  }));
  const written: (readonly string[])[] = [];
  const flushed = () => {
    faults.flush(
      {
        write: (_type: string, body: { hook_name: string; event: string; arm: string }) =>
          void written.push([body.hook_name, body.event, body.arm]),
      } as unknown as Parameters<HookFaults["flush"]>[0],
    );
    return written;
  };
  try {
    await work(new HookDispatcher(opened, faults), flushed, called);
  } finally {
    faults.close();
    await Deno.remove(directory, { recursive: true });
  }
}

const ok = (tag: string, val?: unknown): Answer => ({ value: { ok: val === undefined ? { tag } : { tag, val } } });
const CALL = { turn: 0, toolName: "t", inputBytes: 2, input: "{}", outcome: null };
const END = { taskId: "t", exitStatus: "ok" };

Deno.test("only a clean 'none' lets a call pass", async () => {
  const refusing: readonly Answer[] = [
    ok("deny", "no"),
    ok("deny", ""),
    ok("artifact", "{}"),
    ok("reopen-task", "x"),
    ok("replace-context", []),
    ok("seed-context", []),
    ok("write-manifests", []),
    ok("none ", "x"),
    { value: { err: "" } },
    { value: {} },
    { value: null },
    { value: "none" },
    { value: { ok: { tag: "none" }, err: "x" } },
    { failure: "deadline" },
    { failure: "trap" },
    "gone",
  ];
  for (const answer of refusing) {
    const hook: ScriptedHook = { name: "p", binding: "on-tool-call", policy: "deny", answer: () => answer };
    await withHooks([hook], async (dispatcher) => {
      const denial = await dispatcher.decide("on-tool-call", CALL);
      assert.equal(denial?.hook, "p", JSON.stringify(answer));
      assert.notEqual(denial.reason, "", JSON.stringify(answer));
    });
  }
  const passing: ScriptedHook = { name: "p", binding: "on-tool-call", policy: "deny", answer: () => ok("none") };
  await withHooks([passing], async (dispatcher) => assert.equal(await dispatcher.decide("on-tool-call", CALL), null));
});

Deno.test("a policy hook without the function it decides by refuses", () =>
  withHooks(
    [{ name: "p", binding: "on-tool-call", policy: "deny", missing: ["on-tool-call"], answer: () => ok("none") }],
    async (dispatcher) => {
      assert.match((await dispatcher.decide("on-tool-call", CALL))!.reason, /no function/);
    },
  ));

Deno.test("only policy hooks of the event decide, in order, until the first refusal", () =>
  withHooks([
    { name: "observer", binding: "on-tool-call", answer: () => ok("deny", "not asked") },
    { name: "all", answer: () => ok("deny", "not asked") },
    { name: "shell", binding: "on-shell", policy: "deny", answer: () => ok("deny", "other event") },
    { name: "first", binding: "on-tool-call", policy: "deny", answer: () => ok("none") },
    { name: "second", binding: "on-tool-call", policy: "deny", answer: () => ok("deny", "no") },
    { name: "third", binding: "on-tool-call", policy: "deny", answer: () => ok("deny", "never asked") },
  ], async (dispatcher, faults, called) => {
    assert.deepEqual(await dispatcher.decide("on-tool-call", CALL), { hook: "second", reason: "no" });
    assert.deepEqual(called, ["first onToolCall", "second onToolCall"]);
    assert.deepEqual(faults(), []);
  }));

Deno.test("every matching hook is told; the answers in the honoured arm come in manifest order", () =>
  withHooks([
    { name: "a", answer: () => ok("none") },
    { name: "b", answer: () => ok("reopen-task", "b") },
    { name: "c", binding: "on-task-end", policy: "reopen-task", answer: () => ok("reopen-task", "c") },
    { name: "d", answer: () => ok("deny", "d") },
    { name: "e", binding: "on-inference", answer: () => ok("reopen-task", "e") },
    { name: "f", answer: () => ({ value: { err: "f failed" } }) },
    { name: "g", missing: ["on-task-end"], answer: () => ok("reopen-task", "g") },
  ], async (dispatcher, faults, called) => {
    const { answers, errors } = await dispatcher.dispatch("on-task-end", END);
    assert.deepEqual(answers.map(({ hook }) => hook), ["b", "c"]);
    assert.deepEqual(errors, [{ hook: "f", text: "f failed" }]);
    assert.deepEqual(called.map((each) => each[0]), ["a", "b", "c", "d", "f"]);
    assert.deepEqual(faults(), [["d", "on-task-end", "deny"]]);
  }));

Deno.test("a lost instance is a fault once, is never called again, and stays an error", () =>
  withHooks(
    [{ name: "a", answer: (call) => call === 2 ? { failure: "trap" } : ok("none") }],
    async (dispatcher, faults, called) => {
      await dispatcher.dispatch("on-task-end", END);
      for (let i = 0; i < 3; i++) {
        const { errors } = await dispatcher.dispatch("on-task-end", END);
        assert.deepEqual(errors, [{ hook: "a", text: "it ended by trap" }]);
      }
      assert.equal(called.length, 2);
      assert.deepEqual(faults(), [["a", "on-task-end", "instance-lost"]]);
    },
  ));

Deno.test("an instance that is gone between two events is lost at the next", () =>
  withHooks(
    [{ name: "a", answer: (call) => call > 1 ? "gone" : ok("none") }],
    async (dispatcher, faults, called) => {
      await dispatcher.dispatch("on-task-end", END);
      assert.equal((await dispatcher.dispatch("on-session-end", SESSION_END)).errors.length, 1);
      assert.equal(called.length, 1);
      assert.deepEqual(faults(), [["a", "on-session-end", "instance-lost"]]);
    },
  ));

const SESSION_END = {
  totalTurns: 0,
  totalInputTokens: 0,
  totalOutputTokens: 0,
  totalToolCalls: 0,
  totalShellCalls: 0,
  durationMs: 0,
  exitStatus: "ok",
};

Deno.test("async hooks are told in the background; what they answer is discarded, their errors are faults", () =>
  withHooks([
    { name: "a", mode: "async", answer: (call) => call === 1 ? ok("reopen-task", "x") : { value: { err: "no" } } },
  ], async (dispatcher, faults, called) => {
    assert.deepEqual(await dispatcher.dispatch("on-task-end", END), { answers: [], errors: [] });
    await dispatcher.dispatch("on-task-end", END);
    await dispatcher.drain(1_000);
    assert.equal(called.length, 2);
    assert.deepEqual(faults(), [["a", "on-task-end", "reopen-task"], ["a", "on-task-end", "error"]]);
  }));

Deno.test("an async hook that does not finish is given up after the bound", () =>
  withHooks(
    [{ name: "a", mode: "async", answer: () => ({ value: new Promise(() => {}) }) }],
    async (dispatcher, faults) => {
      await dispatcher.dispatch("on-task-end", END);
      await dispatcher.drain(20);
      assert.deepEqual(faults(), [["a", "drain", "timeout"]]);
    },
  ));

Deno.test("a hook bound to nothing is not told of staging", () =>
  withHooks([{ name: "a", answer: () => ok("write-manifests", []) }], async (dispatcher, _faults, called) => {
    assert.equal(dispatcher.has("on-stage"), false);
    await dispatcher.dispatch("on-stage", { shellAllow: [] });
    assert.deepEqual(called, []);
  }));
