/**
 * Reading what a component host sent: every field is checked for its type and bounds, since the host may be in a guest's
 * hand (spec components 3.9). A field that is not as it must be ends the host.
 *
 * @module
 */
import type { Header } from "./frames.ts";

/** What an instance is made for: one call of a tool or driver, the run of a script capsule, the events of a session. */
export type CallKind = "tool" | "capsule" | "hook";

/** The host broke the protocol. Its process is killed, the call ends as `crashed`. */
export class ProtocolViolation extends Error {
  override readonly name = "ProtocolViolation";
}

/** A text of at most `maxLength` UTF-16 units without unpaired surrogates. */
export function textField(header: Header, name: string, maxLength = 65_536): string {
  const value = Object.hasOwn(header, name) ? header[name] : undefined;
  if (typeof value !== "string" || value.length > maxLength || !value.isWellFormed()) {
    throw new ProtocolViolation(`field '${name}' is no text`);
  }
  return value;
}

/** As {@linkcode textField}, or `null`. */
export function optionalTextField(header: Header, name: string, maxLength?: number): string | null {
  return Object.hasOwn(header, name) && header[name] === null ? null : textField(header, name, maxLength);
}

/** A whole number from 0 to `max`. */
export function countField(header: Header, name: string, max = Number.MAX_SAFE_INTEGER): number {
  const value = Object.hasOwn(header, name) ? header[name] : undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0 || value > max) {
    throw new ProtocolViolation(`field '${name}' is no number in range`);
  }
  return value;
}

/** As {@linkcode countField}, or `null`. */
export function optionalCountField(header: Header, name: string, max?: number): number | null {
  return Object.hasOwn(header, name) && header[name] === null ? null : countField(header, name, max);
}

/** A truth value. */
export function flagField(header: Header, name: string): boolean {
  const value = Object.hasOwn(header, name) ? header[name] : undefined;
  if (typeof value !== "boolean") throw new ProtocolViolation(`field '${name}' is no truth value`);
  return value;
}

/** A list of at most `maxCount` pairs of texts. */
export function pairsField(header: Header, name: string, maxCount: number, maxLength: number): [string, string][] {
  const value = Object.hasOwn(header, name) ? header[name] : undefined;
  if (!Array.isArray(value) || value.length > maxCount) throw new ProtocolViolation(`field '${name}' is no list`);
  return value.map((pair: unknown) => {
    if (!Array.isArray(pair) || pair.length !== 2) throw new ProtocolViolation(`field '${name}' holds no pair`);
    const [first, second] = pair as unknown[];
    if (typeof first !== "string" || typeof second !== "string") {
      throw new ProtocolViolation(`field '${name}' holds no texts`);
    }
    if (first.length > maxLength || second.length > maxLength) {
      throw new ProtocolViolation(`field '${name}' holds a text that is too long`);
    }
    return [first, second];
  });
}

/** A JSON value in a message body. */
export function jsonBody(body: Uint8Array): unknown {
  try {
    return JSON.parse(strictDecoder.decode(body));
  } catch (cause) {
    throw new ProtocolViolation("a message body is no JSON", { cause });
  }
}

/** A JSON object in a message body. */
export function objectBody(body: Uint8Array): Header {
  const value = jsonBody(body);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ProtocolViolation("a message body is no object");
  }
  return value as Header;
}

const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A text that is the whole message body. */
export function textBody(body: Uint8Array): string {
  try {
    return strictDecoder.decode(body);
  } catch (cause) {
    throw new ProtocolViolation("a message body is no UTF-8", { cause });
  }
}
