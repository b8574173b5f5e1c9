// A tool that does whatever its input asks for; the tests of the component host call it. Runs in QuickJS.
import environment from "wasi:cli/environment@0.2.10";
import stdin from "wasi:cli/stdin@0.2.10";
import stdout from "wasi:cli/stdout@0.2.10";
import stderr from "wasi:cli/stderr@0.2.10";
import clock from "wasi:clocks/monotonic-clock@0.1.10";
import preopens from "wasi:filesystem/preopens@0.2.10";
import http from "wasi:http/types@0.2.10";
import outgoing from "wasi:http/outgoing-handler@0.2.10";
import poll from "wasi:io/poll@0.1.10";
import random from "wasi:random/random@0.2.10";
import chunks from "murmur:text/chunks@0.1.0";
import task from "murmur:task/task@0.1.0";

const bytesOf = (text) => {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
};
const textOf = (bytes) => {
  let text = "";
  for (let i = 0; i < bytes.length; i++) text += String.fromCharCode(bytes[i]);
  return text;
};
const codeOf = (error) => {
  const payload = error && error.payload !== undefined ? error.payload : error;
  if (payload instanceof Error) throw payload;
  return payload && payload.tag !== undefined ? payload.tag : payload;
};
const attempt = (work) => {
  try {
    const value = work();
    return { ok: value === undefined ? null : value };
  } catch (error) {
    return { error: codeOf(error) };
  }
};

const root = (name) => {
  for (const [descriptor, path] of preopens.getDirectories()) if (path === name) return descriptor;
  throw new Error("no preopen " + name);
};

const files = {
  preopens: () => preopens.getDirectories().map(([, path]) => path),
  write({ at = ".", path, text, append = false, exclusive = false }) {
    const file = root(at).openAt({ symlinkFollow: true }, path, { create: true, truncate: !append, exclusive }, {
      write: true,
    });
    const stream = append ? file.appendViaStream() : file.writeViaStream(0);
    stream.blockingWriteAndFlush(bytesOf(text));
  },
  read({ at = ".", path, follow = true }) {
    const file = root(at).openAt({ symlinkFollow: follow }, path, {}, { read: true });
    const stream = file.readViaStream(0);
    let text = "";
    for (;;) {
      try {
        text += textOf(stream.blockingRead(100000));
      } catch (error) {
        if (codeOf(error) === "closed") return text;
        throw error;
      }
    }
  },
  pread: ({ at = ".", path, offset, length }) => {
    const [bytes, end] = root(at).openAt({}, path, {}, { read: true }).read(length, offset);
    return [textOf(bytes), end];
  },
  list({ at = ".", path }) {
    const stream = root(at).openAt({}, path, { directory: true }, { read: true }).readDirectory();
    const entries = [];
    for (let entry = stream.readDirectoryEntry(); entry; entry = stream.readDirectoryEntry()) {
      entries.push([entry.name, entry.type]);
    }
    return entries;
  },
  stat({ at = ".", path, follow = true }) {
    const stat = root(at).statAt({ symlinkFollow: follow }, path);
    const time = stat.dataModificationTimestamp;
    return { type: stat.type, size: Number(stat.size), links: Number(stat.linkCount), modified: Number(time.seconds) };
  },
  mkdir: ({ at = ".", path }) => root(at).createDirectoryAt(path),
  rmdir: ({ at = ".", path }) => root(at).removeDirectoryAt(path),
  unlink: ({ at = ".", path }) => root(at).unlinkFileAt(path),
  rename: ({ at = ".", path, to = at, newPath }) => root(at).renameAt(path, root(to), newPath),
  link: ({ at = ".", path, to = at, newPath }) => root(at).linkAt({}, path, root(to), newPath),
  symlink: ({ at = ".", target, path }) => root(at).symlinkAt(target, path),
  readlink: ({ at = ".", path }) => root(at).readlinkAt(path),
  truncate: ({ at = ".", path, size }) => root(at).openAt({}, path, {}, { write: true }).setSize(size),
  touch: ({ at = ".", path, seconds }) =>
    root(at).setTimesAt({}, path, { tag: "no-change" }, { tag: "timestamp", val: { seconds, nanoseconds: 0 } }),
  sync({ at = ".", path }) {
    const file = root(at).openAt({}, path, {}, { write: true });
    file.syncData();
    file.sync();
  },
  same({ at = ".", path, other }) {
    const open = (name) => root(at).openAt({}, name, {}, { read: true });
    const hash = (name) => {
      const { lower, upper } = root(at).metadataHashAt({}, name);
      return lower + ":" + upper;
    };
    return [open(path).isSameObject(open(other)), hash(path) === hash(other)];
  },
  writeReadOnly({ at = ".", path }) {
    const file = root(at).openAt({}, path, {}, { read: true });
    file.write(bytesOf("x"), 0);
  },
  openMany({ at = ".", path, count }) {
    const open = [];
    for (let i = 0; i < count; i++) open.push(root(at).openAt({}, path, {}, { read: true }));
    return open.length;
  },
  openAndDrop({ at = ".", path, count }) {
    for (let i = 0; i < count; i++) root(at).openAt({}, path, {}, { read: true })[Symbol.dispose]();
    return count;
  },
};

