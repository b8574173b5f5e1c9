/**
 * DNS messages as a command sends and reads them: the other side of `dns_message.ts`, written on its own.
 *
 * @module
 */
import { formatIpAddress } from "../../base/ip_address.ts";

/** A question; everything that is not said is as a stub resolver has it. */
export type DnsQuestion = ({ readonly name: string } | { readonly labels: readonly string[] }) & {
  readonly type: number;
  readonly dnsClass?: number;
  readonly id?: number;
  readonly recursion?: boolean;
};

/** The bytes of a query. Labels that are too long are written as they are. */
export function dnsQuery(asked: DnsQuestion): Uint8Array<ArrayBuffer> {
  const labels = "labels" in asked ? asked.labels : asked.name.split(".").filter((label) => label !== "");
  const id = asked.id ?? 0x1234;
  const name = labels.flatMap((label) => {
    const bytes = new TextEncoder().encode(label);
    return [bytes.length, ...bytes];
  });
  const head = [id >> 8, id & 255, asked.recursion === false ? 0 : 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
  return new Uint8Array([...head, ...name, 0, asked.type >> 8, asked.type & 255, 0, asked.dnsClass ?? 1]);
}

/** A reply as a stub resolver reads it. */
export interface DnsReply {
  readonly id: number;
  readonly code: number;
  /** Its name as it stands there; `null` when no question is echoed. */
  readonly question: string | null;
  readonly addresses: readonly string[];
}

/**
 * Reads a reply of ours.
 *
 * @throws {RangeError} When it is cut short, longer than it says, or a record is not what it should be.
 */
export function readDnsReply(reply: Uint8Array): DnsReply {
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  if ((view.getUint16(2) & 0x8080) !== 0x8080) throw new RangeError("no response with recursion");
  if (view.getUint16(8) !== 0 || view.getUint16(10) !== 0) throw new RangeError("records of other sections");
  let at = 12;
  let question: string | null = null;
  if (view.getUint16(4) === 1) {
    const labels: string[] = [];
    for (let length = view.getUint8(at++); length !== 0; length = view.getUint8(at++)) {
      labels.push(new TextDecoder("latin1").decode(reply.subarray(at, at + length)));
      at += length;
    }
    question = labels.join(".");
    at += 4;
  }
  const addresses: string[] = [];
  for (let left = view.getUint16(6); left > 0; left--) {
    const [pointer, type, dnsClass, ttl, length] = [
      view.getUint16(at),
      view.getUint16(at + 2),
      view.getUint16(at + 4),
      view.getUint32(at + 6),
      view.getUint16(at + 10),
    ];
    const version = type === 1 ? 4 : 6;
    if (pointer !== 0xc00c || dnsClass !== 1 || ttl !== 60 || length !== (version === 4 ? 4 : 16)) {
      throw new RangeError("a record that is none of ours");
    }
    addresses.push(formatIpAddress({ version, bytes: reply.slice(at + 12, at + 12 + length) }));
    at += 12 + length;
  }
  if (at !== reply.length) throw new RangeError("bytes after the last record");
  return { id: view.getUint16(0), code: view.getUint16(2) & 15, question, addresses };
}
