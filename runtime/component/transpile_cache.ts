/**
 * Translated components, once per SHA-256 of their bytes, on disk below `~/.murmur/compiled/` (spec components 3.9). A
 * file is written beside its place and renamed, verified by its own hash when it is read, and may be deleted at any time.
 * Two processes that translate the same component write the same content; the later rename wins.
 *
 * The transpiler is loaded only on a miss, in a process of its own.
 *
 * @module
 */
import { isComponent } from "../../artifact/component_names.ts";
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { MurError, reasonOf } from "../../base/errors.ts";
import type { FileStat } from "../../base/libc.ts";
import { embeddedFile, programStart } from "../../base/program.ts";
import { RootedDir, type RootedFile } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import { type CodeSource, TranslatedComponent } from "./translated_component.ts";
import { decodeTranslation, SUM_BYTES, type Translation } from "./translation.ts";
import { TRANSLATED, TRANSLATION_VERSION } from "./translation_version.ts";

/** Longest translation: a component of tens of megabytes takes some seconds. */
const TRANSLATE_BOUND_MS = 300_000;

/** Where a program in one file carries the translations of its own artifacts, beside its bundle. */
export const CARRIED_TRANSLATIONS = "compiled";

/** Largest cache file that is read. */
const MAX_FILE_BYTES = 1 << 30;

/** A hash in hex, with room to tell a longer text from one. */
const MAX_REMEMBERED_BYTES = 128;

/** Translations at the same time; each takes a core. */
const MAX_TRANSLATORS = 2;

/** The cache in one directory. */
export class TranspileCache {
  readonly #path: string;
  readonly #running = new Map<string, Promise<TranslatedComponent>>();
  #translators = 0;
  readonly #waiting: (() => void)[] = [];

  /** @param path `~/.murmur/compiled`; made with mode 0700 when something is first written. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * The translation of a component.
   *
   * @param sha256 Of `bytes`, lower-case hex.
   * @param subject What it is, for messages, e.g. `tool 'x'`.
   * @throws {MurError} `E-RUN-001` when the bytes are no component or do not translate.
   */
  translate(bytes: Uint8Array<ArrayBuffer>, sha256: string, subject: string): Promise<TranslatedComponent> {
    let running = this.#running.get(sha256);
    if (running === undefined) {
      running = this.#translate(bytes, sha256, subject).finally(() => this.#running.delete(sha256));
      this.#running.set(sha256, running);
    }
    return running;
  }

  async #translate(bytes: Uint8Array<ArrayBuffer>, sha256: string, subject: string): Promise<TranslatedComponent> {
    if (!isComponent(bytes)) {
      const what = isCoreModule(bytes)
        ? "is a core WebAssembly module, not a component"
        : "is not a WebAssembly component";
      throw new MurError("E-RUN-001", `${subject} ${what}`, {
        hint: "build it as a WASM component and install it again",
      });
    }
    const cached = await this.byComponent(sha256);
    if (cached !== null) return cached;
    const encoded = await this.#withSlot(() => runTranslator(bytes, subject));
    const translation = await decodeTranslation(encoded);
    if (translation === null) {
      throw new MurError("E-RUN-001", `${subject} does not compile: its translation was cut short`);
    }
    const kept = new Uint8Array(sha256.length + encoded.length);
    kept.set(new TextEncoder().encode(sha256));
    kept.set(encoded, sha256.length);
    const name = nameOf(sha256);
    this.#write(name, kept);
    const file = this.#open(name);
    return new TranslatedComponent(sha256, translation, file === null ? null : new CacheFile(file, sha256, encoded));
  }

  /** A translated component by the hash of its bytes; `null` when it is not there. */
  async byComponent(sha256: string): Promise<TranslatedComponent | null> {
    const carried = embeddedFile(CARRIED_TRANSLATIONS);
    return await readComponent(this.#open(nameOf(sha256)), sha256) ??
      (carried === null ? null : await readComponent(openOurs(carried, nameOf(sha256)), sha256));
  }

  /**
   * The hash of a component that was remembered under a key: what an archive holds, or what a launch called last. `null`
   * when nothing was. It only says where to look: the translation is verified when it is read.
   */
  remembered(kind: "archive" | "launch", key: string): string | null {
    const bytes = this.#readFile(`${key}.${kind}`, MAX_REMEMBERED_BYTES);
    const sha256 = bytes === null ? "" : new TextDecoder().decode(bytes);
    return /^[0-9a-f]{64}$/.test(sha256) ? sha256 : null;
  }

  /** Remembers a component under a key, which is a hash in hex. */
  remember(kind: "archive" | "launch", key: string, sha256: string): void {
    if (this.remembered(kind, key) !== sha256) this.#write(`${key}.${kind}`, new TextEncoder().encode(sha256));
  }

  async #withSlot<T>(work: () => Promise<T>): Promise<T> {
    while (this.#translators >= MAX_TRANSLATORS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#translators++;
    try {
      return await work();
    } finally {
      this.#translators--;
      this.#waiting.shift()?.();
    }
  }

  #readFile(name: string, maxBytes: number): Uint8Array<ArrayBuffer> | null {
    using file = this.#open(name);
    return file === null ? null : readWhole(file, maxBytes);
  }

  #open(name: string): RootedFile | null {
    return openOurs(this.#path, name);
  }

  /** A cache that can't be written costs the next launch a translation and nothing else. */
  #write(name: string, bytes: Uint8Array<ArrayBuffer>): void {
    try {
      Deno.mkdirSync(this.#path, { recursive: true, mode: 0o700 });
      using directory = RootedDir.open(this.#path, { symlinks: "refuse" });
      writeAtomicallyIn(directory, name, bytes, { mode: 0o600, durable: false });
    } catch (error) {
      if (isRootedError(error) || error instanceof Deno.errors.NotFound || isIoFailure(error)) return;
      throw error;
    }
  }
}