function send({ method = "get", url, headers = [], body, hold = false, options }) {
  const [, scheme, authority, path] = /^([a-z]+):\/\/([^/]*)(.*)$/.exec(url);
  const fields = http.Fields.fromList(headers.map(([name, value]) => [name, bytesOf(value)]));
  const request = new http.OutgoingRequest(fields);
  request.setMethod({ tag: method });
  request.setScheme({ tag: scheme.toUpperCase() });
  request.setAuthority(authority);
  request.setPathWithQuery(path || "/");
  let outgoingBody = null;
  if (body !== undefined || hold) outgoingBody = request.body();
  let requestOptions;
  if (options) {
    requestOptions = new http.RequestOptions();
    if (options.firstByte) requestOptions.setFirstByteTimeout(options.firstByte);
    if (options.betweenBytes) requestOptions.setBetweenBytesTimeout(options.betweenBytes);
  }
  const future = outgoing.handle(request, requestOptions);
  if (outgoingBody !== null && !hold) {
    const stream = outgoingBody.write();
    const part = bytesOf("x".repeat(10000));
    let left = typeof body === "number" ? body : 0;
    if (typeof body === "string") stream.blockingWriteAndFlush(bytesOf(body));
    for (; left > 0; left -= part.length) {
      stream.blockingWriteAndFlush(left < part.length ? part.slice(0, left) : part);
    }
    stream[Symbol.dispose]();
    http.OutgoingBody.finish(outgoingBody, undefined);
  }
  return future;
}

function responseOf(future) {
  for (;;) {
    const got = future.get();
    if (got !== null && got !== undefined) {
      if (got.val.tag === "err") throw { payload: got.val.val };
      return got.val.val;
    }
    const pollable = future.subscribe();
    pollable.block();
    pollable[Symbol.dispose]();
  }
}

function bodyOf(response, onPart) {
  const body = response.consume();
  const stream = body.stream();
  let bytes = 0;
  let sum = 0;
  for (;;) {
    try {
      const part = stream.blockingRead(65536);
      bytes += part.length;
      for (let i = 0; i < part.length; i++) sum = (sum + part[i]) | 0;
      if (onPart) onPart(part);
    } catch (error) {
      if (codeOf(error) === "closed") break;
      const failure = error.payload.val;
      const code = failure && http.httpErrorCode ? http.httpErrorCode(failure) : null;
      throw { payload: code ? code : "stream-failed" };
    }
  }
  stream[Symbol.dispose]();
  return { body, bytes, sum };
}

