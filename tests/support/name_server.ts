/**
 * A name server over UDP that answers from a table and notes what it was asked.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createSocket } from "node:dgram";

const NXDOMAIN = 3;
const TYPES: Readonly<Record<number, string>> = { 1: "A", 28: "AAAA" };

/** Records of a name, or how it is not answered. */
export type NameAnswer =
  | { readonly a?: string; readonly aaaa?: readonly number[]; readonly rcode?: number }
  | "silent";

/** A running name server. */
export interface NameServer extends AsyncDisposable {
  readonly port: number;
  /** `name TYPE` of each question, the name as it came but for its case; a number for a type that is neither A nor AAAA. */
  readonly asked: readonly string[];
}

/** Starts one; names that are not in the table do not exist. */
export async function nameServer(
  address: string,
  table: Readonly<Record<string, NameAnswer>>,
  port = 0,
): Promise<NameServer> {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  socket.on("message", (query, remote) => {
    const labels: string[] = [];
    let at = 12;
    while (at < query.length && query[at]! !== 0) {
      labels.push(query.subarray(at + 1, at + 1 + query[at]!).toString());
      at += query[at]! + 1;
    }
    // No question that it could be asked.
    if (at + 5 > query.length) return;
    const type = query.readUInt16BE(at + 1);
    const name = labels.join(".").toLowerCase();
    asked.push(`${name} ${TYPES[type] ?? type}`);
    const answer = table[name] ?? { rcode: NXDOMAIN };
    if (answer === "silent") return;
    const head = Buffer.from(query.subarray(0, at + 5));
    head[2] = 0x81;
    head[3] = 0x80 | (answer.rcode ?? 0);
    head.writeUInt16BE(0, 8);
    head.writeUInt16BE(0, 10);
    const data = type === 1 ? answer.a?.split(".").map(Number) : answer.aaaa;
    head.writeUInt16BE(data === undefined ? 0 : 1, 6);
    const record = data === undefined ? [] : [0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data];
    socket.send(Buffer.concat([head, Buffer.from(record)]), remote.port, remote.address);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.bind(port, address, resolve);
  });
  return {
    port: socket.address().port,
    asked,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => socket.close(() => resolve())),
  };
}
