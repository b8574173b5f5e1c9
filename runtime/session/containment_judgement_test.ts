import assert from "node:assert/strict";
import type { ContainmentClass } from "../../artifact/manifest/capsule_manifest.ts";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { murmurHomeAt } from "../../base/murmur_home.ts";
import { probed } from "../../sandbox/testing/host_readings.ts";
import { withTempDir } from "../../tests/support/cli_context.ts";
import { type ContainmentInputs, judgeContainment } from "./containment_judgement.ts";
import { trustedPaths } from "./trusted_paths.ts";

interface Case extends Partial<ContainmentInputs> {
  readonly capabilities?: string;
  readonly floor?: ContainmentClass;
}

/** Judges in a project of its own; `inputs` is given its directory. */
async function judged(
  inputs: (root: string) => Case | Promise<Case>,
  work: (judgement: Awaited<ReturnType<typeof judgeContainment>>, root: string) => void | Promise<void>,
): Promise<void> {
  await withTempDir(async (made) => {
    const root = await Deno.realPath(made);
    await Deno.mkdir(`${root}/project`);
    await Deno.mkdir(`${root}/home/.murmur`, { recursive: true });
    const { capabilities = "{ shell: { allow: [sh] } }", ...given } = await inputs(root);
    const file = `${root}/project/murmur.yaml`;
    const { manifest } = parseCapsuleManifest(`name: a\nversion: "1"\ncapabilities: ${capabilities}\n`, file);
    await Deno.writeTextFile(file, manifest.text);
    const home = murmurHomeAt(`${root}/home`);
    const judgement = await judgeContainment({
      manifest,
      floor: "advisory",
      host: probed(),
      home,
      path: "/usr/bin:/bin",
      workdir: null,
      workdirRoot: `${root}/project/workdir`,
      hostPaths: [],
      hostPathFile: home.config,
      trusted: trustedPaths(manifest, {
        manifest: file,
        manifestDir: `${root}/project`,
        workspaceRoot: `${root}/project`,
        storeRoot: null,
        cwd: `${root}/project`,
        searched: [],
        components: [],
        murmurHome: home.root,
        program: [],
      }),
      hostReported: false,
      nativeTools: [],
      ...given,
    });
    await work(judgement, root);
  });
}
const codes = (judgement: { readonly refusals: readonly { readonly code: string }[] }) =>
  judgement.refusals.map(({ code }) => code);

Deno.test("the project as work folder: its trusted files are held, and its directory still achieves scoped", async () => {
  await judged((root) => ({ workdir: `${root}/project` }), ({ decision, guards, refusals }, root) => {
    assert.deepEqual(refusals, []);
    assert.equal(decision.achieved, "scoped");
    assert.deepEqual(decision.unguarded, []);
    assert.ok(decision.guarded.includes(`${root}/project/murmur.yaml`));
    assert.deepEqual(guards.placeholders.map(({ path }) => path.slice(root.length)).sort(), [
      "/project/.env",
      "/project/.murmur",
      "/project/murmur.lock",
      "/project/roster.yaml",
    ]);
  });
});

Deno.test("a work folder under another name, or with a link in a trusted place, is judged by where things are", async () => {
  await judged(async (root) => {
    await Deno.symlink("project", `${root}/alias`);
    await Deno.writeTextFile(`${root}/elsewhere`, "");
    await Deno.symlink("../elsewhere", `${root}/project/.env`);
    return { workdir: `${root}/alias`, floor: "scoped" };
  }, (judgement, root) => {
    assert.equal(judgement.workdir, `${root}/project`);
    assert.deepEqual(judgement.decision.unguarded, [`${root}/project/.env`]);
    assert.deepEqual(codes(judgement), ["E-CAP-003"]);
    assert.match(judgement.refusals[0]!.message, /project\/\.env/);
    assert.ok(judgement.launchWarnings.some(({ code }) => code === "W-SEC-033"));
  });
});

