/**
 * What of an answer was shown while it came. A try that broke off can't be taken back from the screen; when the next one
 * begins to speak, that is said once.
 *
 * @module
 */
import type { DriverContext } from "murmur/driver";

/** Put between the pieces of an answer that broke off and the answer that replaces them. */
export const RESTART_NOTE = "\n\n[the connection broke; the answer starts again]\n\n";

/** Shows chunks of one inference over all its tries. */
export class ShownText {
  readonly #context: DriverContext;
  #shown = false;
  #stale = false;

  constructor(context: DriverContext) {
    this.#context = context;
  }

  /** A try begins: what was shown so far belongs to a broken one. */
  restart(): void {
    this.#stale = this.#shown;
  }

  text(chunk: string): void {
    if (chunk === "") return;
    if (this.#stale) this.#context.emitChunk(RESTART_NOTE);
    this.#stale = false;
    this.#shown = true;
    this.#context.emitChunk(chunk);
  }

  thinking(chunk: string): void {
    if (chunk !== "") this.#context.emitThinkingChunk(chunk);
  }
}
