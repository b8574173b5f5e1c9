import assert from "node:assert/strict";
import { ERRNO, libc } from "./libc.ts";
import { SmallFileReader } from "./small_file.ts";

Deno.test("files are read whole up to their bound, whatever they are called", async () => {
  const dir = await Deno.makeTempDir();
  using reader = new SmallFileReader(libc(), dir, 100_000);
  for (const size of [0, 1, 8_191, 8_192, 8_193, 65_536, 100_000]) {
    const text = "é".repeat(size / 2) + "x".repeat(size % 2);
    await Deno.writeTextFile(`${dir}/ü ${size}`, text);
    assert.equal(reader.readAll([`ü ${size}`])[0], text);
  }
  await Deno.writeTextFile(`${dir}/long`, "x".repeat(100_001));
  assert.equal(reader.readAll(["long"])[0], -ERRNO.EFBIG);
  using processes = new SmallFileReader(libc(), "/proc", 4_096);
  assert.match(String(processes.readAll([`${Deno.pid}/stat`])[0]), /^\d+ \(/);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("what is no file gives nothing, and nobody is waited for", async () => {
  const dir = await Deno.makeTempDir();
  using reader = new SmallFileReader(libc(), dir, 1_000);
  await Deno.writeTextFile(`${dir}/file`, "x");
  await Deno.symlink(`${dir}/file`, `${dir}/link`);
  assert.ok((await new Deno.Command("mkfifo", { args: [`${dir}/pipe`] }).output()).success);
  assert.deepEqual(
    ["link", "pipe", ".", "absent", "a\0", "x".repeat(300), "x/".repeat(2_000)].map((name) =>
      reader.readAll([name])[0]
    ),
    [-ERRNO.ELOOP, "", -ERRNO.EISDIR, -ERRNO.ENOENT, ...new Array(3).fill(-ERRNO.ENAMETOOLONG)],
  );
  await Deno.remove(dir, { recursive: true });
});

Deno.test("files of a directory that cannot be opened are told why, and one that was moved is still read", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/file`, "x");
  for (
    const [path, errno] of [[`${dir}/absent`, ERRNO.ENOENT], [`${dir}/file`, ERRNO.ENOTDIR], [
      "a\0",
      ERRNO.ENOENT,
    ]] as const
  ) {
    using reader = new SmallFileReader(libc(), path, 100);
    assert.equal(reader.readAll(["file"])[0], -errno);
  }
  await Deno.mkdir(`${dir}/old`);
  await Deno.writeTextFile(`${dir}/old/file`, "moved");
  using reader = new SmallFileReader(libc(), `${dir}/old`, 100);
  await Deno.rename(`${dir}/old`, `${dir}/new`);
  assert.equal(reader.readAll(["file"])[0], "moved");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("no descriptor stays open, and a process that has few left reads all the same", async () => {
  const dir = await Deno.makeTempDir();
  const names = Array.from({ length: 50 }, (_, index) => `${index}`);
  for (const name of names) await Deno.writeTextFile(`${dir}/${name}`, name);
  const program = `
    import { libc } from "${new URL("libc.ts", import.meta.url)}";
    import { SmallFileReader } from "${new URL("small_file.ts", import.meta.url)}";
    const open = () => [...Deno.readDirSync("/proc/self/fd")].length;
    using reader = new SmallFileReader(libc(), Deno.args[0], 100);
    const names = ${JSON.stringify([...names, "absent"])};
    reader.readAll(names);
    const before = open();
    const texts = reader.readAll(names);
    if (open() !== before) throw new Error("descriptors stayed open");
    const filling = [];
    try {
      for (;;) filling.push(Deno.openSync("/dev/null"));
    } catch { /* That were all. */ }
    for (const file of filling.splice(0, 3)) file.close();
    console.log(JSON.stringify(texts) === JSON.stringify(reader.readAll(names)), JSON.stringify(texts));`;
  await Deno.writeTextFile(`${dir}/program.ts`, program);
  const { stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 256; exec "$@"', "sh", Deno.execPath(), "run", "-A", "--quiet", `${dir}/program.ts`, dir],
  }).output();
  assert.equal(
    new TextDecoder().decode(stdout),
    `true ${JSON.stringify([...names, -ERRNO.ENOENT])}\n`,
    new TextDecoder().decode(stderr),
  );
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a byte order mark is part of a file, as it is for Deno", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/marked`, "\ufeff{}");
  using reader = new SmallFileReader(libc(), dir, 1_000);
  const read = reader.readAll(["marked", "marked"]);
  assert.deepEqual(read, Array(2).fill(await Deno.readTextFile(`${dir}/marked`)));
  assert.equal((read[0] as string).length, 3);
  await Deno.remove(dir, { recursive: true });
});
