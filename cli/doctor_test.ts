import assert from "node:assert/strict";
import type { LockEntry } from "../artifact/lockfile.ts";
import { updateLock } from "../artifact/lockfile.ts";
import { hostPlatformTag, parsePlatform, type Platform } from "../artifact/platform.ts";
import { inspectArchive } from "../artifact/publication.ts";
import { ArtifactStore } from "../artifact/store.ts";
import { MurError } from "../base/errors.ts";
import { murmurHomeAt } from "../base/murmur_home.ts";
import { type TestContext, testContext, withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { packedArtifact, packedNativeTool } from "../tests/support/packed_artifact.ts";
import { profileText } from "../sandbox/apparmor_profile.ts";
import { doctor, type DoctorFlags, profileLines } from "./doctor.ts";
import { findCycle } from "./environment_requirements.ts";
import { inspectHome } from "./home_modes.ts";

const HOST = hostPlatformTag();
const OTHER_HOST = HOST === "darwin-aarch64" ? "linux-x86_64" : "darwin-aarch64";
const SESSION = "ses_0190a1b2c3d44e5f8a9b0c1d2e3f4a5b";
const HASH = "ab".repeat(32);

const SCRIPT = "name: c\nversion: '1'\n";
const AGENT = `${SCRIPT}inference: { transport: http, model: m, driver: { artifact: d } }\n`;
const DRIVER =
  "{ name: d, version: 1.0.0, runtime: driver, gateway: { endpoint: 'https://api.example.com', keyless: true } }";
const declaring = (...lines: string[]) => `${SCRIPT}artifacts:\n${lines.map((line) => `  - ${line}\n`).join("")}`;

interface Project {
  readonly directory: string;
  readonly home: string;
  readonly store: ArtifactStore;
  readonly globalStore: ArtifactStore;
  readonly lock: string;
  put(store: ArtifactStore, bytes: Uint8Array<ArrayBuffer>, platform?: Platform | null): Promise<string>;
  run(flags?: DoctorFlags, env?: Record<string, string>): Promise<TestContext & { status: number; checklist: string }>;
}

async function withProject(files: Record<string, string>, work: (project: Project) => Promise<void>) {
  await withTempDir(async (root) => {
    const directory = `${root}/project`;
    const home = `${root}/home`;
    await Deno.mkdir(`${home}/.murmur`, { recursive: true, mode: 0o700 });
    await Deno.chmod(`${home}/.murmur`, 0o700);
    await Deno.mkdir(directory);
    await writeFiles(directory, files);
    await work({
      directory,
      home,
      store: new ArtifactStore(`${directory}/.murmur/artifacts`),
      globalStore: new ArtifactStore(`${home}/.murmur/artifacts`),
      lock: `${directory}/murmur.lock`,
      async put(store, bytes, platform) {
        const inspected = await inspectArchive(bytes, "x", 1e8);
        const place = platform === undefined ? inspected.platform : platform;
        return (await store.put({ metadata: inspected.metadata, platform: place, bytes }, "install")).sha256;
      },
      async run(flags = {}, env = {}) {
        const context = testContext(directory, { HOME: home, ...env });
        const status = await doctor(context, flags);
        const at = context.out().indexOf("Checking ");
        return { ...context, status, checklist: context.out().slice(context.out().indexOf("\n", at) + 1) };
      },
    });
  });
}

const pin = (name: string, sha256: string, more: Partial<LockEntry> = {}): LockEntry => ({
  name,
  version: "1.0.0",
  hashes: { kind: "any", sha256 },
  origin: "operator",
  session: null,
  ...more,
});
const pulled = { origin: "runtime", session: SESSION } as const;

/** An ELF header for x86-64, and nothing to run. */
function elf(): Uint8Array {
  const bytes = new Uint8Array(64);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0]);
  bytes.set([62, 0], 18);
  return bytes;
}

Deno.test("no project is E-IO-001; a broken manifest or lock fails before any checklist", async () => {
  const refused = async (files: Record<string, string>, code: string) => {
    await withProject(files, async ({ directory, home }) => {
      const context = testContext(directory, { HOME: home });
      await assert.rejects(doctor(context, {}), (error) => error instanceof MurError && error.code === code);
      assert.ok(!context.out().includes("Checking"));
    });
  };
  await refused({}, "E-IO-001");
  await refused({ "murmur.yaml": "name: [" }, "E-MAN-002");
  await refused({ "murmur.yaml": "version: '1'\n" }, "E-MAN-001");
  await refused({ "murmur.yaml": `${SCRIPT}capabilities: { containment: strong }\n` }, "E-MAN-003");
  await refused({ "murmur.yaml": SCRIPT, "murmur.lock": "lock_version: 1\n" }, "E-RUN-003");
});

