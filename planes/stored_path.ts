/**
 * Where a fetched file lands (seed resource-plane, The agent's two tools): a name the runtime chooses. Pure.
 *
 * @module
 */

/** Directory, relative to the accessible workdir, that fetched bytes land in. */
export const PEER_INBOX_DIR = "peer-in";

/** Longest part of a basename that is kept, in characters. Its end is, where the extension stands. */
const MAX_NAME = 120;

/** A basename reduced to letters, digits, `.`, `_` and `-` of ASCII; never empty. */
export function sanitisedBasename(path: string): string {
  const basename = path.slice(path.lastIndexOf("/") + 1);
  const name = basename.replaceAll(/[^A-Za-z0-9._-]/gu, "_").slice(-MAX_NAME);
  return /^[._-]*$/.test(name) ? "file" : name;
}

/**
 * The workdir-relative path fetched bytes land at: `peer-in/<handle_id>-<sanitised basename>`.
 *
 * @param handleId 16 hex digits.
 * @param path Path of the payload, which nobody has verified.
 */
export function storedPathFor(handleId: string, path: string): string {
  return `${PEER_INBOX_DIR}/${handleId}-${sanitisedBasename(path)}`;
}
