/**
 * Content hashes of what was sent to and came from a driver and, under `trace.capture: content`, the bytes behind them
 * (spec trace 4.1, 4.2).
 *
 * @module
 */
import { reasonOf } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { sha256Hex } from "./trace_redaction.ts";

/** `trace.capture`. */
export type Capture = "none" | "meta" | "content";

/** One request as it went to the driver. */
export interface CapturedRequest {
  readonly system: string;
  /** The `tools` array as compact JSON. */
  readonly toolsJson: string;
  /** One compact JSON per message, envelope keys stripped. */
  readonly messageJsons: readonly string[];
}

/** Hash keys of an `inference` line; empty under `none`. */
export interface WireHashes {
  readonly system_sha?: string;
  readonly tools_sha?: string;
  readonly response_sha?: string;
  readonly message_shas?: readonly string[];
}

/** Hashes and stores the bodies of one session. */
export class WireCapture {
  readonly #directory: string;
  readonly #capture: Capture;
  readonly #report: (text: string) => void;
  readonly #stored = new Set<string>();
  /** Hash by body of the last request: a history is sent again each turn, and only what is new in it is hashed. */
  #hashes = new Map<string, string>();
  #failed = false;

  /**
   * @param directory The session's `blobs/`; made with the first blob.
   * @param report Takes the first failure to store a body; the session goes on without bodies.
   */
  constructor(directory: string, capture: Capture, report: (text: string) => void) {
    this.#directory = directory;
    this.#capture = capture;
    this.#report = report;
  }

  /** Hash of the resolved system prompt, recorded under every setting; its bytes are stored under `content`. */
  systemPrompt(prompt: string): string {
    return this.#keep(prompt, sha256Hex(prompt));
  }

  /** Hashes of a request, taken before it is sent. */
  request(request: CapturedRequest): WireHashes {
    if (this.#capture === "none") return {};
    const hashes = new Map<string, string>();
    const keep = (body: string): string => {
      const hash = hashes.get(body) ?? this.#hashes.get(body) ?? sha256Hex(body);
      hashes.set(body, hash);
      return this.#keep(body, hash);
    };
    const result = {
      system_sha: keep(request.system),
      tools_sha: keep(request.toolsJson),
      message_shas: request.messageJsons.map(keep),
    };
    this.#hashes = hashes;
    return result;
  }

  /** Adds the hash of the raw response body, before parsing, to those of its request. */
  response(request: WireHashes, body: string): WireHashes {
    if (this.#capture === "none") return {};
    return {
      system_sha: request.system_sha,
      tools_sha: request.tools_sha,
      response_sha: this.#keep(body, sha256Hex(body)),
      message_shas: request.message_shas,
    };
  }

  #keep(body: string, hash: string): string {
    if (this.#capture === "content" && !this.#stored.has(hash) && this.#store(hash, body)) this.#stored.add(hash);
    return hash;
  }

  /** Write-once and whole: a temporary name, then a hard link that refuses an existing one. */
  #store(hash: string, body: string): boolean {
    const path = `${this.#directory}/${hash}`;
    const temporary = `${this.#directory}/.${newId("evt")}`;
    try {
      Deno.mkdirSync(this.#directory, { mode: 0o700, recursive: true });
      Deno.writeTextFileSync(temporary, body, { createNew: true, mode: 0o600 });
      try {
        Deno.linkSync(temporary, path);
      } catch (cause) {
        if (!(cause instanceof Deno.errors.AlreadyExists)) throw cause;
      }
      Deno.removeSync(temporary);
      return true;
    } catch (cause) {
      try {
        Deno.removeSync(temporary);
      } catch {
        // It was never made, or the directory is gone; the report below says what matters.
      }
      if (!this.#failed) this.#report(`trace body could not be stored: ${reasonOf(cause)}`);
      this.#failed = true;
      return false;
    }
  }
}
