/**
 * A listing of 10,000 files with their hashes over the operator plane of a real session, beside `find` with `sha256sum`.
 *
 * @module
 */
import { startBenchSession } from "./door_session.ts";
import { type BenchResult, median } from "./result.ts";

const FILES = 10_000;
const FOLDERS = 100;
const FILE_BYTES = 4_096;
const ROUNDS = 7;

export async function run(): Promise<BenchResult> {
  await using session = await startBenchSession(
    { turns: [{ text: "done" }] },
    `exports: { files: { root: out, mode: read-only } }\n`,
  );
  const root = `${session.workdir}/out`;
  const bytes = new Uint8Array(FILE_BYTES);
  for (let index = 0; index < FILES; index++) {
    const folder = `${root}/folder-${index % FOLDERS}`;
    if (index < FOLDERS) await Deno.mkdir(folder, { recursive: true });
    crypto.getRandomValues(bytes);
    await Deno.writeFile(`${folder}/file-${index}.txt`, bytes);
  }
  const listing = async () => {
    const start = performance.now();
    const response = await fetch(`http://localhost:${session.port}/resources/files`);
    const text = await response.text();
    const took = performance.now() - start;
    if (JSON.parse(text).entries.length !== FILES) throw new Error("the listing is not whole");
    return took;
  };
  const peer = async () => {
    const start = performance.now();
    const { success, stdout } = await new Deno.Command("find", {
      args: [root, "-type", "f", "-exec", "sha256sum", "{}", "+"],
    }).output();
    const took = performance.now() - start;
    if (!success || new TextDecoder().decode(stdout).split("\n").length !== FILES + 1) throw new Error("find failed");
    return took;
  };
  const rounds: { readonly own: number; readonly peer: number }[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const figures = { own: await listing(), peer: await peer() };
    if (round > 0) rounds.push(figures);
  }
  return {
    name: `resource list (${FILES} files of ${FILE_BYTES} bytes)`,
    figures: [
      { what: "listing", value: median(rounds.map(({ own }) => own)), unit: "ms" },
      { what: "find -type f -exec sha256sum {} +", value: median(rounds.map(({ peer }) => peer)), unit: "ms" },
      {
        what: "as fast as find and sha256sum",
        value: median(rounds.map(({ own, peer }) => peer / own)),
        unit: "x",
        atLeast: 0.5,
      },
    ],
  };
}
