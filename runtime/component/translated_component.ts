/**
 * A translated component of a running session. Its code, some megabytes, is put away while the session sleeps and read
 * again for the next call, from the very file it came from (spec components 3.9).
 *
 * @module
 */
import type { Translation, TranslationNames } from "./translation.ts";

/** Where the code of a component is read again. */
export interface CodeSource extends Disposable {
  /** The same translation once more; `null` when what is there is another or none. */
  read(): Promise<Translation | null>;
}

/** One component. */
export class TranslatedComponent implements Disposable {
  /** Of the component's bytes, lower-case hex. */
  readonly sha256: string;
  readonly names: TranslationNames;
  #code: Translation | null;
  readonly #source: CodeSource | null;

  /** @param source `null`: the code can be read nowhere again and stays. */
  constructor(sha256: string, translation: Translation, source: CodeSource | null) {
    const { imports, exports, usedImports } = translation;
    this.sha256 = sha256;
    this.names = { imports, exports, usedImports };
    this.#code = translation;
    this.#source = source;
  }

  /** The code as far as it is in memory; `null` while it is put away. */
  get code(): Translation | null {
    return this.#code;
  }

  /**
   * The code, read again when it was put away; `null` when its file holds something else by now. It is good until the
   * next {@linkcode putAway}.
   */
  async load(): Promise<Translation | null> {
    if (this.#code !== null) return this.#code;
    const translation = await this.#source!.read();
    // Read twice at the same time, one is kept.
    this.#code ??= translation;
    return this.#code;
  }

  /**
   * Gives the memory of the code back, at once. Nobody may be using the code: no call is in flight and no process is
   * being written to.
   */
  putAway(): void {
    if (this.#source === null || this.#code === null) return;
    // All parts of a translation lie in one buffer. Left to the garbage collector it would stay: one that sleeps has
    // no reason to collect.
    this.#code.glue.buffer.transfer(0);
    this.#code = null;
  }

  [Symbol.dispose](): void {
    this.#source?.[Symbol.dispose]();
  }
}
