/**
 * Content hashes of what was sent to and came from a driver and, under `trace.capture: content`, the bytes behind them
 * (spec trace 4.1, 4.2).
 *
 * @module
 */
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { reasonOf } from "../../base/errors.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
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
  readonly #records: RootedDir;
  readonly #capture: Capture;
  readonly #report: (text: string) => void;
  readonly #stored = new Set<string>();
  /** Hash by body of the last request: a history is sent again each turn, and only what is new in it is hashed. */
  #hashes = new Map<string, string>();
  #blobs: RootedDir | null = null;
  #failed = false;

  /**
   * @param records The session's records directory; `blobs/` is made in it with the first body.
   * @param report Takes the first failure to store a body; the session goes on without bodies.
   */
  constructor(records: RootedDir, capture: Capture, report: (text: string) => void) {
    this.#records = records;
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

  /** Write-once and whole. */
  #store(hash: string, body: string): boolean {
    try {
      writeAtomicallyIn(this.#directory(), hash, body, { exclusive: true, mode: 0o600, durable: false });
      return true;
    } catch (cause) {
      if (isRootedError(cause, "exist")) return true;
      if (!this.#failed) this.#report(`a trace body could not be stored: ${reasonOf(cause)}`);
      this.#failed = true;
      return false;
    }
  }

  #directory(): RootedDir {
    this.#blobs ??= this.#records.openDir("blobs", { create: true, mode: 0o700, follow: false });
    return this.#blobs;
  }

  /** Lets go of the directory. */
  close(): void {
    this.#blobs?.close();
    this.#blobs = null;
  }
}
