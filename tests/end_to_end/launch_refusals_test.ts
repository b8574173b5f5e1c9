/**
 * Launches that are refused: with which code, in which order, and that nothing of them is left (spec cli 12,
 * session 2, 3, diagnostics).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { hostPlatformTag } from "../../artifact/platform.ts";
import { textGuest } from "../../runtime/component/testing/guests.ts";
import { canMount } from "../support/own_mounts.ts";
import { packedArtifact } from "../support/packed_artifact.ts";
import {
  type AgentProject,
  agentProject,
  type AgentRun,
  capsule,
  driverEntry,
  toolEntry,
} from "../support/agent_project.ts";
import { preparedFile } from "../support/prepared_home.ts";

const LOCK = "lock_version: 2\nartifacts:\n";
const SHA = "0".repeat(64);

function pin(name: string, more: { version?: string; sha?: string; rest?: string } = {}): string {
  const { version = "1.0.0", sha = SHA, rest = "    origin: operator\n" } = more;
  return `  - name: ${name}\n    resolved_version: ${version}\n    sha256:\n      any: ${sha}\n${rest}`;
}

interface Refusal {
  readonly code: string;
  readonly manifest?: JsonObject | string;
  /** Further files of the project. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What the error also says. */
  readonly says?: RegExp;
  /** Decided once the session's directories exist. */
  readonly atLaunch?: boolean;
}

/** An ELF header of another machine. */
function foreignBinary(): Uint8Array {
  const bytes = new Uint8Array(64);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  new DataView(bytes.buffer).setUint16(16, 2, true);
  new DataView(bytes.buffer).setUint16(18, Deno.build.arch === "x86_64" ? 183 : 62, true);
  return bytes;
}

const withCapabilities = (capabilities: JsonObject) => capsule({ capabilities });
const prompted = (inference: JsonObject) => capsule({ inference });
/** No host holds it above `advisory`. */
const UNCONTAINABLE = withCapabilities({ filesystem: { workdir_exec: true } });