Deno.test("a project without artifacts passes, seen from a folder inside it", async () => {
  await withProject({ "murmur.yaml": SCRIPT, "sub/x": "" }, async ({ directory, home, run }) => {
    const { status, checklist } = await run();
    assert.equal(status, 0);
    assert.equal(checklist, "\nAll checks passed.\n");
    const inside = testContext(`${directory}/sub`, { HOME: home });
    assert.equal(await doctor(inside, {}), 0);
    assert.match(inside.out(), new RegExp(`\nChecking ${directory}/murmur\\.yaml for ${HOST}\\.\\.\\.\n`));
  });
});

Deno.test("installed, missing and local artifacts each have their line, with the fix", async () => {
  const manifest = declaring(
    "{ name: s, version: 1.0.0, runtime: skill }",
    "{ name: gone, version: 2.0.0, runtime: skill }",
    "{ name: mine, source: ./mine, runtime: skill }",
    "{ name: lost, source: ./lost, runtime: skill }",
  );
  await withProject({ "murmur.yaml": manifest, "mine/SKILL.md": "x" }, async ({ run, put, globalStore, directory }) => {
    await put(globalStore, await packedArtifact({ name: "s" }));
    const { status, checklist } = await run();
    assert.equal(status, 1);
    assert.equal(
      checklist,
      `✓  s@1.0.0   platform-independent
✗  gone@2.0.0   ${HOST}   — missing
✓  mine@local   local source
✗  lost@local   local source   — skill source path not found: ${directory}/./lost

2 check(s) passed, 2 error(s) found.

Fix: mur install gone@2.0.0
`,
    );
  });
});

Deno.test("a native binary is identified, unrecognised, for another host, or filed without a platform", async () => {
  const names = ["right", "script", "wrong", "plain"];
  await withProject(
    { "murmur.yaml": declaring(...names.map((name) => `{ name: ${name}, version: 1.0.0 }`)) },
    async ({ run, put, store }) => {
      const own = new Uint8Array(4096);
      const file = await Deno.open(Deno.execPath());
      await file.read(own);
      file.close();
      const foreign = HOST === "linux-x86_64"
        ? Uint8Array.of(0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1, ...new Uint8Array(30))
        : elf();
      const place = parsePlatform(HOST);
      await put(store, await packedNativeTool("right", own), place);
      await put(store, await packedNativeTool("script", "#!/bin/sh\necho a long enough script\n"), place);
      await put(store, await packedNativeTool("wrong", foreign), place);
      await put(store, await packedNativeTool("plain", own), null);
      const { checklist } = await run();
      assert.equal(
        checklist.slice(0, checklist.indexOf("\n\nFix")),
        `✓  right@1.0.0   ${HOST}
✓  script@1.0.0   platform unverified
✗  wrong@1.0.0   — native binary is built for ${OTHER_HOST}, this host is ${HOST}
⚠  plain@1.0.0   ${HOST}   — native artifact with no recorded platform (warning[W-REG-001])

2 check(s) passed, 1 error(s) found, 1 warning(s).`,
      );
    },
  );
});

