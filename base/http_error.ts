/**
 * Why an outgoing request failed, told apart as far as a caller can act on it. Pure.
 *
 * @module
 */

/** Why a request failed. */
export type HttpErrorKind =
  | "invalid-request"
  | "body-size"
  | "no-such-name"
  | "name-timeout"
  | "address-refused"
  | "connection-refused"
  | "connection-timeout"
  | "unreachable"
  | "connection-terminated"
  | "certificate"
  | "tls"
  | "proxy"
  | "response-headers-too-large"
  | "protocol"
  | "response-incomplete"
  | "aborted"
  | "internal";

/** A request that got no response, or a response whose body broke off. The text names the host, never a header. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly kind: HttpErrorKind;
  constructor(kind: HttpErrorKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

/** `code` of a platform error, or an empty text. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/** Maps what `node:net`, `node:tls` and the parser report; by its code. */
export function httpErrorKindOf(code: string): HttpErrorKind {
  switch (code) {
    case "ECONNREFUSED":
      return "connection-refused";
    case "ETIMEDOUT":
      return "connection-timeout";
    case "ENETUNREACH":
    case "EHOSTUNREACH":
    case "EADDRNOTAVAIL":
    case "EACCES":
    case "EPERM":
      return "unreachable";
    case "ECONNRESET":
    case "ECONNABORTED":
    case "EPIPE":
    case "ERR_STREAM_PREMATURE_CLOSE":
      return "connection-terminated";
    case "HPE_HEADER_OVERFLOW":
      return "response-headers-too-large";
    case "ERR_TLS_CERT_ALTNAME_INVALID":
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
    case "HOSTNAME_MISMATCH":
      return "certificate";
  }
  if (/^(UNABLE_TO_|CERT_|CRL_|ERROR_IN_C|INVALID_(CA|PURPOSE))/.test(code)) return "certificate";
  if (/^(ERR_SSL_|ERR_TLS_|EPROTO$)/.test(code)) return "tls";
  return code.startsWith("HPE_") ? "protocol" : "internal";
}

/** Any failure as an {@linkcode HttpError}. */
export function httpError(error: unknown, host: string): HttpError {
  if (error instanceof HttpError) return error;
  const code = codeOf(error);
  const kind = httpErrorKindOf(code);
  const reason = error instanceof Error ? error.message : String(error);
  return new HttpError(kind, `${host}: ${reason}`, error);
}

/** The failure of a request that its caller ended. */
export function abortError(signal: AbortSignal, host: string): HttpError {
  return new HttpError("aborted", `the request to ${host} was ended`, signal.reason);
}
