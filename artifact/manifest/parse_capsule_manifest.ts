/**
 * Reads a capsule manifest: YAML to the typed {@linkcode CapsuleManifest}, every refusal with code, file, line and column
 * (spec manifest 2 to 19). Nothing here reads the environment or resolves a credential.
 *
 * @module
 */
import { MurError, type Warning } from "../../base/errors.ts";
import type { CapsuleManifest } from "./capsule_manifest.ts";

/** How a manifest is read. */
export interface ParseOptions {
  /** Version of the running program, for the line about unknown keys of a newer one; default: this build's. */
  readonly runningVersion?: string;
  /** Whether literal keys are dropped: a reader that only needs grants holds no secret (spec manifest 3.5). */
  readonly dropLiteralKeys?: boolean;
}

/** What reading gives besides the manifest. */
export interface ParsedCapsuleManifest {
  readonly manifest: CapsuleManifest;
  /** `W-SEC-019` lines, in the order of spec manifest 4. */
  readonly warnings: readonly Warning[];
  /** Lines for stderr that carry no code (older spellings, an ignored `version`). */
  readonly notices: readonly string[];
}

/**
 * Parses a capsule manifest.
 *
 * @param file Path as the operator would name it; places carry it.
 * @throws {MurError} `E-MAN-001`, `E-MAN-002`, `E-MAN-003`, `E-CAP-018`.
 */
export function parseCapsuleManifest(
  _source: Uint8Array | string,
  file: string,
  _options: ParseOptions = {},
): ParsedCapsuleManifest {
  throw new MurError("E-MAN-002", `${file}: not read yet`);
}

/**
 * Reads and parses the capsule manifest at a path.
 *
 * @throws {MurError} `E-IO-001`, `E-IO-003`, and those of {@linkcode parseCapsuleManifest}.
 */
export function readCapsuleManifest(_path: string, _options: ParseOptions = {}): Promise<ParsedCapsuleManifest> {
  throw new MurError("E-IO-001", `murmur.yaml not found at ${_path}`);
}