/** By what the case is about. */
const REFUSALS: Readonly<Record<string, Refusal>> = {
  "no manifest": { code: "E-IO-001", args: ["--manifest", "absent.yaml"], says: /absent\.yaml/ },
  "no name": {
    code: "E-MAN-001",
    manifest: "version: 0.1.0\n",
    says: /murmur\.yaml[\s\S]*name/,
  },
  "bad YAML": {
    code: "E-MAN-002",
    manifest: "name: probe\nversion: [0.1.0\nartifacts: []\n",
    says: /murmur\.yaml:\d+:\d+/,
  },
  "a wrong value": {
    code: "E-MAN-003",
    manifest: "name: probe\nversion: 0.1.0\ninference:\n  transport: http\n  max_turns: 0\n",
    says: /murmur\.yaml:5:14[\s\S]*max_turns: 0/,
  },
  "a gateway without a key": {
    code: "E-CAP-018",
    manifest: capsule({ artifacts: [{ ...toolEntry("probe-tool"), gateway: { endpoint: "http://127.0.0.1:9" } }] }),
  },
  "a child's variables": { code: "E-RUN-020", env: { MURMUR_SPAWNER: "{}" } },
  "a lifeline": { code: "E-RUN-020", env: { MURMUR_SPAWNER_LIFELINE: "3" } },
  "a formation's id": { code: "E-RUN-044", env: { MURMUR_FORMATION_ID: "frm_1" } },
  "a formation's channel": { code: "E-RUN-046", env: { MURMUR_FORMATION_CHANNEL: "3" } },
  "a bad .env": { code: "E-IO-003", files: { ".env": "A=1\n\n# c\nnot a pair\n" }, says: /\.env[\s\S]*4/ },
  "a bad class": { code: "E-IO-003", args: ["--containment", "strong"], says: /advisory, scoped, sealed/ },
  "a bad project configuration": {
    code: "E-IO-003",
    files: { ".murmur/config.yaml": "containment: strong\n" },
    says: /config\.yaml/,
  },
  "a prompt for a script": {
    code: "E-IO-003",
    manifest: { name: "s", version: "0.1.0" },
    args: ["--system-prompt", "x"],
    says: /--system-prompt/,
  },
  "another version of the lock": {
    code: "E-RUN-003",
    files: { "murmur.lock": "lock_version: 1\nartifacts: []\n" },
    says: /mur install/,
  },
  "a lock that is none": { code: "E-RUN-003", files: { "murmur.lock": "lock_version: 2\nartifacts: {\n" } },
  "a lock without the artifact": { code: "E-RUN-003", files: { "murmur.lock": `${LOCK}${pin("other")}` } },
  "a lock of another version": {
    code: "E-RUN-003",
    files: { "murmur.lock": `${LOCK}${pin("program-driver", { version: "2.0.0" })}` },
  },
  "a lock of another platform": {
    code: "E-RUN-003",
    files: {
      "murmur.lock":
        `${LOCK}  - name: program-driver\n    resolved_version: 1.0.0\n    sha256:\n      platforms:\n        plan9-mips: ${SHA}\n    origin: operator\n`,
    },
    says: /plan9-mips/,
  },
  "a lock of another hash": {
    code: "E-REG-002",
    files: { "murmur.lock": `${LOCK}${pin("program-driver")}` },
    says: /program-driver@1\.0\.0/,
  },
  "a driver that a capsule pulled": {
    code: "E-RUN-043",
    files: {
      "murmur.lock": `${LOCK}${
        pin("program-driver", { rest: "    origin: runtime\n    session: ses_00000000000000000000000000000001\n" })
      }`,
    },
    says: /mur install program-driver@1\.0\.0/,
  },
  "artifacts that are not installed": {
    code: "E-RUN-008",
    manifest: capsule({ artifacts: [toolEntry("one-tool"), toolEntry("two-tool")] }),
    says: /one-tool@1\.0\.0, two-tool@1\.0\.0/,
  },
  "a capsule that is not installed": {
    code: "E-RUN-008",
    args: ["--capsule", "acme/agent", "--capsule-version", "1.0.0"],
    says: /acme\/agent@1\.0\.0/,
  },
  "a script without a component": { code: "E-RUN-004", manifest: { name: "s", version: "0.1.0" } },
  "a script with two": {
    code: "E-RUN-004",
    manifest: { name: "s", version: "0.1.0" },
    files: { "a.wasm": "", "b.wasm": "" },
  },
  "a bad acceptance": { code: "E-IO-003", args: ["--lifecycle-task-acceptance", "many"], says: /none, single, queue/ },
  "a bad after_task": { code: "E-IO-003", args: ["--lifecycle-after-task", "stay"], says: /exit, sleep/ },
  "a key that is nowhere": {
    code: "E-MAN-003",
    manifest: capsule({
      artifacts: [{ ...toolEntry("probe-tool"), gateway: { endpoint: "http://127.0.0.1:9", api_key: "${NOWHERE}" } }],
    }),
    says: /'probe-tool': gateway\.api_key: \$\{NOWHERE\}[\s\S]*credentials\.NOWHERE[\s\S]*environment variable NOWHERE/,
  },
  "a network entry with a path": {
    code: "E-CAP-001",
    manifest: withCapabilities({ network: { allow: ["https://a.example/x"] } }),
  },
  "a scope that climbs": { code: "E-CAP-002", manifest: withCapabilities({ filesystem: { scope: "../x" } }) },
  "an absolute read-only path": {
    code: "E-CAP-012",
    manifest: withCapabilities({ filesystem: { read_only: ["/etc"] } }),
  },
  "a store that is a path": {
    code: "E-CAP-009",
    manifest: capsule({ artifacts: [toolEntry("probe-tool", { capabilities: { state: { store: "a/b" } } })] }),
  },
  "a config that is a list": {
    code: "E-CAP-010",
    manifest: capsule({ artifacts: [toolEntry("probe-tool", { config: [1] })] }),
  },
  "a record store that hides": { code: "E-CAP-011", manifest: capsule({ context: { record_store: ".x" } }) },
  "an artifact named as a tool of the runtime": {
    code: "E-CAP-013",
    manifest: capsule({ artifacts: [{ name: "submit-plan", runtime: "skill", version: "0.0.0", source: "s.md" }] }),
    files: { "s.md": "x" },
  },
  "a variable that is stripped": {
    code: "E-CAP-016",
    manifest: withCapabilities({ env: { allow: ["OPENAI_API_KEY"] } }),
  },
  "a floor above the host": {
    code: "E-CAP-003",
    manifest: withCapabilities({ containment: "sealed", filesystem: { workdir_exec: true } }),
    says: /'sealed'[\s\S]*'advisory'/,
  },
  "a floor of the flag": { code: "E-CAP-003", manifest: UNCONTAINABLE, args: ["--containment", "scoped"] },
  "a floor of the project": {
    code: "E-CAP-003",
    manifest: UNCONTAINABLE,
    files: { ".murmur/config.yaml": "containment: scoped\n" },
  },
  "a staged runtime without a sealed floor": {
    code: "E-CAP-004",
    manifest: withCapabilities({
      shell: {
        allow: ["sh"],
        staged_runtime: [{ binary: "sh", source_path: "/opt/x", pin: "1" }],
      },
    }),
    says: /for 'sh' under the containment floor 'advisory'/,
  },
  "a feature that is not served": {
    code: "E-MAN-003",
    manifest: withCapabilities({ install: { skill: ["*"] } }),
    says: /does not install artifacts while a session runs yet/,
  },
  "a workdir that is none": { code: "E-IO-003", args: ["--workdir", "absent"], says: /absent/ },
  "a workdir that is a file": { code: "E-IO-003", args: ["--workdir", "murmur.yaml"] },
  "no driver": {
    code: "E-RUN-005",
    manifest: {
      name: "probe",
      version: "0.1.0",
      artifacts: [],
      inference: { transport: "http", model: "m" },
    },
  },
  "a skill that is not there": {
    code: "E-IO-001",
    manifest: capsule({ artifacts: [{ name: "s", runtime: "skill", version: "0.0.0", source: "absent.md" }] }),
    says: /absent\.md/,
  },
  "a skill directory without one": {
    code: "E-IO-001",
    manifest: capsule({ artifacts: [{ name: "s", runtime: "skill", version: "0.0.0", source: "dir" }] }),
    files: { "dir/other.md": "" },
    says: /skill\.md/,
  },
  "a skill that never ends": {
    code: "E-IO-003",
    manifest: capsule({ artifacts: [{ name: "s", runtime: "skill", version: "0.0.0", source: "/dev/zero" }] }),
    says: /\/dev\/zero is not a regular file/,
  },
  "a driver without upstream_auth": {
    code: "E-RUN-025",
    manifest: capsule({ driver: "bare-driver" }),
    says: /bare-driver@1\.0\.0/,
  },
  "a native tool with a gateway": {
    code: "E-CAP-017",
    manifest: capsule({
      artifacts: [{ ...toolEntry("native-probe"), gateway: { endpoint: "http://127.0.0.1:9", keyless: true } }],
    }),
  },
  "a native tool of another machine": {
    code: "E-RUN-021",
    manifest: capsule({ artifacts: [toolEntry("foreign-tool")] }),
    says: /foreign-tool/,
  },
  "a driver that exports nothing": { code: "E-RUN-029", manifest: capsule({ driver: "empty-driver" }) },
  "a driver for another transport": {
    code: "E-RUN-030",
    manifest: capsule({ driver: "process-driver" }),
    says: /murmur:driver\/process@0\.2\.0/,
  },
  "a component that is none": {
    code: "E-RUN-001",
    manifest: capsule({ artifacts: [toolEntry("broken-tool")] }),
    says: /broken-tool/,
  },
  "a component that wants what no runtime serves": {
    code: "E-RUN-002",
    manifest: capsule({ artifacts: [toolEntry("wishing-tool")] }),
    says: /tool 'wishing-tool' imports 'murmur:wishes\/wish@9\.0\.0', which the runtime does not serve/,
  },
  "a component that wants a version no runtime serves": {
    code: "E-RUN-002",
    manifest: capsule({ artifacts: [toolEntry("future-tool")] }),
    says: /tool 'future-tool' imports 'murmur:text\/chunks@0\.9\.0', the runtime serves 'murmur:text\/chunks@0\.1\.0'/,
  },
  "a damaged archive": {
    code: "E-REG-002",
    manifest: capsule({ artifacts: [toolEntry("trap-tool")] }),
    says: /trap-tool-1\.0\.0\.mur\.zip/,
  },
  "a prompt file that is not there": {
    code: "E-RUN-009",
    manifest: prompted({ system_prompt_file: "absent.md" }),
    says: /absent\.md/,
    atLaunch: true,
  },
};