/** The file a translation was read from or written to, held open: it may be deleted at any time. */
class CacheFile implements CodeSource {
  readonly #file: RootedFile;
  readonly #component: string;
  readonly #sum: Uint8Array;

  /** @param encoded What it held when it was first read. */
  constructor(file: RootedFile, component: string, encoded: Uint8Array) {
    this.#file = file;
    this.#component = component;
    this.#sum = encoded.slice(0, SUM_BYTES);
  }

  async read(): Promise<Translation | null> {
    const encoded = encodedIn(this.#file, this.#component);
    if (encoded === null || this.#sum.some((byte, index) => byte !== encoded[index])) return null;
    return await decodeTranslation(encoded);
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]();
  }
}

/** A file of a directory; `null` when it is not there or another could have put it there. */
function openOurs(path: string, name: string): RootedFile | null {
  try {
    using directory = RootedDir.open(path, { symlinks: "refuse" });
    if (!isOurs(directory.stat("."))) return null;
    const file = directory.openFile(name);
    if (isOurs(file.stat())) return file;
    file[Symbol.dispose]();
    return null;
  } catch (error) {
    if (isRootedError(error)) return null;
    throw error;
  }
}

/** The translation in a file, which stays open for it; `null` when the file holds none. */
async function readComponent(file: RootedFile | null, sha256: string): Promise<TranslatedComponent | null> {
  if (file === null) return null;
  const encoded = encodedIn(file, sha256);
  const translation = encoded === null ? null : await decodeTranslation(encoded);
  if (translation !== null) {
    return new TranslatedComponent(sha256, translation, new CacheFile(file, sha256, encoded!));
  }
  file[Symbol.dispose]();
  return null;
}

function nameOf(sha256: string): string {
  return `${sha256}.${TRANSLATION_VERSION}`;
}

/** A file begins with the hash of its component, so that one put in another's place is not taken for it. */
function encodedIn(file: RootedFile, sha256: string): Uint8Array<ArrayBuffer> | null {
  const bytes = readWhole(file, MAX_FILE_BYTES);
  if (bytes === null || new TextDecoder().decode(bytes.subarray(0, sha256.length)) !== sha256) return null;
  return bytes.subarray(sha256.length);
}

function readWhole(file: RootedFile, maxBytes: number): Uint8Array<ArrayBuffer> | null {
  try {
    return file.readAll(maxBytes);
  } catch (error) {
    if (isRootedError(error)) return null;
    throw error;
  }
}

/** Whether nobody else can have put it there: code that another user wrote is not run for this one. */
function isOurs({ uid, mode }: FileStat): boolean {
  return uid === Deno.uid() && (mode & 0o022) === 0;
}

function isCoreModule(bytes: Uint8Array): boolean {
  return [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00].every((byte, index) => bytes[index] === byte);
}

function isIoFailure(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.AlreadyExists ||
    error instanceof Deno.errors.NotADirectory || (error instanceof Error && "code" in error);
}

async function runTranslator(bytes: Uint8Array<ArrayBuffer>, subject: string): Promise<Uint8Array<ArrayBuffer>> {
  const start = programStart("translate-component", {
    checkoutEntry: new URL("./translate_main.ts", import.meta.url),
    permissions: ["--allow-read", "--allow-env"],
  });
  const failed = (reason: string, cause?: unknown) =>
    new MurError("E-RUN-001", `${subject} does not compile: ${reason}`, cause === undefined ? {} : { cause });
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(start.command, {
      args: [...start.args],
      env: { ...start.env },
      clearEnv: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    throw failed(`the translator can't be started: ${reasonOf(cause)}`, cause);
  }
  const timer = setTimeout(() => child.kill("SIGKILL"), TRANSLATE_BOUND_MS);
  try {
    const writer = child.stdin.getWriter();
    const written = writer.write(bytes).then(() => writer.close()).catch(() => {});
    const { stdout, stderr, signal } = await child.output();
    await written;
    if (stdout[0] === TRANSLATED) return stdout.slice(1);
    if (stdout.length > 0) throw failed(new TextDecoder().decode(stdout.subarray(1)));
    if (signal !== null) throw failed(`the translator was ended by ${signal}`);
    const lines = new TextDecoder().decode(stderr).split("\n").map((line) => line.trim());
    throw failed(`the translator failed: ${lines.find((line) => line !== "") ?? "no reason given"}`);
  } finally {
    clearTimeout(timer);
  }
}