Deno.test("the lock's findings: no entry, another version, no hash for this platform, another hash", async () => {
  const names = ["a", "b", "c", "d", "e"];
  await withProject({
    "murmur.yaml": declaring(...names.map((name) => `{ name: ${name}, version: 1.0.0, runtime: skill }`)),
  }, async ({ run, put, store, lock }) => {
    const hashes: Record<string, string> = {};
    for (const name of names) hashes[name] = await put(store, await packedArtifact({ name }));
    await updateLock(lock, () => ({
      entries: [
        pin("b", hashes.b!, { version: "0.9.0" }),
        pin("c", HASH, { hashes: { kind: "platforms", sha256: new Map([["other-host", HASH]]) } }),
        pin("d", HASH),
        pin("e", hashes.e!),
      ],
    }));
    const { checklist, status } = await run();
    assert.equal(status, 1);
    assert.deepEqual(checklist.split("\n").slice(0, 7), [
      "✗  a@1.0.0   — murmur.lock missing artifact entry for 'a'",
      "✗  b@1.0.0   — murmur.lock version mismatch for 'b': manifest requested 1.0.0, lock pinned 0.9.0",
      `✗  c@1.0.0   — murmur.lock has no sha256 for 'c' on ${HOST}: it pins other-host`,
      "✗  d@1.0.0   — artifact integrity check failed for d@1.0.0",
      `     expected sha256 (murmur.lock): ${HASH}`,
      `     actual sha256 (on disk):      ${hashes.d}`,
      "✓  e@1.0.0   platform-independent",
    ]);
    assert.match(checklist, /^Fix: mur install a@1\.0\.0; if it was installed from a file, delete murmur\.lock/m);
  });
});

Deno.test("bytes that do not have the store's own hash are an error that shows both hashes", async () => {
  await withProject(
    { "murmur.yaml": declaring("{ name: a, version: 1.0.0, runtime: skill }") },
    async ({ run, put, store }) => {
      await put(store, await packedArtifact({ name: "a" }));
      await Deno.writeTextFile(`${store.root}/a/1.0.0/a-1.0.0.mur.zip`, "changed");
      const { checklist } = await run();
      assert.match(
        checklist,
        /^✗ {2}a@1\.0\.0 {3}— .*does not have the recorded hash\n {5}expected [0-9a-f]{64}\n {5}actual/,
      );
    },
  );
});

Deno.test("a pulled pin is a warning, an error in an operator's role, and a note when it is not declared", async () => {
  const manifest = declaring(
    "{ name: a, version: 1.0.0, runtime: skill }",
    "{ name: h, version: 1.0.0, runtime: hook }",
    "{ name: g, version: 1.0.0, gateway: { endpoint: 'https://x.example.com', keyless: true } }",
  );
  await withProject({ "murmur.yaml": manifest }, async ({ run, put, store, lock }) => {
    const a = await put(store, await packedArtifact({ name: "a" }));
    const h = await put(store, await packedArtifact({ name: "h", runtime: "hook" }));
    const g = await put(store, await packedArtifact({ name: "g", runtime: "tool" }));
    await updateLock(
      lock,
      () => ({ entries: [pin("a", a, pulled), pin("h", h, pulled), pin("g", g, pulled), pin("extra", HASH, pulled)] }),
    );
    const { checklist } = await run();
    assert.deepEqual(checklist.split("\n").slice(0, 4), [
      `⚠  a@1.0.0   platform-independent   — pulled at runtime by session ${SESSION}`,
      `✗  h@1.0.0   — murmur.lock pins 'h' from a runtime pull by session ${SESSION}; murmur.yaml declares it with runtime: hook`,
      `✗  g@1.0.0   — murmur.lock pins 'g' from a runtime pull by session ${SESSION}; murmur.yaml declares it with gateway:`,
      `·  extra@1.0.0   pulled at runtime by session ${SESSION} — not declared in murmur.yaml, so mur run does not stage it`,
    ]);
  });
});

const leb = (value: number): number[] => value < 128 ? [value] : [(value & 127) | 128, ...leb(value >>> 7)];

/** A component that imports the named instances. */
function importing(...names: string[]): Uint8Array {
  const body = [
    names.length,
    ...names.flatMap((name) => [0x00, name.length, ...new TextEncoder().encode(name), 0x05, 0]),
  ];
  return Uint8Array.from([0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00, 10, ...leb(body.length), ...body]);
}

Deno.test("a declared artifact built against an interface that is not served fails, an undeclared one is W-REG-003", async () => {
  const tool = (name: string, ...imports: string[]) =>
    packedArtifact({ name, runtime: "tool", files: { "capsule.wasm": importing(...imports) } });
  await withProject(
    { "murmur.yaml": declaring("{ name: stale, version: 1.0.0 }", "{ name: fine, version: 1.0.0 }") },
    async ({ run, put, store, globalStore }) => {
      await put(store, await tool("stale", "murmur:text/chunks@9.0.0", "murmur:nonsense/x@1.0.0"));
      await put(store, await tool("fine", "murmur:text/chunks@0.1.0", "wasi:http/types@0.2.99"));
      await put(globalStore, await tool("old", "murmur:nonsense/x@1.0.0"));
      const context = await run();
      assert.match(
        context.checklist,
        /^✗ {2}stale@1\.0\.0 {3}— built against murmur:text\/chunks@9\.0\.0, this mur serves murmur:text@0\.1\.0 \(\+1 more\)\n✓ {2}fine@1\.0\.0/,
      );
      assert.match(
        context.out(),
        /Interface versions\n {2}stale@1\.0\.0: built against .*\n {2}old@1\.0\.0: built against murmur:nonsense\/x@1\.0\.0, this mur serves no version of murmur:nonsense\n/,
      );
      assert.deepEqual(context.err().match(/warning\[W-REG-003\]: \S+/g), ["warning[W-REG-003]: old@1.0.0:"]);
    },
  );
});

