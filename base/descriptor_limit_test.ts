import assert from "node:assert/strict";
import { descriptorLimit } from "./descriptor_limit.ts";

Deno.test("the limit is the soft one, and none where there is none", () => {
  const limits = (soft: string) => `Limit  Soft Limit  Hard Limit\nMax open files            ${soft}  4096  files \n`;
  assert.deepEqual(["256", "1048576", "unlimited"].map((soft) => descriptorLimit(limits(soft))), [
    256,
    1_048_576,
    Infinity,
  ]);
  assert.equal(descriptorLimit(""), Infinity);
  if (Deno.build.os === "linux") assert.ok(descriptorLimit() > 10);
});
