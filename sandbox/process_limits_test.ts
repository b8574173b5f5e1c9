import assert from "node:assert/strict";
import type { ProcessLimits } from "../artifact/manifest/capsule_manifest.ts";
import { processRlimits, taskBaseline } from "./process_limits.ts";

const LIMITS: ProcessLimits = {
  maxProcesses: 128,
  maxOpenFiles: 1_024,
  maxFileSizeBytes: 4_294_967_296,
  cpuSeconds: 3_600,
  memoryBytes: 2_147_483_648,
  cgroupMemoryBytes: 4_294_967_296,
  cgroupPidsMax: 256,
  cgroupCpuPercent: 200,
  cgroupIoBytesPerSec: 104_857_600,
  workdirMaxBytes: 10_737_418_240,
  declared: new Set(),
};

Deno.test("kernel limits count on top of what the user runs, address space only when asked for", () => {
  assert.deepEqual(processRlimits(LIMITS, 40), { nofile: 1_024, fsize: 4_294_967_296, cpu: 3_600, nproc: 168 });
  assert.equal(processRlimits({ ...LIMITS, declared: new Set(["memory_bytes"]) }, 0).as, 2_147_483_648);
});

Deno.test("the baseline counts this process's threads, and none of a user without any", () => {
  const own = [...Deno.readDirSync("/proc/self/task")].length;
  assert.ok(taskBaseline() >= own);
  assert.ok(taskBaseline(4_000_000_000) <= own + 1);
});
