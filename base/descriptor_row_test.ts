import assert from "node:assert/strict";
import { DescriptorRow, ROW } from "./descriptor_row.ts";
import { AT_FDCWD, cString, ERRNO, FCNTL, type Libc, libc, O } from "./libc.ts";

const c = libc();
const PATH = cString("/dev/null")!;
const open = () => c.openat(AT_FDCWD, PATH, O.RDONLY);
const isOpen = (descriptor: number) => c.fcntl(descriptor, FCNTL.GETFD, 0) >= 0;

/** The C library with other answers to closing a range, and what was asked for. */
function recording(closeRange: (first: number, last: number) => number) {
  const asked: string[] = [];
  const recorded = {
    closeRange(first: number, last: number) {
      asked.push(`${last - first + 1}`);
      return closeRange(first, last);
    },
    close(descriptor: number) {
      asked.push("1");
      return c.close(descriptor);
    },
  } as unknown as Libc;
  return { recorded, asked };
}

Deno.test("descriptors that follow one another are closed in one call, and no other with them", () => {
  const { recorded, asked } = recording((first, last) => c.closeRange(first, last));
  // All gaps below are filled, so that what is opened then comes in a row.
  const filling = Array.from({ length: 64 }, open);
  using row = new DescriptorRow(recorded);
  const opened = Array.from({ length: ROW }, open);
  const after = open();
  for (const descriptor of opened) row.add(descriptor);
  assert.equal(row.size, ROW);
  row.close();
  assert.deepEqual([row.size, asked], [0, [`${ROW}`]]);
  assert.deepEqual(opened.map(isOpen), opened.map(() => false));
  assert.ok(isOpen(after) && filling.every(isOpen));
  for (const descriptor of [...filling, after]) c.close(descriptor);
});

Deno.test("with another's between them, or in another order, each is closed by itself", () => {
  const filling = Array.from({ length: 64 }, open);
  for (const order of [[0, 1, 3], [1, 0, 2], [0, 2, 1], [2, 1, 0]]) {
    const { recorded, asked } = recording((first, last) => c.closeRange(first, last));
    using row = new DescriptorRow(recorded);
    const opened = Array.from({ length: 4 }, open);
    for (const index of order) row.add(opened[index]!);
    row.close();
    assert.deepEqual(asked, ["1", "1", "1"]);
    assert.deepEqual(opened.map(isOpen), opened.map((_, index) => !order.includes(index)));
    // A row that was broken is one again once it is empty.
    row.add(open());
    row.close();
    assert.deepEqual(asked.slice(3), ["1"]);
    for (const [index, descriptor] of opened.entries()) if (!order.includes(index)) c.close(descriptor);
  }
  for (const descriptor of filling) c.close(descriptor);
});

Deno.test("a kernel without the call closes them one by one, and leaving closes what is held", () => {
  const { recorded, asked } = recording(() => -ERRNO.ENOSYS);
  const opened = Array.from({ length: 3 }, open);
  {
    using row = new DescriptorRow(recorded);
    for (const descriptor of opened) row.add(descriptor);
  }
  assert.equal(asked.filter((each) => each === "1").length, 3);
  assert.deepEqual(opened.map(isOpen), [false, false, false]);
});
