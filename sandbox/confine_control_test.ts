import assert from "node:assert/strict";
import { startPlainCommand } from "./testing/plain_command.ts";
import fc from "fast-check";
import {
  ControlConnection,
  ControlSocket,
  encodeFrame,
  FRAME,
  FrameDecoder,
  makeControlDirectory,
  parseExited,
  parseFailed,
  parseStarted,
} from "./confine_control.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("frames come out as they went in, however the stream is cut", () => {
  const frame = fc.tuple(fc.constantFrom(...Object.values(FRAME)), fc.uint8Array({ maxLength: 300 }));
  fc.assert(fc.property(fc.array(frame, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 20 }), (frames, cuts) => {
    const stream = frames.flatMap(([type, payload]) => [...encodeFrame(type, payload)]);
    const places = [...new Set(cuts.map((cut) => cut % (stream.length + 1)))].sort((a, b) => a - b);
    const decoder = new FrameDecoder();
    const read = [];
    for (let i = 0; i <= places.length; i++) {
      const part = stream.slice(places[i - 1] ?? 0, places[i] ?? stream.length);
      read.push(...decoder.take(new Uint8Array(part))!);
    }
    assert.deepEqual(read.map(({ type, payload }) => [type, [...payload]]), frames.map(([t, p]) => [t, [...p]]));
  }));
});

Deno.test("a frame longer than a helper's is understood by nobody", () => {
  assert.equal(new FrameDecoder().take(new Uint8Array([1, 0x20, 0, 0, FRAME.DNS])), null);
  assert.equal(new FrameDecoder().take(new Uint8Array([0, 0, 0, 0x80, FRAME.DNS])), null);
  assert.deepEqual(new FrameDecoder().take(new Uint8Array([0, 0x20, 0, 0, FRAME.DNS])), []);
});

Deno.test("notices of any bytes are read or refused, never half", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 80 }), (payload) => {
    for (const parse of [parseFailed, parseStarted, parseExited]) {
      const notice = parse(payload);
      assert.ok(notice === null || Object.values(notice).every((value) => value !== undefined));
    }
  }));
  assert.deepEqual(parseStarted(new Uint8Array([1, 1, 0, 0, 1])), { pid: 257, joined: true });
  assert.equal(parseStarted(new Uint8Array([1, 1, 0, 0])), null);
  const failed = (text: string) => parseFailed(new Uint8Array([2, 0, 0, 0, ...bytes(text)]));
  assert.deepEqual(failed("rlimit\0nofile\0No\0"), { stage: "rlimit", reason: "nofile: No" });
  assert.deepEqual(failed("exec\0\0Exec format error\0"), { stage: "exec", reason: "Exec format error" });
  assert.deepEqual(failed("spec\0no records\0\0"), { stage: "spec", reason: "no records" });
  assert.deepEqual(failed("sealed-root\0bind /x\0No\0"), { stage: "sealed-root", reason: "bind /x failed: No" });
  assert.equal(failed("exec\0"), null);
  const exited = new Uint8Array(30);
  const view = new DataView(exited.buffer);
  exited[0] = 1;
  view.setInt32(1, 9, true);
  view.setBigUint64(5, 1_500n, true);
  view.setBigUint64(13, 250n, true);
  view.setBigUint64(21, 4_096n, true);
  const read = { bySignal: true, value: 9, userMs: 1.5, systemMs: 0.25, maxResidentBytes: 4_096, limit: "" };
  assert.deepEqual(parseExited(exited), read);
  assert.deepEqual(parseExited(new Uint8Array([...exited.subarray(0, 29), ...bytes("memory_bytes\0")])), {
    ...read,
    limit: "memory_bytes",
  });
  assert.equal(parseExited(exited.subarray(0, 29)), null);
});

