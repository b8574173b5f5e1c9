/**
 * How the events of a stream are shown to a person (spec cli 13.3). What a model or a tool wrote is shown on a terminal
 * with its control characters escaped; a pipe gets it as it is.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { escapeControls } from "../runtime/agent/terminal_text.ts";
import type { TextOutput } from "./context.ts";
import type { StreamUpdate } from "../base/stream_events.ts";

type ToolResult = Extract<StreamUpdate, { readonly kind: "tool-result" }>;
type Status = Extract<StreamUpdate, { readonly kind: "status" }>;

/** Lines below the first, indented by two. */
export function indentRest(text: string): string {
  return text.replaceAll("\n", "\n  ");
}

/** A tool call: `[artifact] tool: <name> [ok, exit 0, 12ms] | <first line>`, the other lines indented. */
export function toolResultText(result: ToolResult, content: string): string {
  const facts = [
    result.isError ? "error" : "ok",
    ...(result.exitCode === null ? [] : [`exit ${result.exitCode}`]),
    ...(result.durationMs === null ? [] : [`${Math.round(result.durationMs)}ms`]),
    ...(result.truncated ? ["truncated"] : []),
  ];
  return `[artifact] tool: ${result.toolName} [${facts.join(", ")}] | ${indentRest(content.replace(/\n+$/, ""))}`;
}

/** Most text of a stream that is held until it can be shown, in characters: twice the longest answer of a component. */
const MAX_HELD = 128 << 20;

/** Texts that are held for later, of bounded size together: a door that only ever sends the next piece is no capsule's. */
class HeldTexts {
  readonly #texts = new Map<string, string>();
  #size = 0;

  get(key: string): string | undefined {
    return this.#texts.get(key);
  }

  /** @throws {MurError} `E-IO-003`. */
  set(key: string, text: string): void {
    this.delete(key);
    this.#texts.set(key, text);
    this.#size += key.length + text.length;
    if (this.#size > MAX_HELD) {
      throw new MurError("E-IO-003", "the door sends artifacts that do not end", {
        hint: "mur trace show tells what the session did",
      });
    }
  }

  delete(key: string): void {
    const text = this.#texts.get(key);
    if (text === undefined) return;
    this.#size -= key.length + text.length;
    this.#texts.delete(key);
  }
}

/** Text that was shown, for telling it from the answer; beyond the bound it is another text than any answer. */
export function shownSoFar(shown: string, text: string): string {
  return shown.length > MAX_HELD ? shown : shown + text;
}

/** Joins artifacts that come in pieces (spec door 12.3). */
export class ArtifactPieces {
  readonly #held = new HeldTexts();

  /** The whole text with the last piece; `null` before it. @throws {MurError} `E-IO-003` when it has no end. */
  add(key: string, piece: { readonly append: boolean; readonly last: boolean }, text: string): string | null {
    const whole = piece.append ? (this.#held.get(key) ?? "") + text : text;
    if (piece.last) {
      this.#held.delete(key);
      return whole;
    }
    this.#held.set(key, whole);
    return null;
  }
}

/** An output that whole lines and pieces of text go to by turns: a line never starts behind half a one. */
export class MixedOutput {
  readonly #output: TextOutput;
  #midLine = false;
  #open = true;

  constructor(output: TextOutput) {
    this.#output = output;
  }

  /** Whether anybody still reads it, as far as writing has shown. */
  get open(): boolean {
    return this.#open;
  }

  /** A piece of text. */
  text(text: string): void {
    if (text === "") return;
    this.#open = this.#output.write(this.#output.isTerminal ? escapeControls(text) : text);
    this.#midLine = !text.endsWith("\n");
  }

  /** Ends the line that is open. */
  endLine(): void {
    if (this.#midLine) this.#output.write("\n");
    this.#midLine = false;
  }

  line(text: string): void {
    this.endLine();
    this.#open = this.#output.line(text);
  }
}

/** Events shown as `mur watch` prints them. */
export class WatchView {
  readonly #out: MixedOutput;
  readonly #stderr: TextOutput;
  readonly #pieces = new ArtifactPieces();
  readonly #responses = new HeldTexts();
  readonly #turns = new HeldTexts();
  readonly #terminal: boolean;
  #threaded = false;

  constructor(stdout: TextOutput, stderr: TextOutput) {
    this.#terminal = stdout.isTerminal;
    this.#out = new MixedOutput(stdout);
    this.#stderr = stderr;
  }

  /** Whether anybody still reads what is shown. */
  get open(): boolean {
    return this.#out.open;
  }

  /** Shows an event. Answers whether it was the last of its session. */
  show(update: StreamUpdate): boolean {
    switch (update.kind) {
      case "connection-ack":
        this.#threaded = update.threaded;
        return false;
      case "text":
        this.#out.text(update.text);
        if (update.final) this.#out.endLine();
        return false;
      case "tool-result": {
        const content = this.#pieces.add(`${update.taskId} ${update.artifactId}`, update, update.content);
        if (content !== null) this.#out.line(toolResultText(update, content));
        return false;
      }
      case "response": {
        const text = this.#pieces.add(`${update.taskId} response`, update, update.text);
        if (text !== null) this.#responses.set(update.taskId, text);
        return false;
      }
      case "status":
        this.#status(update);
        return false;
      case "gap":
        this.notice(`[gap]  events before ${update.firstAvailableId} are no longer kept`);
        return false;
      case "lagged":
        this.notice(`[lagged]  ${update.missed} event(s) were lost: this reader was too slow`);
        return false;
      case "capsule-closed":
        this.#out.endLine();
        return true;
      case "task":
      case "other":
        return false;
    }
  }

  /** Says something about the watch itself. */
  notice(text: string): void {
    // On a terminal both streams share the line.
    if (this.#terminal) this.#out.endLine();
    this.#stderr.line(text);
  }

  #status(update: Status): void {
    const turn = /^inference turn (\d+)$/.exec(update.message ?? "")?.[1];
    if (turn !== undefined) this.#turns.set(update.taskId, turn);
    const head = this.#bracket(update);
    const reopened = update.reopen === null ? "" : `  (reopen ${update.reopen})`;
    if (!update.final || update.state !== "completed") {
      this.#out.line(`${head}${update.message === null ? "" : `  ${indentRest(update.message)}`}${reopened}`);
    } else {
      this.#out.line(`${head}${reopened}`);
      const response = this.#responses.get(update.taskId);
      if (response !== undefined) this.#out.line(`  ${indentRest(response.replace(/\n+$/, ""))}`);
    }
    if (update.final) {
      this.#responses.delete(update.taskId);
      this.#turns.delete(update.taskId);
    }
  }

  #bracket({ contextId, taskId, state }: Status): string {
    if (!this.#threaded) return `[${state}]`;
    const turn = this.#turns.get(taskId);
    return `[${contextId.slice(0, "ctx_".length + 8)}... / ${turn === undefined ? "" : `turn ${turn} / `}${state}]`;
  }
}