Deno.test("a work folder that holds the session's own directories caps the class, and the hidden home is named", async () => {
  await judged((root) => ({ workdir: `${root}/home` }), ({ decision }, root) => {
    assert.equal(decision.achieved, "advisory");
    assert.match(decision.caps[0]!.reason, /sessions, which holds the session's own directories/);
    assert.deepEqual(decision.unguarded, [`${root}/home/.murmur`]);
  });
});

Deno.test("without private mounts every trusted file in the work folder is named, unless nothing starts commands", async () => {
  const host = probed({ privateMounts: "mount-denied", sealed: "mount-denied" });
  await judged((root) => ({ workdir: `${root}/project`, host }), ({ decision }, root) => {
    assert.ok(decision.unguarded.includes(`${root}/project/murmur.yaml`));
    assert.deepEqual(decision.guarded, []);
  });
  await judged((root) => ({ workdir: `${root}/project`, host, capabilities: "{}" }), ({ decision, commands }) => {
    assert.equal(commands, false);
    assert.deepEqual(decision.unguarded, []);
  });
  await judged(
    (root) => ({ workdir: `${root}/project`, host, capabilities: "{}", nativeTools: ["t"] }),
    ({ decision }) => {
      assert.ok(decision.unguarded.length > 0, "a native tool is a command too");
    },
  );
});

Deno.test("refusals come in the order of the checks", async () => {
  await judged(async (root) => {
    await Deno.mkdir(`${root}/bin`);
    await Deno.writeTextFile(`${root}/bin/script`, "#!/usr/bin/env python3\n");
    await Deno.chmod(`${root}/bin/script`, 0o755);
    const staged = `staged_runtime: [{ binary: sh, source_path: ${root}/home, pin: x }]`;
    return {
      capabilities: `{ shell: { allow: [sh, script], ${staged} }, resources: { cgroup_pids_max: 4 } }`,
      path: `${root}/bin:/usr/bin:/bin`,
      floor: "sealed",
      host: probed({ sealed: "denied", network: "denied" }),
      hostPaths: [{ written: "/etc", path: "/etc", access: "read" }],
    };
  }, (judgement) => {
    const found = codes(judgement).filter((code) => code !== "E-RUN-012");
    assert.deepEqual(found, ["E-CAP-003", "E-CAP-006", "E-CAP-005", "E-IO-003", "E-MAN-003"]);
    assert.deepEqual(judgement.hostPaths, []);
  });
  await judged(() => ({
    capabilities: "{ shell: { allow: [sh], staged_runtime: [{ binary: sh, source_path: /opt/x, pin: x }] } }",
  }), (judgement) => {
    assert.deepEqual(codes(judgement), ["E-CAP-004"]);
    assert.match(judgement.refusals[0]!.message, /'sh'.*'advisory'/);
  });
});

Deno.test("no runtime grant shows the home of keys and records, under no name", async () => {
  for (const at of ["/home", "/home/.murmur", "/home/.murmur/artifacts", "/link", ""]) {
    await judged(async (root) => {
      await Deno.symlink("home", `${root}/link`);
      const dirs = `[{ path: ${root}${at}, list_dir: true }]`;
      return { capabilities: `{ shell: { allow: [sh], interpreter_runtime: [{ binary: sh, dirs: ${dirs} }] } }` };
    }, (judgement) => {
      assert.deepEqual(codes(judgement), ["E-MAN-003"], at);
      assert.match(judgement.refusals[0]!.message, /interpreter_runtime\[0\]\.dirs\[0\]\.path/);
      assert.ok(judgement.refusals[0]!.place !== undefined);
    });
  }
});

Deno.test("off Linux the class is advisory, and no floor above it is met", async () => {
  await judged(() => ({ host: { kind: "foreign", platform: "darwin" } }), ({ decision, aggregate, launchWarnings }) => {
    assert.deepEqual([decision.tier, decision.achieved, aggregate.mechanism], ["env", "advisory", "none"]);
    assert.deepEqual(launchWarnings.map(({ code }) => code), ["W-SEC-001", "W-SEC-010"]);
  });
  await judged(() => ({ host: { kind: "foreign", platform: "darwin" }, floor: "scoped" }), (judgement) => {
    assert.deepEqual(codes(judgement), ["E-CAP-003"]);
  });
});

Deno.test("network files are granted on the full tier to who may use the network", async () => {
  const network = "{ shell: { allow: [sh] }, network: { allow: [example.com] } }";
  const files = async (given: Case) => {
    let count = 0;
    await judged(
      () => given,
      ({ hostFiles }) => void (count = hostFiles.filter(({ purpose }) => purpose !== "program configuration").length),
    );
    return count;
  };
  assert.ok(await files({ capabilities: network }) > 0);
  assert.equal(await files({}), 0);
  assert.equal(await files({ capabilities: network, floor: "sealed" }), 0);
  assert.equal(await files({ capabilities: network, host: probed({ landlock: false }) }), 0);
});
