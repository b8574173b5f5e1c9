/**
 * Bytes of an output stream as lines of bounded length.
 *
 * @module
 */

/** Cuts a stream into lines. What a line has beyond the bound is dropped. */
export class OutputLines {
  readonly #maxCharacters: number;
  readonly #take: (line: string) => void;
  readonly #decoder = new TextDecoder();
  #line = "";

  /** @param take Is given each line without its ending. */
  constructor(maxCharacters: number, take: (line: string) => void) {
    this.#maxCharacters = maxCharacters;
    this.#take = take;
  }

  /** The next bytes; they are copied. */
  add(bytes: Uint8Array): void {
    const [rest = "", ...more] = this.#decoder.decode(bytes, { stream: true }).split("\n");
    this.#grow(rest);
    for (const start of more) {
      this.#emit();
      this.#grow(start);
    }
  }

  /** The stream ended: what is left is a line, too. */
  end(): void {
    this.#grow(this.#decoder.decode());
    if (this.#line !== "") this.#emit();
  }

  #grow(text: string): void {
    if (this.#line.length < this.#maxCharacters) this.#line += text.slice(0, this.#maxCharacters - this.#line.length);
  }

  #emit(): void {
    const line = this.#line.endsWith("\r") ? this.#line.slice(0, -1) : this.#line;
    this.#line = "";
    // The bound may have cut a character in two.
    this.#take(line.toWellFormed());
  }
}
