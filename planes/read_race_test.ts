/**
 * Reads against an agent that swaps, renames and truncates under them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { exportFolder, SECRET } from "../tests/support/export_folder.ts";
import { listExported } from "./listing.ts";
import { answerRead } from "./operator_plane.ts";

const AGENT = new URL("../tests/support/racing_agent.ts", import.meta.url).pathname;
const PATHS = ["file", "dir/file", "renamed", "link", "file", "dir/file", "link"];
/** Every so many reads one of a file that is read in another thread, which takes longer. */
const LARGE_EVERY = 50;

/** A byte that every file outside holds and none inside. */
const OUTSIDE = SECRET.charCodeAt(0);

async function race(symlinks: "refused" | "followed-inside", reads: number): Promise<ReadonlyMap<string, number>> {
  using folder = exportFolder();
  const { outer, work, out } = folder;
  Deno.mkdirSync(`${out}/dir`);
  Deno.mkdirSync(`${outer}/outside/dir`, { recursive: true });
  for (const path of ["file", "dir/file", "renamed", "large"]) {
    Deno.writeTextFileSync(`${out}/${path}`, "i".repeat(5_000));
    Deno.writeTextFileSync(`${outer}/outside/${path}`, SECRET);
  }
  const agent = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--no-config", AGENT, work],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const stdout = agent.stdout.getReader();
  await stdout.read();
  const outcomes = new Map<string, number>();
  const plane = folder.plane(symlinks);
  try {
    for (let read = 0; read < reads; read++) {
      const path = read % LARGE_EVERY === 0 ? "large" : PATHS[read % PATHS.length];
      const { status, headers, body, record } = await answerRead(
        plane,
        "GET",
        `/resources/files/${path}`,
        () => true,
      );
      const { outcome } = record.body;
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      if (status !== 200) continue;
      const bytes = body as Uint8Array;
      assert.ok(!bytes.includes(OUTSIDE), `bytes from outside: ${new TextDecoder().decode(bytes.subarray(0, 40))}`);
      const etag = headers.find(([name]) => name === "etag")![1];
      assert.equal(etag, `"sha256:${createHash("sha256").update(bytes).digest("hex")}"`);
      if (read % 1_000 === 0) {
        const listed = await listExported(plane.root, 10_000);
        const outside = createHash("sha256").update(SECRET).digest("hex");
        if (!("error" in listed)) { for (const { sha256 } of listed) assert.notEqual(sha256, outside); }
      }
    }
  } finally {
    await agent.stdin.close();
    await stdout.cancel();
    assert.ok((await agent.status).success);
  }
  return outcomes;
}

Deno.test("100,000 reads against an agent that swaps, renames and truncates: no byte from outside, every etag true", async () => {
  const following = await race("followed-inside", 80_000);
  const refusing = await race("refused", 20_000);
  // The race was one: files were served, and at other times gone, led out or links.
  for (
    const [outcomes, seen] of [
      [following, ["ok", "not_found", "outside_root"]],
      [refusing, ["ok", "not_found", "symlink_refused"]],
    ] as const
  ) {
    for (const outcome of seen) assert.ok((outcomes.get(outcome) ?? 0) > 10, JSON.stringify([...outcomes]));
    assert.equal(outcomes.get("io_error") ?? 0, 0, JSON.stringify([...outcomes]));
  }
});