/** Puts a component or tool into the global store without looking at it, as an older or careless install would. */
async function installRaw(project: AgentProject, name: string, archive: Uint8Array): Promise<void> {
  await project.write(`archives/${name}.mur.zip`, archive);
  const installed = await project.mur(["install", "-g", "--no-precompile", `archives/${name}.mur.zip`]);
  assert.equal(installed.status, 0, installed.stderr);
}

/** Flips one bit in the middle of an installed archive. */
async function damage(project: AgentProject, name: string): Promise<void> {
  for await (const path of filesBelow(`${project.murmur}/artifacts`)) {
    if (!path.includes(name) || !path.endsWith(".zip")) continue;
    const bytes = await Deno.readFile(path);
    bytes[bytes.length >> 1]! ^= 1;
    await Deno.writeFile(path, bytes);
    return;
  }
  assert.fail(`no archive of ${name}`);
}

async function* filesBelow(directory: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    if (isDirectory) yield* filesBelow(`${directory}/${name}`);
    else yield `${directory}/${name}`;
  }
}

/** Names below sessions/, running/ and records/: a refused launch leaves none. */
async function leftOf(project: AgentProject): Promise<string[]> {
  const left: string[] = [];
  for (const name of ["sessions", "running", "records", "state", "conversations", "spend"]) {
    try {
      for await (const path of filesBelow(`${project.murmur}/${name}`)) left.push(path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return left;
}

function checkRefusal(name: string, run: AgentRun, { code, says }: Refusal): void {
  assert.equal(run.status, 1, `${name}: ${run.stdout}${run.stderr}`);
  assert.equal(run.stdout, "status:  failed\n", name);
  const at = run.stderr.lastIndexOf("error[");
  const error = run.stderr.slice(at);
  assert.ok(error.startsWith(`error[${code}]: `), `${name}: ${run.stderr}`);
  if (says !== undefined) assert.match(error, says);
  assert.match(error, /\n$/);
  assert.ok(!/defect of mur|\bundefined\b|\[object/.test(error), `${name}: ${error}`);
}

Deno.test("each launch that cannot be is refused with its code, and nothing of it is left", async () => {
  await using project = await agentProject(capsule());
  await installRaw(
    project,
    "bare-driver",
    await packedArtifact({
      name: "bare-driver",
      runtime: "driver",
      files: { "capsule.wasm": await Deno.readFile(await preparedFile("trap_tool.wasm")) },
    }),
  );
  await installRaw(project, "empty-driver", await packedArtifact({ name: "empty-driver", runtime: "driver" }));
  const processDriver = await textGuest({
    world: "world driver { export murmur:driver/process@0.2.0; }\n" +
      "package murmur:driver@0.2.0 { interface process { describe: func(); } }",
    module: '(module (func (export "murmur:driver/process@0.2.0#describe")))',
  });
  await installRaw(
    project,
    "process-driver",
    await packedArtifact({ name: "process-driver", runtime: "driver", files: { "capsule.wasm": processDriver } }),
  );
  const importing = async (name: string, packageText: string, path: string) =>
    await installRaw(
      project,
      name,
      await packedArtifact({
        name,
        runtime: "tool",
        files: {
          "capsule.wasm": await textGuest({
            world: `world tool { import ${path}; export murmur:tool/run@0.1.0; }\n${packageText}`,
            module: `(module (import "${path}" "ask" (func $ask)) (memory (export "memory") 2)
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
              (func (export "murmur:tool/run@0.1.0#run") (param i32 i32 i32 i32 i32 i32) (result i32)
                call $ask unreachable))`,
          }),
        },
      }),
    );
  await importing(
    "wishing-tool",
    "package murmur:wishes@9.0.0 { interface wish { ask: func(); } }",
    "murmur:wishes/wish@9.0.0",
  );
  await importing(
    "future-tool",
    "package murmur:text@0.9.0 { interface chunks { ask: func(); } }",
    "murmur:text/chunks@0.9.0",
  );
  await installRaw(
    project,
    "broken-tool",
    await packedArtifact({
      name: "broken-tool",
      runtime: "tool",
      files: { "capsule.wasm": "\0asm\r\0\x01\0nonsense" },
    }),
  );
  await installRaw(
    project,
    `foreign-tool-1.0.0-${hostPlatformTag()}`,
    await packedArtifact({
      name: "foreign-tool",
      runtime: "tool",
      manifest: "implementation: native\n",
      files: { "bin/foreign-tool": foreignBinary() },
    }),
  );
  await damage(project, "trap-tool");

  const cases = Object.entries(REFUSALS);
  const refuse = async ([name, refusal]: (typeof cases)[number], index: number) => {
    const { manifest = capsule(), files = {}, args = [], env = {} } = refusal;
    const folder = `case_${index}`;
    const text = typeof manifest === "string" ? manifest : JSON.stringify(manifest, null, 2);
    for (const [path, content] of Object.entries({ "murmur.yaml": text, ...files })) {
      await project.write(`${folder}/${path}`, content);
    }
    const cwd = `${project.project}/${folder}`;
    const run = await project.run({ task: "x", args, env, cwd });
    checkRefusal(name, run, refusal);
    const made = [...Deno.readDirSync(cwd)].map((entry) => entry.name).filter((entry) =>
      !["murmur.yaml", ".murmur", ...Object.keys(files).map((path) => path.split("/")[0])].includes(entry)
    );
    assert.deepEqual(made, refusal.atLaunch ? ["murmur.lock", "workdir"] : [], name);
  };
  const staging = cases.filter(([, { atLaunch }]) => !atLaunch);
  for (let at = 0; at < staging.length; at += 4) {
    await Promise.all(staging.slice(at, at + 4).map((each, index) => refuse(each, at + index)));
  }
  assert.deepEqual(await leftOf(project), []);
  // Refused later: the records tell of it, the scratch directory is gone.
  for (const [index, each] of cases.filter(([, { atLaunch }]) => atLaunch).entries()) await refuse(each, 1_000 + index);
  assert.deepEqual([...Deno.readDirSync(`${project.murmur}/sessions`)], []);
  assert.deepEqual([...Deno.readDirSync(`${project.murmur}/running`)], []);
});

Deno.test("a port that is taken, an unusable ledger and an unusable home refuse the launch", async () => {
  await using project = await agentProject(capsule());
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await project.write(
    "port/murmur.yaml",
    JSON.stringify(capsule({ network: { internal_port: listener.addr.port } })),
  );
  const port = await project.run({ task: "x", cwd: `${project.project}/port` });
  checkRefusal("port", port, { code: "E-RUN-010", says: new RegExp(String(listener.addr.port)) });
  assert.deepEqual([...Deno.readDirSync(`${project.murmur}/sessions`)], []);

  await Deno.writeTextFile(`${project.murmur}/config.yaml`, "spend:\n  machine_tokens_per_day: 10\n");
  await Deno.writeTextFile(`${project.murmur}/spend`, "");
  checkRefusal("ledger", await project.run({ task: "x" }), { code: "E-RUN-026", says: /spend/ });

  await project.write("home/.murmur", "a file");
  // Where stdout is not for people, the status is told elsewhere or not at all.
  const [asText, asJson] = await Promise.all([
    project.run({ task: "x", args: ["--output", "text"] }),
    project.run({ task: "x", args: ["--json"] }),
  ]);
  assert.deepEqual([asText.status, asText.stdout, asJson.status, asJson.stdout], [1, "", 1, ""]);
  assert.match(asText.stderr, /^status: {2}failed\nerror\[E-RUN-026\]: /m);
  assert.match(asJson.stderr, /^error\[E-RUN-026\]: /m);
  assert.ok(!asJson.stderr.includes("status:"));

  const [relative, unset, file] = await Promise.all([
    project.run({ task: "x", home: "relative" }),
    project.run({ task: "x", home: "" }),
    project.run({ task: "x", home: `${project.project}/home` }),
  ]);
  checkRefusal("relative home", relative, { code: "E-IO-003", says: /HOME/ });
  checkRefusal("no home", unset, { code: "E-IO-001", says: /HOME/ });
  checkRefusal("a file as ~/.murmur", file, { code: "E-IO-003", says: /home\/\.murmur/ });
});

Deno.test("a declared limit of all commands needs a control group", { ignore: !canMount() }, async () => {
  const limited = withCapabilities({ shell: { allow: ["sh"] }, resources: { cgroup_pids_max: 5 } });
  await using project = await agentProject(limited);
  // A machine without any: the limits of each command are sampled, and that is told.
  const mounts = [{ at: "/sys/fs/cgroup", kilobytes: 128 }];
  const refused = await project.run({ task: "x", mounts });
  checkRefusal("a declared cgroup limit", refused, {
    code: "E-RUN-012",
    says: /^error\[E-RUN-012\]: capabilities\.resources\.cgroup_pids_max/,
  });
  await project.write("murmur.yaml", JSON.stringify(withCapabilities({ shell: { allow: ["sh"] } })));
  const run = await project.run({ task: "x", mounts });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stderr, /W-SEC-034\]: [^\n]*'sampling'/);
  const grants = run.events("session_start")[0]!.effective_grants as Record<string, JsonObject>;
  assert.equal(grants.aggregate_limits!.mechanism, "sampling");
});

Deno.test("of several defects the one that is checked first is told", async () => {
  await using project = await agentProject(capsule());
  const gateway = (key: string) => ({ endpoint: "http://127.0.0.1:9", api_key: key });
  // Everything is wrong; each step mends what was told.
  const manifest: { [key: string]: JsonObject[string] } = {
    name: "probe",
    version: "0.1.0",
    artifacts: [driverEntry("bare-driver"), { ...toolEntry("probe-tool"), gateway: gateway("${NOWHERE}") }],
    inference: { transport: "http", model: "m", driver: { artifact: "bare-driver" } },
    capabilities: {
      network: { allow: ["https://a.example/x"] },
      filesystem: { scope: "/x", read_only: ["../y"] },
      env: { allow: ["OPENAI_API_KEY"] },
      containment: "scoped",
    },
    context: { record_store: "a/b" },
    lifecycle: { task_acceptance: "none" },
  };
  const args = new Map<string, string>([
    ["--context", "../c"],
    ["--resume", "@1"],
    ["--containment", "strong"],
    ["--lifecycle-after-task", "never"],
    ["--workdir", "absent"],
  ]);
  const env = new Map([["MURMUR_FORMATION_ID", "x"]]);
  const capabilities = manifest.capabilities as { [key: string]: JsonObject };
  const artifacts = manifest.artifacts as JsonObject[];
  await project.write("murmur.lock", "lock_version: 1\n");
  await project.write(".env", "nonsense\n");
  let broken = true;
  const steps: readonly [string, () => void | Promise<void>][] = [
    ["E-RUN-044", () => void env.delete("MURMUR_FORMATION_ID")],
    ["E-RUN-015", () => void args.delete("--resume")],
    ["E-IO-003", () => project.write(".env", "A=b\n")],
    ["E-MAN-002", () => void (broken = false)],
    ["E-IO-003", () => void args.set("--containment", "advisory")],
    ["E-RUN-003", () => Deno.remove(`${project.project}/murmur.lock`)],
    [
      "E-RUN-008",
      async () =>
        await installRaw(
          project,
          "bare-driver",
          await packedArtifact({
            name: "bare-driver",
            runtime: "driver",
            files: { "capsule.wasm": await Deno.readFile(await preparedFile("trap_tool.wasm")) },
          }),
        ),
    ],
    ["E-IO-003", () => void args.delete("--lifecycle-after-task")],
    ["E-MAN-003", () => void (artifacts[1] = { ...artifacts[1]!, gateway: gateway("k") })],
    ["E-CAP-001", () => void (capabilities.network = { allow: [] })],
    ["E-CAP-002", () => void (capabilities.filesystem = { read_only: ["../y"] })],
    ["E-CAP-012", () => void (capabilities.filesystem = { workdir_exec: true })],
    ["E-CAP-011", () => void delete manifest.context],
    ["E-CAP-011", () => void args.delete("--context")],
    ["E-CAP-016", () => void (capabilities.env = { allow: [] })],
    ["E-CAP-003", () => void delete capabilities.containment],
    ["E-IO-003", () => void args.delete("--workdir")],
    ["E-RUN-025", () => {}],
  ];
  for (const [index, [code, mend]] of steps.entries()) {
    const text = JSON.stringify(manifest, null, 2);
    await project.write("murmur.yaml", broken ? `${text}}` : text);
    const run = await project.run({
      task: "x",
      args: [...args].flatMap(([flag, value]) => [flag, value]),
      env: Object.fromEntries(env),
    });
    checkRefusal(`step ${index}`, run, { code });
    await mend();
  }
  assert.deepEqual(await leftOf(project), []);
});

Deno.test("flags that do not go together are usage errors", async () => {
  await using project = await agentProject(capsule());
  const usages: readonly (readonly string[])[] = [
    ["--json", "--output", "text"],
    ["--output", "xml"],
    ["--capsule", "x"],
    ["--capsule-version", "1.0.0"],
    ["--capsule", "x", "--capsule-version", "1.0.0", "--manifest", "murmur.yaml"],
    ["--capsule-sha256", "00"],
    ["--resume-mode", "full"],
    ["--resume", "@1", "--resume-mode", "half"],
    ["--forget-session"],
    ["--forget-session", "--context", "x", "--resume"],
    ["--no-such-flag"],
    ["an-argument"],
  ];
  for (let at = 0; at < usages.length; at += 4) {
    await Promise.all(
      usages.slice(at, at + 4).map(async (args) => {
        const run = await project.run({ args });
        assert.equal(run.status, 2, `${args.join(" ")}: ${run.stdout}${run.stderr}`);
        assert.equal(run.stdout, "");
        assert.ok(run.stderr.length > 0 && !run.stderr.includes("error["), run.stderr);
      }),
    );
  }
  assert.deepEqual(await leftOf(project), []);
});

Deno.test("an installed capsule runs from its archive, bound to its hash, without a lock", async () => {
  await using project = await agentProject({ name: "other", version: "0.1.0" });
  const manifest = capsule({ name: "packed", inference: { system_prompt_file: "prompt.md" } });
  await project.write(
    "packed/murmur.yaml",
    JSON.stringify({ ...manifest, runtime: "capsule", execution: "static", requires_files: ["prompt.md"] }),
  );
  await project.write("packed/prompt.md", "Packed prompt.");
  const built = await project.mur(["build", "packed", "-o", "packed.mur.zip"]);
  assert.equal(built.status, 0, built.stderr);
  const installed = await project.mur(["install", "-g", "./packed.mur.zip"]);
  assert.equal(installed.status, 0, installed.stderr);
  const sha = new Uint8Array(
    await crypto.subtle.digest("SHA-256", await Deno.readFile(`${project.project}/packed.mur.zip`)),
  ).toHex();
  await Deno.remove(`${project.project}/packed`, { recursive: true });
  const chosen = ["--capsule", "packed", "--capsule-version", "0.1.0", "--capsule-sha256"];
  const [run, refused] = await Promise.all([
    project.run({ task: { turns: [{ show: "request" }] }, args: [...chosen, sha] }),
    project.run({ task: "x", args: [...chosen, SHA] }),
  ]);
  assert.equal(run.status, 0, run.stderr);
  assert.match(JSON.parse(run.result!).system, /\nPacked prompt\.$/);
  checkRefusal("another hash", refused, { code: "E-RUN-047", says: new RegExp(sha) });
  await assert.rejects(Deno.stat(`${project.project}/murmur.lock`), Deno.errors.NotFound);
});
