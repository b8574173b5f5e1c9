/**
 * The little of a DNS message that answering a command's questions needs (RFC 1035, spec containment 9.4): one question in,
 * addresses or a response code out. Pure, and total: any bytes give a result, in one pass over at most a name's length.
 *
 * @module
 */
import type { IpAddress } from "../base/ip_address.ts";

/** Largest message in bytes, either way. */
export const MAX_DNS_MESSAGE = 4_096;

/** Response codes that are given. */
export const DNS_RCODE = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const;
export type DnsResponseCode = typeof DNS_RCODE[keyof typeof DNS_RCODE];

const HEADER = 12;
const MAX_LABEL = 63;
/** Bytes of a name with its length bytes and its end. */
const MAX_NAME = 255;
const TYPE_A = 1;
const TYPE_AAAA = 28;
const CLASS_IN = 1;
/** The name of the question, as a pointer to where it stands in every reply. */
const NAME_POINTER = [0xc0, HEADER] as const;
/** Seconds an address may be kept. */
const TTL = 60;
/** Bytes of a record before its data: name, type, class, time to live, length. */
const RECORD_HEAD = 12;

/** Which address family a question asks for. */
export type AskedFamily = 4 | 6;

/** What a message is. */
export type DnsQuery =
  /** Too short to have a header: nobody to answer. */
  | { readonly kind: "fragment" }
  /** No query as there is one here. */
  | { readonly kind: "malformed" }
  | {
    readonly kind: "question";
    /** Lower case, without the dot at its end; `null` when a label holds anything but letters, digits, `-` and `_`. */
    readonly name: string | null;
    /** `null`: it asks for something else than addresses of the Internet. */
    readonly family: AskedFamily | null;
    /** Where the question ends. */
    readonly end: number;
  };

const MALFORMED: DnsQuery = { kind: "malformed" };

/** A label's text, lower case; `null` when it is no part of a host name. */
function labelText(bytes: Uint8Array): string | null {
  let text = "";
  for (const byte of bytes) {
    const upper = byte >= 0x41 && byte <= 0x5a;
    const plain = (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x5f;
    if (!upper && !plain) return null;
    text += String.fromCharCode(upper ? byte | 0x20 : byte);
  }
  return text;
}

/**
 * Reads a query: a standard one with exactly one question, whose name is written out. What follows the question (EDNS)
 * changes nothing and is not looked at.
 */
export function parseDnsQuery(message: Uint8Array): DnsQuery {
  if (message.length < HEADER) return { kind: "fragment" };
  const response = (message[2]! & 0x80) !== 0;
  const opcode = (message[2]! >> 3) & 0x0f;
  const questions = message[4]! << 8 | message[5]!;
  if (message.length > MAX_DNS_MESSAGE || response || opcode !== 0 || questions !== 1) return MALFORMED;

  const labels: string[] = [];
  let isHostName = true;
  let at = HEADER;
  for (;;) {
    const length = message[at];
    // A length above 63 is a pointer: compression, which has no place in the first name of a message.
    if (length === undefined || length > MAX_LABEL || at - HEADER + length + 1 > MAX_NAME) return MALFORMED;
    at += 1;
    if (length === 0) break;
    if (at + length > message.length) return MALFORMED;
    const label = labelText(message.subarray(at, at + length));
    if (label === null) isHostName = false;
    else labels.push(label);
    at += length;
  }
  if (at + 4 > message.length) return MALFORMED;
  const type = message[at]! << 8 | message[at + 1]!;
  const inInternet = (message[at + 2]! << 8 | message[at + 3]!) === CLASS_IN;
  const family = !inInternet ? null : type === TYPE_A ? 4 : type === TYPE_AAAA ? 6 : null;
  return { kind: "question", name: isHostName ? labels.join(".") : null, family, end: at + 4 };
}

/** A reply's header: the query's number, operation and wish for recursion; recursion available; counts. */
function replyHead(query: Uint8Array, code: DnsResponseCode, questions: number, answers: number): number[] {
  const flags = 0x80 | (query[2]! & 0x79);
  return [query[0]!, query[1]!, flags, 0x80 | code, 0, questions, answers >> 8, answers & 0xff, 0, 0, 0, 0];
}

/** The reply to a message with a header but no question that could be read. */
export function dnsFormatError(query: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(replyHead(query, DNS_RCODE.FORMERR, 0, 0));
}

/**
 * The reply to a question, which is echoed as it came.
 *
 * @param end Where the question ends, as {@linkcode parseDnsQuery} said.
 * @param addresses Become records, each in its family's; those that would make the reply too long are left out.
 */
export function dnsReply(
  query: Uint8Array,
  end: number,
  code: DnsResponseCode,
  addresses: readonly IpAddress[] = [],
): Uint8Array<ArrayBuffer> {
  const records: number[] = [];
  let count = 0;
  for (const { version, bytes } of addresses) {
    if (end + records.length + RECORD_HEAD + bytes.length > MAX_DNS_MESSAGE) break;
    const type = version === 4 ? TYPE_A : TYPE_AAAA;
    records.push(...NAME_POINTER, 0, type, 0, CLASS_IN, 0, 0, 0, TTL, 0, bytes.length, ...bytes);
    count += 1;
  }
  const reply = new Uint8Array(end + records.length);
  reply.set(query.subarray(0, end));
  reply.set(replyHead(query, code, 1, count));
  reply.set(records, end);
  return reply;
}
