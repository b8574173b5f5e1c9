/**
 * Script capsules: `export default defineCapsule({ async run(ctx) { … } })`, a program instead of a model loop.
 *
 * @module
 */
import { collect } from "./body.ts";
import { onReady } from "./event_loop.ts";
import { dispose, host, payloadOf, wellFormed } from "./host.ts";

/** What a called tool answered. */
export interface InvokeResult {
  readonly status: "passed" | "failed" | "error";
  readonly summary: string | null;
  readonly data: string | null;
  readonly dataPath: string | null;
  readonly truncated: boolean;
  readonly metadata: readonly (readonly [string, string])[];
}

/** What a script capsule may do beside files and HTTP. */
export interface CapsuleContext {
  /**
   * Calls a tool the manifest declares. `input` is sent as JSON; text goes as it is.
   *
   * @throws {Error} When the tool is not declared or cannot be started. A tool that ran and failed is a result.
   */
  invoke(name: string, input?: unknown): InvokeResult;
  /** Everything on standard input, as text. */
  readStdin(): Promise<string>;
}

/** A script capsule. */
export interface Capsule {
  /** Runs once. A thrown error ends the capsule as failed. */
  run(context: CapsuleContext): void | Promise<void>;
}

/** Declares the capsule a file is; its default export. */
export function defineCapsule(capsule: Capsule): Capsule {
  if (typeof capsule?.run !== "function") throw new TypeError("defineCapsule: the capsule has no run function");
  return capsule;
}

async function* stdin(): AsyncGenerator<Uint8Array, void, undefined> {
  const stream = host().stdin.getStdin();
  try {
    for (;;) {
      let chunk: Uint8Array;
      try {
        chunk = stream.read(65_536);
      } catch (error) {
        const payload = payloadOf(error);
        if (typeof payload === "object" && payload !== null && "tag" in payload && payload.tag === "closed") return;
        throw error;
      }
      if (chunk.length > 0) yield chunk;
      else {
        const pollable = stream.subscribe();
        await new Promise<void>((resolve) => onReady(pollable, resolve));
        dispose(pollable);
      }
    }
  } finally {
    dispose(stream);
  }
}

/** @internal */
export function capsuleContext(): CapsuleContext {
  return {
    invoke(name, input) {
      const data = input === undefined ? null : typeof input === "string" ? input : JSON.stringify(input);
      try {
        const registry = host().toolRegistry;
        if (registry === undefined) throw new Error("only a script capsule calls tools");
        return registry.invoke(wellFormed(name), { data: data === null ? null : wellFormed(data), logPath: null });
      } catch (error) {
        const payload = payloadOf(error);
        throw typeof payload === "string" ? new Error(payload) : error;
      }
    },
    readStdin: async () => new TextDecoder().decode(await collect(stdin())),
  };
}
