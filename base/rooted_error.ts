/**
 * Failures of file access below a held directory, in the words of `wasi:filesystem`, so that a component gets the kind
 * as it is and an operator gets a `MurError`.
 *
 * @module
 */
import { type ErrorCode, MurError } from "./errors.ts";
import { ERRNO } from "./libc.ts";

/** What went wrong: case names of `wasi:filesystem/types.error-code`. */
export type RootedErrorKind =
  | "access"
  | "bad-descriptor"
  | "busy"
  | "cross-device"
  | "exist"
  | "file-too-large"
  | "illegal-byte-sequence"
  | "insufficient-memory"
  | "insufficient-space"
  | "interrupted"
  | "invalid"
  | "io"
  | "is-directory"
  | "loop"
  | "name-too-long"
  | "no-device"
  | "no-entry"
  | "no-such-device"
  | "not-directory"
  | "not-empty"
  | "not-permitted"
  | "overflow"
  | "quota"
  | "read-only"
  | "text-file-busy"
  | "too-many-links"
  | "unsupported"
  | "would-block";

const KIND_BY_ERRNO: Readonly<Record<number, RootedErrorKind>> = {
  [ERRNO.EPERM]: "not-permitted",
  [ERRNO.ENOENT]: "no-entry",
  [ERRNO.EINTR]: "interrupted",
  [ERRNO.EIO]: "io",
  [ERRNO.ENXIO]: "no-such-device",
  [ERRNO.EBADF]: "bad-descriptor",
  [ERRNO.EAGAIN]: "would-block",
  [ERRNO.ENOMEM]: "insufficient-memory",
  [ERRNO.EACCES]: "access",
  [ERRNO.EBUSY]: "busy",
  [ERRNO.EEXIST]: "exist",
  [ERRNO.EXDEV]: "cross-device",
  [ERRNO.ENODEV]: "no-device",
  [ERRNO.ENOTDIR]: "not-directory",
  [ERRNO.EISDIR]: "is-directory",
  [ERRNO.EINVAL]: "invalid",
  [ERRNO.ETXTBSY]: "text-file-busy",
  [ERRNO.EFBIG]: "file-too-large",
  [ERRNO.ENOSPC]: "insufficient-space",
  [ERRNO.EROFS]: "read-only",
  [ERRNO.EMLINK]: "too-many-links",
  [ERRNO.ENAMETOOLONG]: "name-too-long",
  [ERRNO.ENOSYS]: "unsupported",
  [ERRNO.ENOTEMPTY]: "not-empty",
  [ERRNO.ELOOP]: "loop",
  [ERRNO.EOVERFLOW]: "overflow",
  [ERRNO.EOPNOTSUPP]: "unsupported",
  [ERRNO.EDQUOT]: "quota",
};

/** Kind of a kernel error number; `io` for one without a name of its own. */
export function kindOfErrno(errno: number): RootedErrorKind {
  return KIND_BY_ERRNO[errno] ?? "io";
}

const WORDS: Readonly<Partial<Record<RootedErrorKind, string>>> = {
  "access": "permission denied",
  "bad-descriptor": "it is closed",
  "busy": "it is in use",
  "cross-device": "source and target lie on different file systems",
  "exist": "it exists already",
  "illegal-byte-sequence": "the path holds characters no path can hold",
  "insufficient-space": "no space is left",
  "io": "input or output failed",
  "is-directory": "it is a directory",
  "loop": "a symbolic link stands in the path",
  "name-too-long": "the path is too long",
  "no-entry": "not found",
  "no-such-device": "it is no regular file",
  "not-directory": "a part of the path is no directory",
  "not-empty": "the directory is not empty",
  "not-permitted": "not permitted",
  "quota": "the quota is used up",
  "read-only": "the file system is read-only",
  "text-file-busy": "the program is running",
};

function codeOf(kind: RootedErrorKind): ErrorCode {
  if (kind === "no-entry") return "E-IO-001";
  return kind === "access" ? "E-IO-002" : "E-IO-003";
}

/** A failed access below a rooted directory. Codes: `E-IO-001` not found, `E-IO-002` permission denied, else `E-IO-003`. */
export class RootedError extends MurError {
  readonly kind: RootedErrorKind;
  /** Verb of the operation, e.g. `open`. */
  readonly operation: string;
  /** The path as the caller named it, relative to the root. */
  readonly path: string;
  /** What went wrong, in words. */
  readonly reason: string;

  constructor(kind: RootedErrorKind, operation: string, path: string, reason: string = WORDS[kind] ?? kind) {
    super(codeOf(kind), `cannot ${operation} ${path}: ${reason}`);
    this.kind = kind;
    this.operation = operation;
    this.path = path;
    this.reason = reason;
  }

  /** The error for a negative kernel result. */
  static fromResult(result: number, operation: string, path: string): RootedError {
    return new RootedError(kindOfErrno(-result), operation, path);
  }
}

/** Whether `error` is a {@linkcode RootedError} of one of the kinds. */
export function isRootedError(error: unknown, ...kinds: RootedErrorKind[]): error is RootedError {
  return error instanceof RootedError && (kinds.length === 0 || kinds.includes(error.kind));
}