const requests = {
  fetch(args) {
    const response = responseOf(send(args));
    const headers = response.headers().entries().map(([name, value]) => [name, textOf(value)]);
    let text = "";
    const { bytes, sum } = bodyOf(response, args.text ? (part) => text += textOf(part) : null);
    return { status: response.status(), headers, bytes, sum, text };
  },
  events(args) {
    const response = responseOf(send(args));
    bodyOf(response, (part) => chunks.emitChunk(textOf(part)));
  },
  trailers(args) {
    const response = responseOf(send(args));
    const { body } = bodyOf(response, null);
    const future = http.IncomingBody.finish(body);
    for (;;) {
      const got = future.get();
      if (got !== null && got !== undefined) {
        if (got.val.tag === "err") throw { payload: got.val.val };
        return got.val.val ? got.val.val.entries().map(([name, value]) => [name, textOf(value)]) : null;
      }
      future.subscribe().block();
    }
  },
  /** Takes the response and reads a little of it, then stays. */
  holdResponse(args) {
    const response = responseOf(send(args));
    const stream = response.consume().stream();
    stream.blockingRead(10);
    chunks.emitChunk("reading");
    clock.subscribeDuration(args.ms * 1000000).block();
  },
  dropResponse(args) {
    const future = send(args);
    const response = responseOf(future);
    response[Symbol.dispose]();
    future[Symbol.dispose]();
    chunks.emitChunk("dropped");
    clock.subscribeDuration(300 * 1000000).block();
  },
  many(args) {
    const open = [];
    const codes = [];
    for (let i = 0; i < args.count; i++) {
      const got = attempt(() => open.push(send({ url: args.url })));
      codes.push(got.error ? got.error : "started");
    }
    return codes;
  },
  sequence(args) {
    let bytes = 0;
    for (let i = 0; i < args.count; i++) {
      const future = send({ url: args.url });
      const response = responseOf(future);
      const got = bodyOf(response, null);
      bytes += got.bytes;
      got.body[Symbol.dispose]();
      response[Symbol.dispose]();
      future[Symbol.dispose]();
    }
    return bytes;
  },
  fields() {
    const fields = new http.Fields();
    fields.append("X-Mixed", bytesOf("1"));
    fields.append("x-mixed", bytesOf("2"));
    return [
      fields.get("X-MIXED").map(textOf),
      attempt(() => fields.append("host", bytesOf("x"))),
      attempt(() => fields.append("bad name", bytesOf("x"))),
      attempt(() => fields.append("x", bytesOf("a\r\nb: c"))),
      attempt(() => new http.OutgoingRequest(fields).headers().append("y", bytesOf("z"))),
    ];
  },
};

const held = [];
const operations = {
  ...files,
  ...requests,
  echo: ({ value }) => value,
  environment: () => environment.getEnvironment(),
  spin() {
    chunks.emitChunk("spinning");
    for (;;);
  },
  chunks({ count, size }) {
    const text = "c".repeat(size);
    for (let i = 0; i < count; i++) chunks.emitChunk(text);
  },
  thinking: () => chunks.emitThinkingChunk("hm"),
  print({ count, text, error = false }) {
    const stream = error ? stderr.getStderr() : stdout.getStdout();
    for (let i = 0; i < count; i++) stream.blockingWriteAndFlush(bytesOf(text));
  },
  input: () => attempt(() => textOf(stdin.getStdin().blockingRead(10))),
  ask: ({ prompt }) => task.requestInput(prompt),
  eat() {
    const all = [];
    for (;;) all.push(new Uint8Array(1 << 20).fill(1));
  },
  fail() {
    throw new Error("on purpose");
  },
  random: () => textOf(random.getRandomBytes(16)).split("").map((c) => c.charCodeAt(0)),
  mathRandom: () => Math.random(),
  remember({ value }) {
    held.push(value);
    return held;
  },
  sleep({ ms }) {
    const from = clock.now();
    clock.subscribeDuration(ms * 1000000).block();
    return Number(clock.now() - from) / 1000000;
  },
  pollTwo({ ms }) {
    const long = clock.subscribeDuration(60000 * 1000000);
    const short = clock.subscribeDuration(ms * 1000000);
    return Array.from(poll.poll([long, short]));
  },
  big: ({ size }) => "b".repeat(size),
};

export const run = {
  run(input) {
    const { op, caught = false, ...args } = JSON.parse(input.data);
    const value = caught ? attempt(() => operations[op](args)) : operations[op](args);
    return {
      status: "passed",
      summary: null,
      data: JSON.stringify(value === undefined ? null : value),
      dataPath: null,
      truncated: false,
      metadata: [["op", op]],
    };
  },
};
