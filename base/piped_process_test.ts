import assert from "node:assert/strict";
import { MurError } from "./errors.ts";
import { libc } from "./libc.ts";
import { captureOutput, type ExitStatus, PipedProcess } from "./piped_process.ts";

const SHELL = "/bin/sh";

/** A child and all it said. */
class Child {
  readonly process: PipedProcess;
  readonly #stdout: Uint8Array[] = [];
  readonly #stderr: Uint8Array[] = [];
  readonly #ended = Promise.withResolvers<void>();
  readonly #errorsEnded = Promise.withResolvers<void>();

  constructor(script: string, env: Readonly<Record<string, string>> = {}) {
    this.process = new PipedProcess({ command: SHELL, args: ["-c", script], env, cwd: "/" }, {
      stdout: (bytes) => void this.#stdout.push(bytes.slice()),
      stdoutEnd: () => this.#ended.resolve(),
      stderr: (bytes) => void this.#stderr.push(bytes.slice()),
      stderrEnd: () => this.#errorsEnded.resolve(),
    });
  }

  get bytes(): Uint8Array {
    return joined(this.#stdout);
  }

  get length(): number {
    return this.#stdout.reduce((sum, part) => sum + part.length, 0);
  }

  get text(): string {
    return new TextDecoder().decode(this.bytes);
  }

  get errors(): string {
    return new TextDecoder().decode(joined(this.#stderr));
  }

  async end(): Promise<ExitStatus> {
    await this.#ended.promise;
    const status = await this.process.end();
    await this.#errorsEnded.promise;
    return status;
  }

  async until(done: () => boolean): Promise<void> {
    for (const limit = Date.now() + 20_000; !done();) {
      assert.ok(Date.now() < limit, "it did not come");
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function numbered(length: number, seed: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, index) => (index * 31 + (index >> 9) + seed) & 0xff);
}

Deno.test("output, errors and exit code come as they were", async () => {
  const child = new Child("echo out; echo err >&2; exit 7");
  assert.deepEqual(await child.end(), { code: 7, signal: null });
  assert.equal(child.text, "out\n");
  assert.equal(child.errors, "err\n");
});

Deno.test("the signal that ended it is named", async () => {
  const killed = new Child("kill -TERM $$; sleep 60");
  assert.deepEqual(await killed.end(), { code: null, signal: "SIGTERM" });
  const child = new Child("exec sleep 60");
  child.process.kill();
  child.process.kill();
  assert.deepEqual(await child.end(), { code: null, signal: "SIGKILL" });
  child.process.kill();
});

Deno.test("one that closes its output and stays is ended", async () => {
  const child = new Child("exec >&- 2>&-; exec sleep 60");
  assert.deepEqual(await child.end(), { code: null, signal: "SIGKILL" });
});

function descriptorsIn(listing: string): string[] {
  return [...listing.matchAll(/ (\d+) -> /g)].map(([, number]) => number!);
}

Deno.test("it has the given environment and directory and no other descriptor", async () => {
  const child = new Child("/usr/bin/env; pwd; ls -l /proc/self/fd", { NAME: "va=lue", EMPTY: "" });
  await child.end();
  const lines = child.text.trim().split("\n");
  const names = lines.filter((line) => /^[A-Z]+=/.test(line) && !/^(PWD|SHLVL|OLDPWD)=/.test(line));
  assert.deepEqual(names.sort(), ["EMPTY=", "NAME=va=lue"]);
  assert.ok(lines.includes("/"));
  // What this process itself was given without the mark goes on to any child of it.
  const { stdout } = await new Deno.Command(SHELL, { args: ["-c", "ls -l /proc/self/fd"] }).output();
  assert.deepEqual(descriptorsIn(child.text), descriptorsIn(new TextDecoder().decode(stdout)));
});

Deno.test("what can't be started is told, and leaves nothing behind", () => {
  const descriptors = () => [...Deno.readDirSync("/proc/self/fd")].length;
  const none = { stdout() {}, stdoutEnd() {}, stderr() {}, stderrEnd() {} };
  const start = (command: string, args: readonly string[] = []) =>
    new PipedProcess({ command, args, env: {}, cwd: "/" }, none);
  const before = descriptors();
  assert.throws(() => start("/nowhere/x"), (error: unknown) => error instanceof MurError && error.code === "E-IO-001");
  assert.throws(() => start("/etc/passwd"), (error: unknown) => error instanceof MurError && error.code === "E-IO-002");
  assert.throws(() => start("/bin/true", ["a\0b"]), MurError);
  assert.equal(descriptors(), before);
});

Deno.test("bytes of every size arrive once and in order", async () => {
  const child = new Child("exec cat");
  const sizes = [0, 1, 4_095, 4_096, 4_097, 70_000, 131_071, 131_072, 3_000_000, 5, 1_100_000, 9];
  const parts = sizes.map((size, index) => numbered(size, index));
  for (const part of parts) child.process.write(part);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  await child.until(() => child.length === total);
  await child.until(() => child.process.unwritten === 0);
  child.process.kill();
  await child.end();
  assert.ok(equal(child.bytes, joined(parts)));
});

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

Deno.test("megabytes arrive while this thread is busy", async () => {
  const file = Deno.makeTempFileSync();
  try {
    const child = new Child(`exec cat > ${file}`);
    child.process.write(numbered(6_000_000, 1));
    await new Promise((resolve) => setTimeout(resolve));
    const limit = Date.now() + 10_000;
    while (Deno.statSync(file).size < 6_000_000 && Date.now() < limit);
    child.process.kill();
    assert.equal(Deno.statSync(file).size, 6_000_000);
    await child.end();
  } finally {
    Deno.removeSync(file);
  }
});

Deno.test("one that reads nothing keeps what it is owed waiting, and can be killed", async () => {
  for (const size of [100_000, 9_000_000]) {
    const child = new Child("exec sleep 60");
    for (let index = 0; index < 20; index++) child.process.write(new Uint8Array(size));
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(child.process.unwritten > size * 19 - (2 << 20), String(child.process.unwritten));
    child.process.kill();
    assert.deepEqual(await child.end(), { code: null, signal: "SIGKILL" });
    assert.equal(child.process.unwritten, 0);
    child.process.write(new Uint8Array(10));
    assert.equal(child.process.unwritten, 0);
  }
});

Deno.test("one that closed its input loses what is written, and nothing else happens", async () => {
  for (const size of [10, 5_000_000]) {
    const child = new Child("exec <&-; echo closed; sleep 0.2; exit 3");
    await child.until(() => child.text === "closed\n");
    for (let index = 0; index < 3; index++) child.process.write(new Uint8Array(size));
    assert.deepEqual(await child.end(), { code: 3, signal: null });
  }
});

Deno.test("many that read nothing hold up neither another nor the access to files", async () => {
  const deaf = Array.from({ length: 40 }, () => new Child("exec sleep 60"));
  for (const child of deaf) child.process.write(new Uint8Array(4_000_000));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok((await Deno.readFile("/proc/self/status")).length > 0);
  const child = new Child("exec cat");
  child.process.write(numbered(3_000_000, 4));
  await child.until(() => child.length === 3_000_000);
  for (const each of [child, ...deaf]) each.process.kill();
  for (const each of [child, ...deaf]) await each.end();
  assert.ok(equal(child.bytes, numbered(3_000_000, 4)));
});

const SILENT = { stdout: () => {}, stdoutEnd: () => {}, stderr: () => {}, stderrEnd: () => {} };

Deno.test("a child that ends by itself is waited for and reaped, and a late signal meets nobody", async () => {
  const process = new PipedProcess({ command: SHELL, args: ["-c", "exit 3"], env: {}, cwd: "/" }, SILENT);
  assert.deepEqual(await process.exited(), { code: 3, signal: null });
  assert.throws(() => Deno.statSync(`/proc/${process.pid}`), Deno.errors.NotFound);
  process.signal(9);
  assert.deepEqual(await process.end(), { code: 3, signal: null }, "an end after the end");
});

Deno.test("a child is waited for while it runs, and a signal that it catches does not end the wait", async () => {
  const script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
  let said = "";
  const process = new PipedProcess({ command: SHELL, args: ["-c", script], env: { PATH: "/usr/bin:/bin" }, cwd: "/" }, {
    ...SILENT,
    stdout: (bytes) => said += new TextDecoder().decode(bytes),
  });
  const exited = process.exited();
  for (const limit = Date.now() + 20_000; said === "" && Date.now() < limit;) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  process.signal(15);
  assert.deepEqual(await exited, { code: 5, signal: null });
});

Deno.test("many children are waited for at once without the threads that files need", async () => {
  const children = Array.from(
    { length: 40 },
    () => new PipedProcess({ command: "/bin/sleep", args: ["60"], env: {}, cwd: "/" }, SILENT),
  );
  const exits = children.map((child) => child.exited());
  // All of the pool's threads but one are free for this.
  assert.equal(await Deno.readTextFile("/proc/sys/kernel/ostype"), "Linux\n");
  for (const child of children) child.signal(15);
  for (const status of await Promise.all(exits)) assert.deepEqual(status, { code: null, signal: "SIGTERM" });
});

Deno.test("what was written arrives before the input's end, however large it is", async () => {
  for (const size of [0, 10, 3_000_000]) {
    let counted = "";
    const process = new PipedProcess({ command: "/usr/bin/wc", args: ["-c"], env: {}, cwd: "/" }, {
      ...SILENT,
      stdout: (bytes) => counted += new TextDecoder().decode(bytes),
    });
    process.write(numbered(size, 1));
    process.closeInput();
    process.write(numbered(5, 1));
    assert.deepEqual(await process.exited(), { code: 0, signal: null });
    assert.equal(counted.trim(), String(size), "nothing is added after the end");
  }
});

Deno.test("a child inherits the descriptors it is given at 3 and on, and no other", async () => {
  const c = libc();
  // The test itself may have been started with some.
  c.closeOnExecFrom(3);
  const [read, write] = c.pipe() as [number, number];
  const run = async (command: string, args: readonly string[]): Promise<string> => {
    let said = "";
    const process = new PipedProcess({ command, args, env: {}, cwd: "/", descriptors: [read] }, {
      ...SILENT,
      stdout: (bytes) => said += new TextDecoder().decode(bytes),
    });
    await process.exited();
    return said.trim();
  };
  c.write(write, new TextEncoder().encode("through the pipe\n"));
  assert.equal(await run(SHELL, ["-c", 'read line <&3; echo "$line"']), "through the pipe");
  // The last one is the listed directory itself.
  assert.equal(await run("/bin/ls", ["/proc/self/fd"]), "0\n1\n2\n3\n4");
  assert.equal(await run("/usr/bin/readlink", ["/proc/self/fd/3"]), Deno.readLinkSync(`/proc/self/fd/${read}`));
  for (const fd of [read, write]) c.close(fd);
});

Deno.test("what a short program writes is captured with its exit code, and one that writes on and on is killed", async () => {
  const run = (script: string) => captureOutput({ command: SHELL, args: ["-c", script], env: {}, cwd: "/" }, 1_000);
  assert.deepEqual(await run("printf 'gr\\303'; sleep 0.05; printf '\\274\\303\\237e'; echo no >&2; exit 3"), {
    status: { code: 3, signal: null },
    stdout: "grüße",
    stderr: "no\n",
  });
  const flood = await run("while :; do echo 0123456789; done");
  assert.equal(flood.status.signal, "SIGKILL");
  assert.ok(flood.stdout.length <= 1_000);
  await assert.rejects(() => captureOutput({ command: "/nothing/here", args: [], env: {}, cwd: "/" }, 1_000), MurError);
});
