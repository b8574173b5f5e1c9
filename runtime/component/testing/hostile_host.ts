/**
 * A host process that does not keep to the protocol: it greets, waits for a call and then does what its first argument
 * says. For tests of the runtime's side.
 *
 * @module
 */
import { encodeMessage, type Header, MAX_FRAME_BYTES, MessageDecoder, MessageType } from "../frames.ts";

const behaviour = Deno.args[0]!;
const decoder = new MessageDecoder(Number.MAX_SAFE_INTEGER);
const chunk = new Uint8Array(1 << 16);

function write(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
}

function send(type: number, id = 0, header?: Header, body?: Uint8Array): void {
  write(encodeMessage(type, id, header, body));
}

function receive(type: number): void {
  for (;;) {
    const message = decoder.next();
    if (message === null) {
      const count = Deno.stdin.readSync(chunk);
      if (count === null) Deno.exit(0);
      decoder.push(chunk.subarray(0, count));
    } else if (message.type === type) return;
  }
}

function raw(length: number, type: number): void {
  const head = new Uint8Array(9);
  const view = new DataView(head.buffer);
  view.setUint32(0, length, true);
  view.setUint8(4, type);
  write(head);
}

const text = (value: string) => new TextEncoder().encode(value);
const OK = { end: "ok", dropped: 0, deniedPages: 0, deniedElements: 0 };
const RESULT = { status: "passed", summary: null, data: null, dataPath: null, truncated: false, metadata: [] };
const result = (header: Header, body: unknown = RESULT) =>
  send(MessageType.result, 0, header, text(JSON.stringify(body)));

if (behaviour !== "silent") send(MessageType.ready);
if (behaviour === "early-frame") send(MessageType.chunk, 0, { kind: "text" }, text("x"));
receive(behaviour.startsWith("hook-") ? MessageType.open : MessageType.call);

const enter = () => send(MessageType.entered);
const behaviours: Record<string, () => void> = {
  "orderly": () => {
    enter();
    result(OK);
  },
  "unknown-type": () => send(99),
  "runtime-type": () => send(MessageType.call),
  "garbage": () => write(crypto.getRandomValues(new Uint8Array(60_000)).map((byte) => byte | 0x80)),
  "huge-frame": () => raw(MAX_FRAME_BYTES + 1, MessageType.chunk),
  "huge-message": () => {
    const part = new Uint8Array(MAX_FRAME_BYTES + 4).fill(32);
    new DataView(part.buffer).setUint32(0, MAX_FRAME_BYTES, true);
    part[4] = MessageType.chunk | 0x80;
    for (let i = 0; i < 70; i++) write(part);
  },
  "second-greeting": () => send(MessageType.ready),
  "result-before-entry": () => result(OK),
  "second-entry": () => {
    enter();
    enter();
  },
  "unknown-end": () => {
    enter();
    result({ ...OK, end: "fine" });
  },
  "unknown-status": () => {
    enter();
    result(OK, { ...RESULT, status: "great" });
  },
  "result-no-json": () => {
    enter();
    send(MessageType.result, 0, OK, text("{"));
  },
  "negative-count": () => {
    enter();
    result({ ...OK, dropped: -1 });
  },
  "bad-utf8-chunk": () => {
    enter();
    send(MessageType.chunk, 0, { kind: "text" }, new Uint8Array([0xc3, 0x28]));
  },
  "unknown-request": () => {
    enter();
    send(MessageType.request, 1, { op: "run", command: "id" });
  },
  "unknown-file-request": () => {
    enter();
    send(MessageType.request, 1, { op: "fs.chmod", fd: 0 });
  },
  "two-requests": () => {
    enter();
    send(MessageType.request, 1, { op: "request-input" }, text("a"));
    send(MessageType.request, 2, { op: "request-input" }, text("b"));
  },
  "unread-answers": () => {
    enter();
    const facts = { follow: true, write: false, create: false, exclusive: false, truncate: false, mutate: false };
    send(MessageType.request, 1, { op: "fs.open", fd: 0, path: "big", read: true, directory: false, ...facts });
    receive(MessageType.reply);
    for (let id = 2; id < 4_000; id++) {
      send(MessageType.request, id, { op: "fs.read", fd: 1, offset: 0, length: 1 << 19 });
    }
  },
  "old-id": () => {
    enter();
    send(MessageType.timer, 5, { ms: 10_000 });
    send(MessageType.timer, 5, { ms: 10_000 });
  },
  "foreign-handle": () => {
    enter();
    send(MessageType.release, 0, { fd: 7 });
  },
  "input-of-a-tool": () => {
    enter();
    send(MessageType.request, 1, { op: "stdin.read", max: 10 });
  },
  "unknown-stream": () => {
    enter();
    send(MessageType.output, 0, { stream: "terminal" }, text("x"));
  },
  "exit": () => {
    enter();
    Deno.exit(3);
  },
  "output-flood": () => {
    enter();
    for (let i = 0; i < 100; i++) {
      send(MessageType.output, 0, { stream: "stdout" }, new Uint8Array(100_000).fill(120));
    }
    result(OK);
  },
  "frame-after-result": () => {
    enter();
    result(OK);
    send(MessageType.chunk, 0, { kind: "text" }, text("late"));
  },
};
/** Opens an instance as it must, then waits for a call of it. */
const opened = () => {
  enter();
  result(OK, ["onToolCall"]);
  receive(MessageType.callKept);
};
const hookBehaviours: Record<string, () => void> = {
  "hook-list-of-numbers": () => {
    enter();
    result(OK, [1, 2]);
  },
  "hook-no-list": () => {
    enter();
    result(OK, { onToolCall: true });
  },
  "hook-answers-unentered": () => {
    opened();
    result(OK, { ok: { tag: "none" } });
  },
  "hook-answers-unasked": () => {
    enter();
    result(OK, ["onToolCall"]);
    result(OK, { ok: { tag: "none" } });
  },
  "hook-answers-twice": () => {
    opened();
    enter();
    result(OK, { ok: { tag: "deny", val: "no" } });
    result(OK, { ok: { tag: "none" } });
  },
  "hook-asks-unknown": () => {
    opened();
    enter();
    send(MessageType.request, 1, { op: "read-secrets" }, text("{}"));
  },
  "hook-no-json": () => {
    opened();
    enter();
    send(MessageType.result, 0, OK, text("none"));
  },
  "hook-dies": () => {
    opened();
    enter();
    Deno.exit(0);
  },
};
behaviours[behaviour]?.();
hookBehaviours[behaviour]?.();
receive(0);
