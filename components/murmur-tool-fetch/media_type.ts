/**
 * Whether a response's body is text, and in which encoding, from its `content-type`.
 *
 * @module
 */

/** Media type and charset of a `content-type` header, both in lower case. */
export interface MediaType {
  readonly type: string;
  readonly charset: string | null;
}

/** Reads a `content-type` header. */
export function parseMediaType(header: string | null): MediaType {
  const [type = "", ...parameters] = (header ?? "").split(";").map((part) => part.trim());
  let charset: string | null = null;
  for (const parameter of parameters) {
    const match = /^charset\s*=\s*"?([^"]+)"?$/i.exec(parameter);
    if (match !== null) charset ??= (match[1] ?? "").toLowerCase();
  }
  return { type: type.toLowerCase(), charset };
}

const TEXT_TYPES =
  /^(?:text\/.+|application\/(?:.+\+)?(?:json|xml|javascript|ecmascript|yaml|x-yaml|toml|graphql|sql|x-sh|x-www-form-urlencoded|x-ndjson)|image\/svg\+xml|message\/http)$/;

/** Whether bytes can be shown as text: by their type, or, when it says nothing, by their look. */
export function isText({ type }: MediaType, start: Uint8Array): boolean {
  if (TEXT_TYPES.test(type)) return true;
  if (type !== "" && type !== "application/octet-stream") return false;
  return !start.some((byte) => byte === 0 || (byte < 32 && byte !== 9 && byte !== 10 && byte !== 12 && byte !== 13));
}

/** Text of bytes in a charset; UTF-8 when it is none or an unknown one. */
export function decodeText(bytes: Uint8Array, charset: string | null): string {
  if (charset !== null) {
    try {
      return new TextDecoder(charset).decode(bytes);
    } catch {
      // An unknown or misspelled charset; UTF-8 is the best guess.
    }
  }
  return new TextDecoder().decode(bytes);
}

const EXTENSIONS: Readonly<Record<string, string>> = {
  "application/gzip": "gz",
  "application/json": "json",
  "application/pdf": "pdf",
  "application/xml": "xml",
  "application/zip": "zip",
  "image/gif": "gif",
  "image/jpeg": "jpg",
  "image/png": "png",
  "image/svg+xml": "svg",
  "image/webp": "webp",
  "text/css": "css",
  "text/csv": "csv",
  "text/html": "html",
  "text/markdown": "md",
  "text/plain": "txt",
};

/** A file name for a body: the last part of the URL's path, made safe, with an extension that fits. */
export function fileName(url: URL, { type }: MediaType): string {
  const last = url.pathname.split("/").filter((part) => part !== "").at(-1) ?? url.hostname;
  const safe = last.replace(/%[0-9A-Fa-f]{2}/g, "_").replace(/[^A-Za-z0-9._-]/g, "_").replace(/^\.+/, "").slice(0, 80);
  const name = safe === "" ? "response" : safe;
  const extension = EXTENSIONS[type];
  return extension === undefined || /\.[A-Za-z0-9]{1,5}$/.test(name) ? name : `${name}.${extension}`;
}
