/**
 * Delegation, end to end: builds `examples/orchestrator`, installs its capsules into a home of the demo's own, starts
 * `mur-roost`, runs the orchestrator over a directory, and shows what came of it and where it can be read.
 *
 * Usage: `deno task demo:orchestrator [directory]`
 *
 * @module
 */
import { firstPartyComponents } from "./build_components.ts";
import { murmurHomeAt, recordsGroup } from "../base/murmur_home.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname).replace(/\/$/, "");
const EXAMPLE = `${ROOT}/examples/orchestrator`;
const CAPSULES = ["orchestrator", "surveyor", "reader", "publisher"];
const VERSION = "0.1.0";

function heading(text: string): void {
  console.log(`\n== ${text}`);
}

/** A program of this checkout with a home of its own. */
interface Programs {
  /** Runs `mur` to its end, showing what it prints. */
  mur(...args: string[]): Promise<number>;
  /** Starts the daemon and answers its address once it listens. */
  roost(...args: string[]): Promise<{ readonly url: string; readonly child: Deno.ChildProcess }>;
}

function programs(home: string, cwd: string, variables: Record<string, string>): Programs {
  const command = (entry: string, args: readonly string[]) => ({
    args: ["run", "--quiet", "-A", "--config", `${ROOT}/deno.json`, `${ROOT}/${entry}`, ...args],
    cwd,
    env: {
      HOME: home,
      // The packages are where they are, whatever home this has.
      DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
      ...variables,
    },
  });
  return {
    async mur(...args) {
      return (await new Deno.Command(Deno.execPath(), { ...command("cli/main.ts", args) }).spawn().status).code;
    },
    async roost(...args) {
      const child = new Deno.Command(Deno.execPath(), { ...command("roost/main.ts", args), stderr: "piped" }).spawn();
      const listening = Promise.withResolvers<string>();
      void (async () => {
        let text = "";
        for await (const piece of child.stderr.pipeThrough(new TextDecoderStream())) {
          text += piece;
          await Deno.stderr.write(new TextEncoder().encode(piece));
          const port = /listening on 127\.0\.0\.1:(\d+)\n/.exec(text)?.[1];
          if (port !== undefined) listening.resolve(`http://127.0.0.1:${port}`);
        }
        listening.reject(new Error("mur-roost did not start"));
      })();
      return { url: await listening.promise, child };
    },
  };
}

/**
 * Runs the demonstration.
 *
 * @param directory What the orchestrator works on.
 * @param place Where its home and its archives are made.
 * @returns The exit status.
 */
export async function demo(directory: string, place: string): Promise<number> {
  const home = `${place}/home`;
  await Deno.mkdir(home, { recursive: true });
  const { mur, roost } = programs(home, place, {});

  heading("Installing the capsules and the driver they share");
  const archives = await firstPartyComponents(["murmur-driver-scripted"], (name, built, milliseconds) => {
    console.log(built ? `${name} built in ${(milliseconds / 1000).toFixed(1)} s` : `${name} is up to date`);
  });
  const packed = [...archives.values()];
  for (const name of CAPSULES) {
    const archive = `${place}/${name}.mur.zip`;
    const source = name === "orchestrator" ? EXAMPLE : `${EXAMPLE}/${name}`;
    if (await mur("build", source, "-o", archive) !== 0) return 1;
    packed.push(archive);
  }
  for (const archive of packed) if (await mur("install", "-g", archive) !== 0) return 1;

  heading("Starting the daemon: one level of delegation, for the orchestrator alone");
  const daemon = await roost("--port", "0", "--spawn-allow", "local/orchestrator", "--max-depth", "1");
  try {
    heading(`Running the orchestrator over ${directory}`);
    const parent = programs(home, place, { MURMUR_ROOST_URL: daemon.url });
    const capsule = ["--capsule", "local/orchestrator", "--capsule-version", VERSION];
    const status = await parent.mur("run", ...capsule, "--workdir", directory, "--task", "Look at this folder.");
    if (status !== 0) return status;
  } finally {
    daemon.child.kill("SIGTERM");
    await daemon.child.status;
  }

  const records = await newestSession(recordsGroup(murmurHomeAt(home), directory));
  heading("What the orchestrator answered");
  console.log(await Deno.readTextFile(`${records}/out/result.txt`));
  heading("What its trace says");
  await mur("trace", "show", `${records}/trace.jsonl`);
  for await (const { name } of Deno.readDir(`${records}/children`)) {
    const child = await newestSession(recordsGroup(murmurHomeAt(home), `${records}/children/${name}`));
    heading(`The trace of its child in ${name}`);
    await mur("trace", "show", `${child}/trace.jsonl`);
  }
  return 0;
}

/** The newest session's records directory in a group. */
async function newestSession(group: string): Promise<string> {
  const sessions: string[] = [];
  for await (const { name } of Deno.readDir(group)) if (name.startsWith("ses_")) sessions.push(name);
  return `${group}/${sessions.sort().at(-1)}`;
}

if (import.meta.main) {
  Deno.exit(await demo(await Deno.realPath(Deno.args[0] ?? EXAMPLE), `${ROOT}/dist/orchestrator`));
}
