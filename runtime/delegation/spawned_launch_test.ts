import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { FCNTL, libc } from "../../base/libc.ts";
import { type SpawnedLaunch, splitGrant, takeSpawnedLaunch } from "./spawned_launch.ts";
import { formatSpawnerHandle } from "./spawner_handle.ts";

const HANDLE = { url: null, sessionId: newId("ses"), contextId: "c", delegationId: newId("dlg") };
const REPORT = { source: "/p", files: 1, directories: 0, links: 0, bytes: 3, skipped: [] };

/** Standard input that comes in these pieces; without an end it stays open. */
function take(
  pieces: readonly string[],
  { env = {}, ends = true, grantOnInput = true, boundMs = 5_000 }: {
    env?: Record<string, string>;
    ends?: boolean;
    grantOnInput?: boolean;
    boundMs?: number;
  } = {},
): Promise<SpawnedLaunch> {
  const waiting = pieces.map((piece) => new TextEncoder().encode(piece));
  return takeSpawnedLaunch({
    env: { get: (name) => env[name] },
    grantOnInput,
    read: async (buffer) => {
      const piece = waiting.shift();
      if (piece === undefined) return ends ? null : await new Promise<number>(() => {});
      buffer.set(piece);
      return piece.length;
    },
    boundMs,
  });
}

async function refused(taking: Promise<SpawnedLaunch>, code: string): Promise<string> {
  try {
    await taking;
  } catch (error) {
    assert.ok(error instanceof MurError && error.code === code, String(error));
    return `${error.message} ${error.hint}`;
  }
  assert.fail("taken");
}

Deno.test("the approval is the first line, the report the second when there is one", async () => {
  const none = { handle: null, lifeline: null };
  assert.deepEqual(await take(["msa1.a.b\n"]), { ...none, approval: "msa1.a.b", snapshot: null });
  assert.deepEqual(await take(["msa1.a.b"]), { ...none, approval: "msa1.a.b", snapshot: null });
  assert.deepEqual(await take(["msa1.", "a.b\r\n", JSON.stringify(REPORT), "\n"]), {
    ...none,
    approval: "msa1.a.b",
    snapshot: REPORT,
  });
  // Two lines are all there is: nobody waits for an end that does not come.
  const open = await take([`msa1.a.b\n${JSON.stringify(REPORT)}\n`], { ends: false });
  assert.deepEqual(open.snapshot, REPORT);
});

Deno.test("without the flag standard input is not read", async () => {
  const env = { MURMUR_SPAWNER: formatSpawnerHandle(HANDLE) };
  const launch = await take([], { env, grantOnInput: false, ends: false });
  assert.deepEqual(launch, { approval: null, handle: HANDLE, lifeline: null, snapshot: null });
});

Deno.test("no approval is refused, and nothing of the input is shown", async () => {
  for (
    const pieces of [[], [""], ["\n"], ["  \nmsa1.a\n"], ["two words\n"], ["sécret\n"], [`${"x".repeat(9_000)}\n`]]
  ) {
    await refused(take(pieces), "E-RUN-019");
  }
  for (const input of ["very secret", "very-\u0001secret"]) {
    assert.ok(!(await refused(take([input]), "E-RUN-019")).includes("secret"));
  }
  const long = Array<string>(40).fill("x".repeat(60_000));
  assert.match(await refused(take(long, { ends: false }), "E-RUN-019"), /longer/);
  assert.match(await refused(take([], { ends: false, boundMs: 20 }), "E-RUN-019"), /within 20 ms/);
});

Deno.test("a bad report, handle or lifeline is refused before any input is awaited", async () => {
  await refused(take(["msa1.a.b\n{}\n"]), "E-RUN-020");
  for (const [name, value] of [["MURMUR_SPAWNER", "{}"], ["MURMUR_SPAWNER_LIFELINE", "2"]] as const) {
    await refused(take([], { env: { [name]: value }, ends: false }), "E-RUN-020");
  }
});

Deno.test("the lifeline is taken first: it must go with no process that is started meanwhile", async () => {
  const c = libc();
  const [read, write] = c.pipe() as [number, number];
  c.fcntl(read, FCNTL.SETFD, 0);
  const env = { MURMUR_SPAWNER_LIFELINE: String(read), MURMUR_SPAWNER: "no handle" };
  await refused(take([], { env }), "E-RUN-020");
  assert.equal(c.fcntl(read, FCNTL.GETFD), 1);
  for (const fd of [read, write]) c.close(fd);
});

Deno.test("any input is two lines or refused", () => {
  fc.assert(fc.property(fc.string(), (input) => {
    try {
      const { approval } = splitGrant(input);
      assert.match(approval, /^[\x21-\x7e]+$/);
    } catch (error) {
      assert.ok(error instanceof MurError && error.code === "E-RUN-019");
    }
  }));
});
