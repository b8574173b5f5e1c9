/**
 * A hook for tests: the `config:` of its entry says what it does at each event, be it wrong.
 *
 * @module
 */
import { config, environment } from "murmur/environment";
import { files } from "murmur/files";
import { defineHook, type Hook, type HookContext, type HookError } from "murmur/hook";

/** What it does at an event; members are carried out in this order. */
interface Action {
  /** Only when the event as JSON holds this text. */
  readonly when?: string;
  /** Only before a call (`outcome` is `null`), or only after it. */
  readonly at?: "decision" | "observation";
  /** Only the first so many times. */
  readonly times?: number;
  /** Only the so-manieth time, from 1. */
  readonly nth?: number;
  readonly say?: string;
  /** Writes so many bytes to standard output. */
  readonly flood?: number;
  readonly delayMs?: number;
  /** Never returns. */
  readonly spin?: boolean;
  /** Takes memory until there is none. */
  readonly eat?: boolean;
  readonly fetch?: string;
  /** Asks the runtime, and notes what it answers. */
  readonly ask?: "inference" | "tokens" | "task" | "conversation" | "environment" | "files";
  readonly model?: string;
  readonly throws?: string;
  /** Answers with this as it is; `$notes` in a text stands for what was noted. */
  readonly answer?: unknown;
  /** Answers with the last messages of a compaction, behind a summary. */
  readonly keep?: number;
}

interface Config {
  /** Appends each event to `events.jsonl`. */
  readonly record?: boolean;
  readonly actions?: Readonly<Record<string, readonly Action[]>>;
}

const settings: Config = config<Config>() ?? {};
const taken = new Map<Action, number>();
const notes: unknown[] = [];
let events = 0;

function asked(what: NonNullable<Action["ask"]>, action: Action, ctx: HookContext): unknown {
  const or = (read: () => unknown) => {
    try {
      return read();
    } catch (error) {
      return { error: (error as HookError).code ?? String(error) };
    }
  };
  switch (what) {
    case "inference":
      return or(() =>
        ctx.runInference({
          messages: [{ role: "user", content: '{"turns":[{"text":"asked by a hook"}]}' }],
          systemPrompt: "be short",
          ...(action.model === undefined ? {} : { model: action.model }),
        })
      );
    case "tokens":
      return ctx.countTokens("hello world");
    case "task":
      return {
        given: or(() => ctx.readTaskInput()),
        original: or(() => ctx.readTaskInput("original")),
        output: or(() => ctx.readTaskOutput()),
      };
    case "conversation":
      return or(() => {
        const first = ctx.readMessages(2);
        return [first, first.nextCursor === null ? null : ctx.readMessages(2, first.nextCursor)];
      });
    case "environment":
      return environment();
    case "files":
      return or(() => files.list(".").map(({ name }) => name).sort());
  }
}

function filled(value: unknown): unknown {
  if (typeof value === "string") return value.replace("$notes", JSON.stringify(notes));
  if (Array.isArray(value)) return value.map(filled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member)]));
}

async function handle(name: string, event: unknown, ctx: HookContext): Promise<unknown> {
  events++;
  const json = JSON.stringify(event);
  if (settings.record === true) {
    files.append("events.jsonl", `${JSON.stringify({ name, events, event })}\n`);
  }
  for (const action of settings.actions?.[name] ?? []) {
    if (action.when !== undefined && !json.includes(action.when)) continue;
    if (action.at !== undefined) {
      const before = (event as { readonly outcome: unknown }).outcome === null;
      if (before !== (action.at === "decision")) continue;
    }
    const times = (taken.get(action) ?? 0) + 1;
    taken.set(action, times);
    if (action.times !== undefined && times > action.times) continue;
    if (action.nth !== undefined && times !== action.nth) continue;
    if (action.say !== undefined) console.log(action.say);
    if (action.flood !== undefined) {
      for (let left = action.flood; left > 0; left -= 1_000) console.log("x".repeat(999));
    }
    if (action.delayMs !== undefined) await new Promise<void>((resolve) => setTimeout(resolve, action.delayMs));
    while (action.spin === true);
    if (action.eat === true) {
      for (const taken: Uint8Array[] = [];;) taken.push(new Uint8Array(16 << 20).fill(1));
    }
    if (action.fetch !== undefined) {
      notes.push(await fetch(action.fetch).then(async (response) => await response.text(), (error) => String(error)));
    }
    if (action.ask !== undefined) notes.push(asked(action.ask, action, ctx));
    if (action.throws !== undefined) throw new Error(action.throws);
    if (action.keep !== undefined) {
      const { messages } = event as {
        readonly messages: readonly { readonly role: string; readonly content: string }[];
      };
      return {
        tag: "replace-context",
        val: [{ role: "user", content: `summary of ${messages.length}` }, ...messages.slice(-action.keep)],
      };
    }
    if (action.answer !== undefined) return filled(action.answer);
  }
  return undefined;
}

const EVENTS: Readonly<Record<keyof Hook, string>> = {
  onStage: "on-stage",
  onSessionStart: "on-session-start",
  onTaskStart: "on-task-start",
  onInference: "on-inference",
  onToolCall: "on-tool-call",
  onShell: "on-shell",
  onCompaction: "on-compaction",
  onTaskEnd: "on-task-end",
  onSessionEnd: "on-session-end",
};

// Any answer anywhere, which the types of a real hook would not allow.
export default defineHook(
  Object.fromEntries(
    Object.entries(EVENTS).map(([method, name]) => [
      method,
      (event: unknown, ctx: HookContext) => handle(name, event, ctx),
    ]),
  ) as unknown as Hook,
);
