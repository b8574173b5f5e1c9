/**
 * The `peer` of the two tools: `host:port`, or an `http(s)` URL of which only scheme, host and port count. Pure.
 *
 * @module
 */

/** The base URL of a peer's door, without a path; `null` for what names none. */
export function peerUrl(peer: string): URL | null {
  const text = peer.trim();
  if (text === "" || /[\s\\]/.test(text)) return null;
  const written = /^https?:\/\//i.test(text);
  if (!written && !/^(\[[0-9A-Fa-f:.]+\]|[^/?#@:[\]]+):\d{1,5}$/.test(text)) return null;
  try {
    const url = new URL(written ? text : `http://${text}`);
    if (url.username !== "" || url.password !== "" || url.hostname === "") return null;
    return new URL(url.origin);
  } catch {
    return null;
  }
}

/** `host:port` as the results of the tools and the trace name a peer. */
export function shownPeer(url: URL): string {
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? "443" : "80")}`;
}
