import assert from "node:assert/strict";
import { newId } from "./ids.ts";
import { KernelRecords } from "./kernel_records.ts";
import { libc } from "./libc.ts";
import { ownStartToken } from "./process_identity.ts";
import { ABSENT, MAX_RECORD_BYTES, openRunningDirectory, takeRecords, UNOPENED } from "./running_record.ts";
import { writeRunningRecord } from "./write_running_record.ts";
import { runningRecord } from "../tests/support/scripted_door.ts";

const isRoot = Deno.uid() === 0;

Deno.test("files are read as far as they are records, each in its place", async () => {
  const home = await Deno.makeTempDir();
  try {
    const file = (name: string, text: string) => Deno.writeTextFileSync(`${home}/${name}`, text);
    file("a.json", "one");
    file("long.json", "x".repeat(MAX_RECORD_BYTES + 1));
    file("full.json", "y".repeat(MAX_RECORD_BYTES));
    file("umlaut.json", "ä");
    file("closed.json", "secret");
    Deno.chmodSync(`${home}/closed.json`, 0);
    Deno.symlinkSync("/etc/hostname", `${home}/link.json`);
    Deno.mkdirSync(`${home}/dir.json`);
    using kernel = new KernelRecords(libc(), home);
    const names = [
      "umlaut.json",
      "gone.json",
      "long.json",
      "link.json",
      "a.json",
      "dir.json",
      "full.json",
      "closed.json",
    ];
    const [umlaut, gone, long, link, a, dir, full, closed] = kernel.readTexts(names);
    assert.deepEqual([umlaut, gone, long, link, a, dir], ["ä", ABSENT, null, UNOPENED, "one", UNOPENED]);
    assert.equal((full as string).length, MAX_RECORD_BYTES);
    assert.equal(closed, isRoot ? "secret" : UNOPENED);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("processes are told as they are, whether they run, have ended or never were", async () => {
  using kernel = new KernelRecords(libc(), "/");
  const child = new Deno.Command("sleep", { args: ["60"] }).spawn();
  const [first, ofChild, none, itself] = kernel.readStats([1, child.pid, 2 ** 22 + 1, Deno.pid]);
  child.kill("SIGKILL");
  await child.status;
  assert.ok(first !== null && first !== undefined);
  assert.ok(typeof ofChild === "object" && /^\d+$/.test(ofChild!.start));
  assert.equal(none, null);
  assert.equal((itself as { start: string }).start, ownStartToken());
  assert.deepEqual(kernel.readStats([child.pid]), [null]);
});

Deno.test("a directory is taken by it as by Deno", async () => {
  const home = await Deno.makeTempDir();
  try {
    const dir = `${home}/running`;
    for (let count = 0; count < 50; count++) writeRunningRecord(dir, runningRecord());
    Deno.writeTextFileSync(`${dir}/${newId("ses")}.json`, "{");
    using kernel = new KernelRecords(libc(), dir);
    const byKernel = takeRecords(openRunningDirectory(dir), kernel.readTexts);
    assert.equal([...Deno.readDirSync(dir)].length, 50);
    assert.deepEqual(byKernel, takeRecords(openRunningDirectory(dir)));
    assert.equal(byKernel.length, 50);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("without a descriptor to spare nothing is said to be gone", async () => {
  const url = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const program = `
    import { KernelRecords } from ${url("./kernel_records.ts")};
    import { libc } from ${url("./libc.ts")};
    const c = libc();
    using kernel = new KernelRecords(c, "/proc/self");
    const held = [];
    for (let fd = c.epollCreate(); fd >= 0; fd = c.epollCreate()) held.push(fd);
    const read = [kernel.readTexts(["status"])[0], kernel.readStats([1])[0]];
    held.forEach((fd) => c.close(fd));
    console.log(read.map(String).join(" "));`;
  const config = new URL("../deno.json", import.meta.url).pathname;
  const { stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 60 && "$@"; true', "sh", Deno.execPath(), "eval", "--config", config, program],
  }).output();
  const said = new TextDecoder().decode(stdout);
  assert.equal(said, "Symbol(unopened) untold\n", new TextDecoder().decode(stderr));
});