Deno.test("the directory of sockets is the owner's alone, or is not used", async () => {
  const root = await Deno.makeTempDir();
  try {
    const made = `${root}/a/ctl`;
    makeControlDirectory(made);
    assert.equal(Deno.statSync(made).mode! & 0o777, 0o700);
    makeControlDirectory(made);
    Deno.chmodSync(made, 0o750);
    assert.throws(() => makeControlDirectory(made), { code: "E-IO-003", message: /yours alone/ });
    Deno.chmodSync(made, 0o700);
    Deno.symlinkSync(made, `${root}/link`);
    assert.throws(() => makeControlDirectory(`${root}/link`), { code: "E-IO-003" });
    Deno.writeTextFileSync(`${root}/file`, "");
    assert.throws(() => makeControlDirectory(`${root}/file`), { code: "E-IO-003" });
    // One of another user's.
    if (Deno.uid() === 0) {
      Deno.chownSync(made, 1, 1);
      assert.throws(() => makeControlDirectory(made), { code: "E-IO-003", message: /yours alone/ });
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a socket's name goes with it, its connections stay", async () => {
  const root = await Deno.makeTempDir();
  try {
    const socket = new ControlSocket(root);
    const other = new ControlSocket(root);
    assert.notEqual(socket.name, other.name);
    const client = await Deno.connect({ transport: "unix", path: `${root}/${socket.name}` });
    const control = new ControlConnection((await socket.accept())!);
    socket.close();
    socket.close();
    other.close();
    assert.equal(await other.accept(), null);
    assert.deepEqual([...Deno.readDirSync(root)], []);
    await client.write(encodeFrame(FRAME.STARTED, bytes("x")));
    assert.deepEqual(await control.next(), { type: FRAME.STARTED, payload: bytes("x") });
    // Frames sent at once go out one after the other.
    const sent = await Promise.all([control.send(FRAME.KILL), control.send(FRAME.SIGNAL, new Uint8Array([9]))]);
    assert.deepEqual(sent, [true, true]);
    const buffer = new Uint8Array(100);
    const length = (await client.read(buffer))!;
    assert.deepEqual([...buffer.subarray(0, length)], [
      ...encodeFrame(FRAME.KILL),
      ...encodeFrame(FRAME.SIGNAL, buffer.slice(10, 11)),
    ]);
    await client.write(new Uint8Array([255, 255, 255, 255, 1]));
    assert.equal(await control.next(), null);
    assert.equal(await control.next(), null);
    client.close();
    await control.send(FRAME.KILL);
    assert.equal(await control.send(FRAME.KILL), false);
    control.close();
    control.close();
    assert.throws(() => new ControlSocket(`${root}/none`), { code: "E-IO-001" });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a socket's directory may have a path of any length", async () => {
  const root = await Deno.makeTempDir();
  try {
    const deep = `${root}/${`${"d".repeat(120)}/`.repeat(4)}ctl`;
    makeControlDirectory(deep);
    const command = await startPlainCommand(deep.slice(0, -4), {
      program: "/bin/sh",
      args: ["-c", "echo out"],
      cwd: root,
      env: {},
      input: null,
      keep: 100,
      spoolDir: null,
    });
    const end = await command.end;
    assert.equal(end.failure, null);
    assert.equal(end.stdout.text(), "out\n");
    end.stdout.close();
    end.stderr.close();
    assert.deepEqual([...Deno.readDirSync(deep)], []);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a socket outlives a moment without descriptors: who connected then is accepted afterwards", async () => {
  const program = `
    import { ControlSocket } from ${JSON.stringify(import.meta.resolve("./confine_control.ts"))};
    using socket = new ControlSocket(Deno.makeTempDirSync());
    const client = await Deno.connect({ transport: "unix", path: socket.directory + "/" + socket.name });
    const files = [];
    try {
      for (;;) files.push(Deno.openSync("/dev/null"));
    } catch {
      // There are no more.
    }
    const accepted = socket.accept();
    setTimeout(() => { for (const file of files) file.close(); }, 200);
    console.log(await accepted !== null);
    socket.close();
    console.log(await socket.accept());
    Deno.removeSync(socket.directory, { recursive: true });
    Deno.exit(0);`;
  const output = await new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 120; exec "$@"', "sh", Deno.execPath(), "eval", program],
  }).output();
  assert.equal(new TextDecoder().decode(output.stdout), "true\nnull\n", new TextDecoder().decode(output.stderr));
});
