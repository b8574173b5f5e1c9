/**
 * What a symbolic link of the parent's work folder holds in a child's copy (roost seed "Workdir snapshot"). Pure.
 *
 * @module
 */

const SLASH = 0x2f;

/**
 * The target of a link in the copy: one that is an absolute path inside the parent's folder is pointed at the same place in
 * the child's; any other stays as it is. Judged by the names alone, as nothing is followed.
 *
 * @param target As the link holds it; names are bytes.
 * @param roots Absolute paths of the parent's folder, without symbolic links or as it was named.
 * @param copy Absolute path of the child's folder, not ending in a slash.
 */
export function repointedTarget(
  target: Uint8Array<ArrayBuffer>,
  roots: readonly string[],
  copy: string,
): Uint8Array<ArrayBuffer> {
  if (target[0] !== SLASH) return target;
  const pieces = piecesOf(target);
  for (const root of roots) {
    const rest = below(pieces, piecesOf(encoder.encode(root)));
    if (rest === null) continue;
    const kept = rest.map((piece) => `/${piece}`).join("");
    const slash = kept !== "" && target.at(-1) === SLASH ? "/" : "";
    return new Uint8Array([...encoder.encode(copy), ...bytesOf(kept + slash)]);
  }
  return target;
}

/** Pieces of `path` behind those that lead to `root`; `null` when it leads elsewhere, or back out of it. */
function below(path: readonly string[], root: readonly string[]): readonly string[] | null {
  const reached: string[] = [];
  let index = 0;
  while (!(reached.length === root.length && root.every((piece, at) => piece === reached[at]))) {
    const piece = path[index++];
    if (piece === undefined) return null;
    if (piece === "..") reached.pop();
    else reached.push(piece);
  }
  const rest = path.slice(index);
  let depth = 0;
  for (const piece of rest) {
    depth += piece === ".." ? -1 : 1;
    if (depth < 0) return null;
  }
  return rest;
}

/** Pieces of a path, a character for each byte: names need not be UTF-8. */
function piecesOf(path: Uint8Array): string[] {
  return Array.from(path, (byte) => String.fromCharCode(byte)).join("").split("/")
    .filter((piece) => piece !== "" && piece !== ".");
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

const encoder = new TextEncoder();