Deno.test("the home's entries are listed with their modes, wide ones below them and as W-SEC-028", async () => {
  await withProject({ "murmur.yaml": SCRIPT }, async ({ run, home }) => {
    await writeFiles(home, { ".murmur/config.yaml": "", ".murmur/conversations/a/b/c.json": "", ".murmur/notes": "" });
    for (
      const [path, mode] of [
        ["config.yaml", 0o640],
        ["conversations", 0o700],
        ["conversations/a", 0o700],
        ["conversations/a/b", 0o755],
        ["conversations/a/b/c.json", 0o604],
        ["notes", 0o666],
      ] as const
    ) {
      await Deno.chmod(`${home}/.murmur/${path}`, mode);
    }
    const context = await run();
    const block = context.out().slice(
      context.out().indexOf("Murmur home"),
      context.out().indexOf("Filesystem preopens"),
    );
    assert.match(
      block,
      new RegExp(
        `^Murmur home \\(${home}/\\.murmur\\)\n {2}\\.: 0700 {3}expected owner-only\n {2}config\\.yaml: 0640 {3}expected owner-only\n {4}wider than 0600: ${home}/\\.murmur/config\\.yaml is 0640\n {2}artifacts: absent\n`,
      ),
    );
    assert.match(
      block,
      /conversations: 0700 {3}expected owner-only\n {4}wider than 0700: \S+\/a\/b is 0755\n {4}wider than 0600: \S+c\.json is 0604\n/,
    );
    assert.match(block, /\n {2}notes: 0666\n/);
    assert.equal(
      context.err().match(/warning\[W-SEC-028\]: \S+ is open to others \(mode 0\d+\): chmod 0\d+ /g)?.length,
      3,
    );
    assert.equal(context.status, 0);
  });
});

Deno.test("at most twenty wide paths are shown below an entry; a home that cannot be read is told so", async () => {
  await withProject({ "murmur.yaml": SCRIPT }, async ({ run, home }) => {
    for (let index = 0; index < 25; index++) await writeFiles(home, { [`.murmur/spend/day${index}.jsonl`]: "" });
    await Deno.chmod(`${home}/.murmur/spend`, 0o700);
    for (let index = 0; index < 25; index++) await Deno.chmod(`${home}/.murmur/spend/day${index}.jsonl`, 0o644);
    const context = await run();
    assert.equal(context.out().match(/wider than 0600/g)?.length, 20);
    assert.match(context.out(), /\n {4}and 5 more wider than expected\n/);
  });
  const absent = await inspectHome(murmurHomeAt("/nonexistent"));
  assert.ok(absent.every((entry) => entry.state.kind === "absent"));
});

Deno.test("the door line says who may call, and --bind off loopback warns on stdout", async () => {
  const agent = (more = "") => `${AGENT}artifacts:\n  - ${DRIVER}\n${more}`;
  await withProject({ "murmur.yaml": agent() }, async ({ run, directory }) => {
    assert.match((await run()).out(), /\ndoor: public \(no network\.authentication\)\n/);
    const bound = await run({ bind: "0.0.0.0" });
    assert.match(bound.out(), /\nwarning\[W-SEC-032\]: the door is bound to 0\.0\.0\.0/);
    assert.ok(!bound.err().includes("W-SEC-032"));
    assert.ok(!(await run({ bind: "127.0.0.1" })).out().includes("W-SEC-032"));
    await writeFiles(directory, {
      "murmur.yaml": agent(
        "network: { authentication: { scheme: bearer, credentials: { ci: { scopes: [SendMessage, GetTask] } } } }\n",
      ),
    });
    const closed = await run({ bind: "0.0.0.0" });
    assert.match(closed.out(), /\ndoor: bearer — operator, ci \(SendMessage, GetTask\)\n/);
    assert.ok(!closed.out().includes("W-SEC-032"));
    await writeFiles(directory, { "murmur.yaml": SCRIPT });
    assert.ok(!(await run({ bind: "0.0.0.0" })).out().includes("door:"));
  });
});

