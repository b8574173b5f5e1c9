/**
 * What a hostile agent does to its exported folder while others read it, as fast as it can: directories and files swapped
 * for symbolic links and back, renames, truncation and rewriting in place, the root itself moved away. Ends with its stdin.
 *
 * Usage: `deno run -A racing_agent.ts <work folder>`; `<work folder>/out` is exported, `secret.txt` lies beside it, `outside/` beside
 * the work folder.
 *
 * @module
 */
const work = Deno.args[0]!;
const out = `${work}/out`;

function attempt(action: () => void): void {
  try {
    action();
  } catch {
    // The other half of a swap is under way.
  }
}

function swap(path: string, target: string): void {
  attempt(() => Deno.renameSync(path, `${work}/aside`));
  attempt(() => Deno.symlinkSync(target, path));
  attempt(() => Deno.removeSync(path));
  attempt(() => Deno.renameSync(`${work}/aside`, path));
}

let over = false;
(async () => {
  for await (const _ of Deno.stdin.readable);
  over = true;
})();
console.log("ready");
for (let round = 0; !over; round++) {
  const path = `${out}/file`;
  swap(`${out}/dir`, "../../outside");
  swap(`${out}/dir`, `${work}/../outside`);
  swap(path, "../secret.txt");
  swap(path, `${work}/secret.txt`);
  // In place: emptied, then written in two steps of two kinds of bytes that are both its own.
  attempt(() => {
    using file = Deno.openSync(path, { write: true, truncate: true });
    file.writeSync(new Uint8Array(1 + round % 9_000).fill(0x69));
    file.writeSync(new Uint8Array(round % 5_000).fill(0x6a));
  });
  attempt(() => {
    Deno.writeFileSync(`${out}/staged`, new Uint8Array(100 + round % 7_000).fill(round % 2 ? 0x69 : 0x6a));
    Deno.renameSync(`${out}/staged`, `${out}/renamed`);
  });
  attempt(() => Deno.truncateSync(`${out}/large`, round % 3 === 0 ? 70_000 : 90_000));
  attempt(() => {
    Deno.removeSync(`${out}/link`);
    Deno.symlinkSync(
      ["file", "../secret.txt", `${work}/out/renamed`, `${work}/secret.txt`, "dir/file"][round % 5]!,
      `${out}/link`,
    );
  });
  if (round % 4 === 0) swap(out, "../outside");
  if (round % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
}
