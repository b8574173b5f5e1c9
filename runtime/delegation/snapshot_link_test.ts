import assert from "node:assert/strict";
import fc from "fast-check";
import { repointedTarget } from "./snapshot_link.ts";

const ROOTS = ["/home/ada/project", "/mnt/real"];
const COPY = "/records/children/w-1";

function repointed(target: string, roots: readonly string[] = ROOTS, copy = COPY): string {
  return new TextDecoder().decode(repointedTarget(new TextEncoder().encode(target), roots, copy));
}

Deno.test("a target inside the folder is pointed at the same place in the copy", () => {
  const inside: Record<string, string> = {
    "/home/ada/project": COPY,
    "/home/ada/project/": COPY,
    "/home/ada/project/a/b.txt": `${COPY}/a/b.txt`,
    "/home/ada/project/a/": `${COPY}/a/`,
    "//home///ada/./project//a": `${COPY}/a`,
    "/home/ada/x/../project/a": `${COPY}/a`,
    // Followed through a link, `..` leads elsewhere than the names say: it stays.
    "/home/ada/project/a/../b": `${COPY}/a/../b`,
    "/mnt/real/a": `${COPY}/a`,
    "/home/ada/project/ä…": `${COPY}/ä…`,
  };
  for (const [target, expected] of Object.entries(inside)) assert.equal(repointed(target), expected, target);
});

Deno.test("any other target stays as it is", () => {
  const others = [
    "a/b",
    "../outside",
    "./home/ada/project",
    "/",
    "/etc/hosts",
    "/home/ada",
    "/home/ada/projects/a",
    "/home/ada/project2",
    "/home/ada/project/../other",
    "/home/ada/project/a/../../other",
    "/home/ada/project/..",
  ];
  for (const target of others) assert.equal(repointed(target), target);
});

Deno.test("the root of the file system as the folder", () => {
  assert.equal(repointed("/etc/hosts", ["/"]), `${COPY}/etc/hosts`);
});

Deno.test("bytes that are no UTF-8 are kept", () => {
  const target = new Uint8Array([...new TextEncoder().encode("/mnt/real/"), 0xff, 0xfe, 0x2f, 0xc3]);
  assert.deepEqual(
    repointedTarget(target, ROOTS, COPY),
    new Uint8Array([...new TextEncoder().encode(`${COPY}/`), 0xff, 0xfe, 0x2f, 0xc3]),
  );
});

Deno.test("a target is pointed into the copy exactly when its names lead into the folder", () => {
  const piece = fc.constantFrom("mnt", "real", "a", "b", "..", ".", "", "mnt2");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), fc.boolean(), (pieces, absolute) => {
      const target = `${absolute ? "/" : ""}${pieces.join("/")}`;
      const result = repointed(target, ["/mnt/real"]);
      if (result === target) return;
      assert.ok(target.startsWith("/"));
      assert.ok(result === COPY || result.startsWith(`${COPY}/`), result);
      // Taken by its names, it stays in the copy and means the same place.
      const place = (path: string) => new URL(`file://${path}`).pathname.replace(/\/{2,}/g, "/").replace(/\/$/, "");
      assert.equal(
        place(result).replace(COPY, ""),
        place(target.replace(/\/{2,}/g, "/")).replace("/mnt/real", ""),
        target,
      );
    }),
    { numRuns: 2_000 },
  );
});