Deno.test("preopens, read-only paths and the install grant are shown as declared", async () => {
  const manifest = declaring(
    "{ name: t, version: 1.0.0, capabilities: { filesystem: { scope: out } } }",
    "{ name: h, version: 1.0.0, runtime: hook }",
    "{ name: s, version: 1.0.0, runtime: skill }",
  ) + "capabilities: { filesystem: { read_only: [docs] }, install: { skill: ['notes-*'] } }\n";
  await withProject({ "murmur.yaml": manifest }, async ({ run }) => {
    const out = (await run()).out();
    assert.match(
      out,
      /\nFilesystem preopens\n {2}t \(tool\): one subtree .*scope: out\n {2}h \(hook\): no directory\n\n/,
    );
    assert.match(out, /\nRead-only paths\n {2}docs\n\n/);
    assert.match(out, /\nInstall grant\n {2}install skill: notes-\*\n {2}install tool: {2}<none>\n\n/);
  });
});

Deno.test("a floor this host does not meet is reported with the reason and does not change the status", async () => {
  await withProject({ "murmur.yaml": `${SCRIPT}capabilities: { containment: sealed }\n` }, async ({ run }) => {
    const context = await run();
    const met = !context.out().includes("not met");
    assert.match(
      context.out(),
      /^AppArmor \/ user namespaces\n {2}helper: +\/.*\n {2}profile: .*\n {2}userns grant: [\w/]+\n\nContainment\n {2}host tier: +\S+ \(class \w+\)\n {2}applied tier: +\S+ \(class \w+\)\n {2}declared floor: +sealed/,
    );
    assert.match(context.out(), /\n {2}aggregate limits: not-required\n/);
    if (!met) assert.match(context.out(), /\n {2}blocker: +\w+: /);
    assert.equal(/^\[mur doctor\] warning\[E-CAP-003\]/m.test(context.err()), !met);
    assert.equal(context.status, 0);
  });
});

Deno.test("what a run would refuse or warn about for its commands is told ahead of it", async () => {
  const shell = "shell: { allow: [sh], staged_runtime: [{ binary: sh, source_path: /opt/x, pin: '1' }] }";
  await withProject({ "murmur.yaml": `${SCRIPT}capabilities: { ${shell} }\n` }, async ({ run, home, directory }) => {
    await writeFiles(home, { ".murmur/config.yaml": "host_paths: [{ path: /etc, access: read }]\n" });
    await Deno.symlink(`${directory}/murmur.yaml`, `${directory}/roster.yaml`);
    const context = await run();
    assert.match(context.err(), /^\[mur doctor\] warning\[E-CAP-004\]: .*'sh'.*'advisory'/m);
    assert.match(context.err(), /^\[mur doctor\] warning\[E-IO-003\]: .*host_paths\[0\], '\/etc'/m);
    // A link in the place of a trusted name cannot be held by any host.
    assert.match(context.err(), /warning\[W-SEC-033\]: .*\/roster\.yaml/);
    assert.match(context.out(), /\n {2}not guarded with --workdir at the project: .*\/roster\.yaml\n/);
  });
});

