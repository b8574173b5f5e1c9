/**
 * The address of a credential gateway's upstream (spec manifest 8.5). A key is sent there, so its grammar leaves nothing
 * to interpretation: no user information, no query, no fragment, and no clear text beyond this machine.
 *
 * @module
 */

/** Why a value is no endpoint, in the order the rules are checked; `null` when it is one. */
export function gatewayEndpointProblem(value: string): string | null {
  const text = value.trim();
  if (text.includes("${")) return "contains '${': no reference is resolved here";
  // The WHATWG parser drops tabs and newlines and reads `\` as `/`; such a text is not what it would be used as.
  // deno-lint-ignore no-control-regex
  if (/[\u0000-\u0020\u007f\\]/.test(text)) return "is not a URL";
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return "is not a URL";
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return "has a scheme other than http and https";
  const authority = /^[a-z]+:\/\/([^/?#]*)/i.exec(text)?.[1];
  if (authority === undefined || authority === "" || url.hostname === "") return "has no host";
  if (authority.includes("@")) return "carries user information";
  if (text.includes("?")) return "has a query";
  if (text.includes("#")) return "has a fragment";
  if (url.protocol === "http:" && !isLoopbackHost(url.hostname)) {
    return "is http to a host other than localhost or a loopback address: the key would be sent in clear text";
  }
  return null;
}

/** Whether a WHATWG host is `localhost` or a loopback address literal, `127.0.0.0/8` or `[::1]`. */
export function isLoopbackHost(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname);
}

/** The value with user information shown as `***`. */
export function maskedEndpoint(value: string): string {
  return value.trim().replace(/(\/\/)[^\s]*@/, "$1***@").replace(/^([^/\s]*)@/, "***@");
}
