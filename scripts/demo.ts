/**
 * The main job, end to end: builds the first-party components, installs them, runs a capsule over a directory, and shows
 * its report, the trace and where everything lies.
 *
 * Usage: `deno task demo [directory]`; `MUR_MODEL=anthropic` or `openai` takes the same capsule with a real model.
 *
 * @module
 */
import { main } from "../cli/main.ts";
import { processContext } from "../cli/context.ts";
import { firstPartyComponents } from "./build_components.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname).replace(/\/$/, "");
const EXAMPLE = `${ROOT}/examples/repo-report`;
/** A project of the demo's own, so that the example stays as it is in the repository. */
const PROJECT = `${ROOT}/dist/demo`;

const MANIFESTS: Readonly<Record<string, string>> = {
  scripted: "murmur.yaml",
  anthropic: "murmur.anthropic.yaml",
  openai: "murmur.openai.yaml",
};

function heading(text: string): void {
  console.log(`\n== ${text}`);
}

/** The newest session's records directory in the group of a directory. */
async function newestRecords(home: string, directory: string): Promise<string> {
  const group = `${home}/records${directory}`;
  const sessions: string[] = [];
  for await (const { name } of Deno.readDir(group)) if (name.startsWith("ses_")) sessions.push(name);
  return `${group}/${sessions.sort().at(-1)}`;
}

async function demo(): Promise<number> {
  const model = Deno.env.get("MUR_MODEL") ?? "scripted";
  const manifest = MANIFESTS[model];
  if (manifest === undefined) {
    console.error(`MUR_MODEL is '${model}'; use one of: ${Object.keys(MANIFESTS).join(", ")}`);
    return 2;
  }
  const directory = await Deno.realPath(Deno.args[0] ?? ROOT);
  const context = processContext();

  heading("Building the components");
  const text = await Deno.readTextFile(`${EXAMPLE}/${manifest}`);
  const declared = [...text.matchAll(/^ +- name: (murmur-[a-z-]+)$/gm)].map((match) => match[1]!);
  const archives = await firstPartyComponents(declared, (name, built, milliseconds) => {
    console.log(built ? `${name} built in ${(milliseconds / 1000).toFixed(1)} s` : `${name} is up to date`);
  });
  await Deno.mkdir(PROJECT, { recursive: true });
  for (const name of ["prompt.md", ...Object.values(MANIFESTS)]) {
    await Deno.copyFile(`${EXAMPLE}/${name}`, `${PROJECT}/${name}`);
  }
  // The components may have been built anew; what this project pinned before is no promise of theirs.
  await Deno.remove(`${PROJECT}/murmur.lock`).catch(() => {});

  heading("Installing what the capsule declares");
  for (const archive of archives.values()) {
    const status = await main(["install", archive], { ...context, cwd: PROJECT });
    if (status !== 0) return status;
  }

  heading(`Running the capsule over ${directory}`);
  const run = await main(
    [
      "run",
      "--manifest",
      `${PROJECT}/${manifest}`,
      "--workdir",
      directory,
      "--task",
      "Examine this directory and write out/report.md.",
    ],
    { ...context, cwd: PROJECT },
  );
  if (run !== 0) return run;

  heading("The report");
  console.log(await Deno.readTextFile(`${directory}/out/report.md`));
  heading("What the trace says");
  await main(["trace", "show", "--workdir", directory], context);
  heading("Where everything is");
  const home = context.absoluteHome();
  const records = await newestRecords(home.root, directory);
  console.log(`report   ${directory}/out/report.md`);
  console.log(`trace    ${records}/trace.jsonl`);
  console.log(`records  ${records}`);
  console.log(`capsule  ${EXAMPLE}/${manifest}`);
  return 0;
}

if (import.meta.main) Deno.exit(await demo());