Deno.test("a capability that a run refuses is a warning ahead of it", async () => {
  await withProject({ "murmur.yaml": `${SCRIPT}capabilities: { filesystem: { scope: ../up } }\n` }, async ({ run }) => {
    const context = await run();
    assert.match(
      context.err(),
      /\[mur doctor\] warning\[E-CAP-002\]: .*; mur run refuses this capsule \(\S+#e-cap-002\)\n/,
    );
    assert.equal(context.status, 0);
  });
});

Deno.test("what a run refuses for its floor, its scripts and the operator's directories is told, each by itself", async () => {
  await withProject({
    "murmur.yaml":
      `${SCRIPT}capabilities: { shell: { allow: [lint], staged_runtime: [{ binary: lint, source_path: /x, pin: a }] } }\n`,
  }, async ({ run, home, directory }) => {
    await Deno.writeTextFile(`${home}/.murmur/config.yaml`, "host_paths: [{ path: /nowhere/at/all, access: read }]\n");
    await writeFiles(directory, { "bin/lint": "#!/usr/bin/env python3\n" });
    await Deno.chmod(`${directory}/bin/lint`, 0o755);
    const refusals = (context: TestContext) =>
      [
        ...context.err().matchAll(
          /^\[mur doctor\] warning\[(E-[A-Z]+-\d+)\]: .*; mur run refuses this capsule \(\S+\)$/gm,
        ),
      ]
        .map(([, code]) => code);
    const advisory = await run({}, { PATH: `${directory}/bin` });
    assert.deepEqual(refusals(advisory), ["E-CAP-004", "E-IO-003"]);
    assert.match(advisory.err(), /config\.yaml: host_paths\[0\], '\/nowhere\/at\/all', does not exist/);
    assert.match(advisory.err(), /'advisory'/);
    assert.equal(advisory.status, 0);

    await Deno.writeTextFile(`${home}/.murmur/config.yaml`, "containment: sealed\n");
    await writeFiles(directory, { "murmur.yaml": `${SCRIPT}capabilities: { shell: { allow: [lint] } }\n` });
    const sealed = await run({}, { PATH: `${directory}/bin` });
    assert.deepEqual(refusals(sealed).filter((code) => code !== "E-CAP-003"), ["E-CAP-006"]);
    assert.equal(sealed.status, 0);
  });
});

Deno.test("unset variables of env.allow and of references are E-CAP-014 and name the capsule; .env and empty values count as set", async () => {
  const manifest = `${AGENT}artifacts:\n  - ${
    DRIVER.replace("keyless: true", "api_key: '${API_KEY}'")
  }\ncapabilities: { env: { allow: [FROM_SHELL, FROM_FILE, NOWHERE] } }\n`;
  await withProject({ "murmur.yaml": manifest, ".env": "FROM_FILE=\n" }, async ({ run, home }) => {
    const context = await run({}, { FROM_SHELL: "secret-value" });
    assert.match(
      context.out(),
      /\nEnvironment requirements\n {2}✓ FROM_SHELL {3}set {3}— c@1\n {2}✓ FROM_FILE {3}set {3}— c@1\n {2}✗ NOWHERE {3}unset {3}— c@1\n {2}✗ API_KEY {3}unset {3}— c@1\n/,
    );
    assert.deepEqual(context.err().match(/error\[E-CAP-014\]: \w+/g), [
      "error[E-CAP-014]: NOWHERE",
      "error[E-CAP-014]: API_KEY",
    ]);
    assert.equal(context.status, 1);
    assert.ok(!`${context.out()}${context.err()}`.includes("secret-value"));
    await writeFiles(home, { ".murmur/config.yaml": "credentials: { API_KEY: hidden-key }\n" });
    await Deno.chmod(`${home}/.murmur/config.yaml`, 0o644);
    const configured = await run({}, { FROM_SHELL: "", NOWHERE: "x" });
    assert.ok(!configured.out().includes("API_KEY"));
    assert.equal(configured.err().match(/W-SEC-028/g)?.length, 1);
    assert.ok(!`${configured.out()}${configured.err()}`.includes("hidden-key"));
    await Deno.remove(`${home}/.murmur/config.yaml`);
    const fromShell = await run({}, { API_KEY: "k", NOWHERE: "x", FROM_SHELL: "x" });
    assert.match(fromShell.err(), /W-SEC-027/);
  });
});

Deno.test("a line of .env that is no assignment is a finding, not a failure", async () => {
  await withProject({ "murmur.yaml": SCRIPT, ".env": "A=1\nnonsense\n" }, async ({ run }) => {
    const { checklist, status } = await run();
    assert.match(checklist, /^✗ {2}\.env {3}— .*2/);
    assert.equal(status, 1);
  });
});

Deno.test("the spawn closure: what children need, what a spawner lacks, what could not be inspected, a cycle", async () => {
  const capsule = (name: string, version: string, body: string) =>
    packedArtifact({ name, version, runtime: "capsule", manifest: `execution: static\n${body}`, files: {} });
  const root =
    `${SCRIPT}capabilities: { spawn: { allow: [local/child, local/gone, local/many, local/pinned] }, env: { allow: [SHARED] } }\n`;
  await withProject({ "murmur.yaml": root }, async ({ run, put, store, globalStore, lock }) => {
    await put(
      store,
      await capsule(
        "child",
        "1",
        "capabilities: { spawn: { allow: [local/grand] }, env: { allow: [SHARED, EXTRA] } }\n",
      ),
    );
    await put(globalStore, await capsule("grand", "2", "capabilities: { spawn: { allow: [local/child] } }\n"));
    for (const version of ["1", "2"]) await put(store, await capsule("many", version, ""));
    for (const version of ["1", "2"]) await put(store, await capsule("pinned", version, ""));
    await updateLock(lock, () => ({ entries: [pin("pinned", HASH, { version: "2" })] }));
    const context = await run({}, { SHARED: "x", EXTRA: "x" });
    const out = context.out();
    assert.match(out, /✓ SHARED {3}set {3}— c@1, child@1\n {2}✓ EXTRA {3}set {3}— child@1\n/);
    assert.match(out, /declarations mur-roost will refuse:\n {4}child@1 declares EXTRA, which c@1 lacks\n/);
    assert.match(out, /child@1 declares SHARED, which grand@2 lacks\n/);
    assert.match(
      out,
      /could not inspect 2 of 5 capsules in the spawn closure:\n {4}local\/gone: in neither store\n {4}local\/many: several versions \(1, 2\) and no pin\n/,
    );
    assert.match(out, /spawn\.allow cycle: child@1 → grand@2 → child@1\n/);
    assert.equal(context.err().match(/warning\[W-REG-002\]/g)?.length, 2);
    assert.match(context.err(), /error\[E-CAP-015\]: child@1 declares env\.allow EXTRA, which c@1 does not hold/);
    assert.match(
      context.err(),
      /roost: no mur-roost on PATH.*\nroost: MURMUR_ROOST_URL is not set \(E-RUN-019 at run\)/,
    );
    assert.equal(context.status, 1);
  });
});

Deno.test("a daemon that answers and one that does not", async () => {
  await withProject({ "murmur.yaml": `${SCRIPT}capabilities: { spawn: { allow: [local/x] } }\n` }, async ({ run }) => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const url = `http://127.0.0.1:${listener.addr.port}`;
    assert.ok(!(await run({}, { MURMUR_ROOST_URL: url })).err().includes("nothing answers"));
    listener.close();
    assert.match((await run({}, { MURMUR_ROOST_URL: url })).err(), /roost: nothing answers at 127\.0\.0\.1:/);
  });
});

