/**
 * Who a handle is for (seed resource-plane, The audience): `<name>@<host:port>`, lower-cased, from the agent card of the
 * capsule that fetches. Both sides compute it the same way and never exchange it. Pure.
 *
 * @module
 */
import { isJsonObject, type JsonObject } from "../base/json_value.ts";

/** Longest audience, in characters; a header carries it. */
const MAX_LENGTH = 1_024;

/** Address of the card's first `JSONRPC` interface, else that at its top, where cards of A2A 0.3 have it. */
function urlOf(card: JsonObject): string | null {
  const interfaces = Array.isArray(card.supportedInterfaces) ? card.supportedInterfaces : [];
  for (const each of interfaces) {
    if (isJsonObject(each) && each.protocolBinding === "JSONRPC" && typeof each.url === "string") return each.url;
  }
  return typeof card.url === "string" ? card.url : null;
}

/** The audience a card stands for; `null` when it has no name or no address, or one that no header can carry. */
export function audienceFromCard(card: unknown): string | null {
  if (!isJsonObject(card)) return null;
  const { name } = card;
  const url = urlOf(card);
  if (typeof name !== "string" || name === "" || url === null) return null;
  const authority = url.replace(/^[A-Za-z][A-Za-z0-9+.-]*:\/\//, "").replace(/[/?#].*$/s, "");
  if (authority === "" || authority.includes("@")) return null;
  const audience = `${name}@${authority}`.toLowerCase();
  return audience.length <= MAX_LENGTH && /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(audience) ? audience : null;
}
