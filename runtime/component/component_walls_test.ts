import assert from "node:assert/strict";
import { checkoutHelper } from "../../sandbox/confine_helper.ts";
import { componentHostScript } from "./host_program.ts";
import { eventually, everythingTool, Harness, isAlive } from "./testing/harness.ts";

Deno.test("a tool works behind every wall of this machine, handed over without a file", async () => {
  await using harness = new Harness({
    confineHelper: await checkoutHelper(),
    hostScript: await componentHostScript(),
  });
  const spec = await harness.spec(await everythingTool(), { preopens: [harness.preopen(".")] });
  await harness.do(spec, "write", { path: "f", text: "behind walls" });
  assert.equal(await harness.do(spec, "read", { path: "f" }), "behind walls");
  await assert.rejects(harness.do(spec, "fail"), /trapped/);
  assert.equal(await harness.do(spec, "echo", { value: 1 }), 1);
  const walls = await harness.runtime.walls();
  assert.ok(walls.includes("memory"));
  const eater = harness.spec(await everythingTool(), { limits: { ...spec.limits, memoryBytes: 64 << 20 } });
  await assert.rejects(harness.do(await eater, "eat"), /linear memory growth/);
});

/** Ids of all processes below `pid`. */
function descendants(pid: number): number[] {
  const found: number[] = [];
  const pids = [pid];
  for (const each of pids) {
    try {
      const children = Deno.readTextFileSync(`/proc/${each}/task/${each}/children`).trim();
      const ids = children === "" ? [] : children.split(" ").map(Number);
      pids.push(...ids);
      found.push(...ids);
    } catch {
      // It ended meanwhile.
    }
  }
  return found;
}

Deno.test("nothing is left of a runtime that was killed while its guest spins", async () => {
  const home = Deno.makeTempDirSync();
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "-A", new URL("./testing/spinning_runtime.ts", import.meta.url).href],
    env: { TMPDIR: home },
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  try {
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("\n")) {
      const { value, done } = await reader.read();
      assert.ok(!done, "the runtime ended before its guest ran");
      text += value;
    }
    const pids = descendants(child.pid);
    for (const pid of (JSON.parse(text) as { pids: number[] }).pids) assert.ok(pids.includes(pid));
    assert.ok(pids.length >= 2, "a guard and the host below it");
    child.kill("SIGKILL");
    await child.status;
    await eventually(() => pids.filter(isAlive).length === 0);
    await reader.cancel();
  } finally {
    Deno.removeSync(home, { recursive: true });
  }
});