Deno.test("a roster is named as not checked, and alone in a folder it is all that is said", async () => {
  await withProject({ "roster.yaml": "roster_version: 1\n" }, async ({ run }) => {
    const context = await run();
    assert.match(context.out(), /^Roster\n {2}file: \S+\/roster\.yaml\n {2}not checked: /);
    assert.equal(context.status, 1);
  });
});

Deno.test("a cycle is found wherever it starts, and none where there is none", () => {
  const edges = (map: Record<string, string[]>) => new Map(Object.entries(map));
  assert.equal(findCycle(edges({ a: ["b", "c"], b: ["d"], c: ["d"] })), null);
  assert.deepEqual(findCycle(edges({ a: ["b"], b: ["c"], c: ["b"] })), ["b", "c", "b"]);
  assert.deepEqual(findCycle(edges({ a: ["a"] })), ["a", "a"]);
});

Deno.test("an installed profile that is another's is told with both hashes", async () => {
  await withTempDir(async (directory) => {
    const path = `${directory}/mur-sealed`;
    assert.deepEqual(await profileLines(path), [`profile:      ${path} is not installed`]);
    await Deno.writeTextFile(path, profileText());
    assert.deepEqual(await profileLines(path), [`profile:      ${path} is installed`]);
    await Deno.writeTextFile(path, `${profileText()}# changed\n`);
    const [said, installed, shipped] = await profileLines(path);
    assert.match(said!, /is not the one of this mur: sudo mur setup writes it$/);
    assert.match(installed!, /^ {2}installed: {2}sha256 [0-9a-f]{64}$/);
    assert.match(shipped!, /^ {2}shipped: {4}sha256 [0-9a-f]{64}$/);
    assert.notEqual(installed!.slice(-64), shipped!.slice(-64));
  });
});
