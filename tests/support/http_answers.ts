/**
 * Answers of HTTP/1, whole and broken, for whatever reads them.
 *
 * @module
 */
import type { HttpErrorKind } from "../../base/http_error.ts";

const TEXT = "one, zwei: ä\n";
const SIZE = new TextEncoder().encode(TEXT).length;

/** Whole answers by how their body is framed; the text of each has less than 100 bytes. */
export const WHOLE_ANSWERS: Readonly<Record<string, { readonly bytes: string; readonly text: string }>> = {
  length: { bytes: `HTTP/1.1 200 OK\r\nContent-Length: ${SIZE}\r\n\r\n${TEXT}`, text: TEXT },
  empty: { bytes: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", text: "" },
  end: { bytes: `HTTP/1.1 200 OK\r\n\r\n${TEXT}`, text: TEXT },
  chunked: {
    bytes: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;ext=1\r\none,\r\n${(SIZE - 4).toString(16)}\r\n${
      TEXT.slice(4)
    }\r\n0\r\ntrailer: x\r\n\r\n`,
    text: TEXT,
  },
  interim: {
    bytes: `HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: ${SIZE}\r\n\r\n${TEXT}`,
    text: TEXT,
  },
  bare: { bytes: `HTTP/1.0 200\ncontent-length: ${SIZE}\n\n${TEXT}`, text: TEXT },
};

/** What is no whole answer once the connection has ended, or none of at most 100 bytes, and why. */
export const BROKEN_ANSWERS: readonly { readonly bytes: string; readonly kind: HttpErrorKind }[] = [
  { bytes: "", kind: "connection-terminated" },
  { bytes: "HTTP/1.1 200 OK\r\ncontent", kind: "response-incomplete" },
  { bytes: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfour", kind: "response-incomplete" },
  { bytes: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfour", kind: "response-incomplete" },
  { bytes: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfives\r\n", kind: "response-incomplete" },
  { bytes: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nfives\r\n", kind: "protocol" },
  { bytes: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n", kind: "protocol" },
  { bytes: "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", kind: "protocol" },
  { bytes: "HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\nfives", kind: "protocol" },
  { bytes: "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", kind: "protocol" },
  { bytes: "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", kind: "protocol" },
  { bytes: "SSH-2.0-OpenSSH\r\n\r\n", kind: "protocol" },
  { bytes: `HTTP/1.1 200 OK\r\nx: ${"y".repeat(70_000)}`, kind: "response-headers-too-large" },
  { bytes: `HTTP/1.1 200 OK\r\nx: ${"y".repeat(70_000)}\r\n\r\n`, kind: "response-headers-too-large" },
  { bytes: `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;${"y".repeat(5_000)}\r\nabc`, kind: "protocol" },
  {
    bytes: `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n${"a\r\n".repeat(70_000)}\r\n`,
    kind: "protocol",
  },
  { bytes: `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;${"y".repeat(40_000)}`, kind: "protocol" },
  { bytes: "HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n", kind: "body-size" },
  { bytes: `HTTP/1.1 200 OK\r\n\r\n${"y".repeat(101)}`, kind: "body-size" },
];
