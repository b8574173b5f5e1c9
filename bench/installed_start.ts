/**
 * How long the installed `mur`, one file, takes to start: the first time, when it unpacks itself, and later; against an
 * empty program started by the same `deno`, in turn in one run. And how large it is to download.
 *
 * @module
 */
import { buildBinaries } from "../scripts/build_binaries.ts";
import { hostTarget } from "../scripts/build_target.ts";
import { PROGRAMS } from "../scripts/program_files.ts";
import { type BenchResult, median } from "./result.ts";

const WARM_ROUNDS = 25;
const FIRST_ROUNDS = 5;

export async function run(): Promise<BenchResult> {
  const place = await Deno.makeTempDir({ prefix: "mur-bench-" });
  try {
    const built = await buildBinaries({
      form: "auto",
      targets: [hostTarget()],
      programs: PROGRAMS,
      output: `${place}/build`,
    });
    const mur = built.find(({ program }) => program === "mur")!;
    await Deno.writeTextFile(`${place}/empty.js`, "");
    const env = { HOME: place };
    const timed = async (program: string, args: readonly string[]): Promise<number> => {
      const command = new Deno.Command(program, { args: [...args], env, cwd: place, stdin: "null" });
      const start = performance.now();
      const { success, stderr } = await command.output();
      const elapsed = performance.now() - start;
      if (!success) throw new Error(new TextDecoder().decode(stderr));
      return elapsed;
    };
    const empty = () => timed(Deno.execPath(), ["run", `${place}/empty.js`]);
    const version = () => timed(mur.path, ["--version"]);
    const first: { readonly empty: number; readonly first: number }[] = [];
    await empty();
    for (let round = 0; round < FIRST_ROUNDS; round++) {
      await Deno.remove(`${place}/.cache/murmur`, { recursive: true }).catch(() => {});
      first.push({ empty: await empty(), first: await version() });
    }
    // What Deno compiled of the program is kept after its second start.
    await version();
    const warm: { readonly empty: number; readonly warm: number }[] = [];
    for (let round = 0; round < WARM_ROUNDS; round++) warm.push({ empty: await empty(), warm: await version() });
    const sizes = await Promise.all(
      built.map(async ({ name, path }) => ({ name, size: (await Deno.stat(path)).size })),
    );
    return {
      name: `installed start (${mur.form} form, ${
        mur.compressed ? "" : "not "
      }compressed inside; peer: an empty deno run)`,
      figures: [
        { what: "empty deno run", value: median(warm.map(({ empty }) => empty)), unit: "ms" },
        { what: "mur --version, warm", value: median(warm.map(({ warm }) => warm)), unit: "ms" },
        {
          what: "mur --version, warm, ratio",
          value: median(warm.map(({ empty, warm }) => warm / empty)),
          unit: "x",
          atMost: 1.4,
        },
        { what: "mur --version, first", value: median(first.map(({ first }) => first)), unit: "ms" },
        {
          what: "mur --version, first, ratio",
          value: median(first.map(({ empty, first }) => first / empty)),
          unit: "x",
          atMost: 25,
        },
        ...sizes.map(({ name, size }) => ({ what: name, value: size / 1e6, unit: "MB", atMost: 60 })),
      ],
    };
  } finally {
    await Deno.remove(place, { recursive: true });
  }
}
