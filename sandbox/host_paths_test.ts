import assert from "node:assert/strict";
import fc from "fast-check";
import { isAtOrBelow } from "../base/paths.ts";
import {
  type FoundHostPath,
  type HostPathSession,
  judgeHostPaths,
  resolveHostPaths,
  sessionExecutables,
} from "./host_paths.ts";
import { resolveShellAllow } from "./shell_allow.ts";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";

const SESSION: HostPathSession = {
  file: "config.yaml",
  home: "/home/a",
  murmurHome: "/home/a/.murmur",
  workdir: "/home/a/project/workdir",
  executables: ["/opt/tools/bin/jq", "/opt/venv/lib"],
};

function found(canonical: string | null, access: "read" | "read-write" = "read", isDirectory = true): FoundHostPath {
  return { entry: { written: canonical ?? "/none", path: canonical ?? "/none", access }, canonical, isDirectory };
}

Deno.test("an entry that may be granted keeps its access and tells the credentials it reaches", () => {
  const grants = judgeHostPaths(
    [found("/data/models"), found("/home/a/.config", "read-write"), found("/home/a/project", "read-write")],
    SESSION,
  );
  assert.deepEqual(grants, [
    { path: "/data/models", access: "read", credentials: [] },
    {
      path: "/home/a/.config",
      access: "read-write",
      credentials: ["/home/a/.config/gcloud", "/home/a/.config/gh"],
    },
    { path: "/home/a/project", access: "read-write", credentials: [] },
  ]);
  const [home] = judgeHostPaths([found("/home")], { ...SESSION, executables: [] });
  assert.ok(home!.credentials.includes("/home/a/.ssh") && home!.credentials.includes("/home/a/.murmur/config.yaml"));
  assert.deepEqual(judgeHostPaths([found("/home/a/.aws/sso/cache")], SESSION)[0]!.credentials, ["/home/a/.aws"]);
});

Deno.test("an entry that may not be granted is named with its index, its path as written and the reason", () => {
  const rows: readonly [FoundHostPath, RegExp][] = [
    [found(null), /'\/none', does not exist/],
    [found("/data/file", "read", false), /is not a directory/],
    [found("/"), /is the root directory/],
    [found("/usr/share"), /is a system path \(\/usr\)/],
    [found("/proc/1/root"), /is a system path \(\/proc\)/],
    [found("/run"), /is a system path \(\/run\)/],
    [found("/etc", "read-write"), /is a system path/],
    [found("/first"), /is the same directory as another entry/],
    [found("/home/a/.murmur", "read-write"), /reaches \/home\/a\/\.murmur/],
    [found("/home/a/.murmur/records", "read-write"), /reaches \/home\/a\/\.murmur/],
    [found("/home", "read-write"), /reaches \/home\/a\/\.murmur/],
    [found("/home/a/project/workdir"), /lies in the work folder/],
    [found("/home/a/project/workdir/ses_1/out"), /lies in the work folder/],
    [found("/opt"), /holds \/opt\/tools\/bin\/jq, which this session may execute/],
    [found("/opt/venv"), /holds \/opt\/venv\/lib/],
    [found("/opt/venv/lib/site-packages", "read-write"), /is read-write in \/opt\/venv\/lib/],
  ];
  for (const [each, says] of rows) {
    assert.throws(() => judgeHostPaths([found("/first"), each], SESSION), (error) => {
      const { code, message } = error as { code: string; message: string };
      assert.equal(code, "E-IO-003");
      assert.ok(message.startsWith(`config.yaml: host_paths[1], '${each.entry.written}', `), message);
      assert.match(message, says);
      return true;
    });
  }
  // Names that only look alike, and what only reading reaches.
  for (const path of ["/users", "/etcetera", "/home/a/.murmur2", "/home/a/project/workdir2", "/opt/tools/bin/jq2"]) {
    assert.doesNotThrow(() => judgeHostPaths([found(path, "read-write")], SESSION), path);
  }
  assert.doesNotThrow(() => judgeHostPaths([found("/home/a/.murmur/records"), found("/opt/venv/lib/x")], SESSION));
});

Deno.test("whatever is granted read-write holds nothing the session may execute and nothing of the runtime's", () => {
  const part = fc.constantFrom("home", "a", ".murmur", "records", "opt", "venv", "lib", "tools", "bin", "jq", "x");
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => `/${parts.join("/")}`);
  fc.assert(fc.property(path, (canonical) => {
    try {
      judgeHostPaths([found(canonical, "read-write")], SESSION);
    } catch {
      return;
    }
    for (const guarded of [SESSION.murmurHome, ...SESSION.executables]) {
      assert.ok(!isAtOrBelow(guarded, canonical) && !isAtOrBelow(canonical, guarded), canonical);
    }
  }));
});

Deno.test("entries are judged by what they are on the host, links and all", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  try {
    for (const name of ["home/.murmur", "data", "work", "bin"]) {
      await Deno.mkdir(`${root}/${name}`, { recursive: true });
    }
    await Deno.writeTextFile(`${root}/bin/tool`, "#!/bin/sh\n", { mode: 0o755 });
    await Deno.writeTextFile(`${root}/file`, "");
    await Deno.symlink("data", `${root}/link`);
    await Deno.symlink("/usr", `${root}/system`);
    await Deno.symlink("home/.murmur", `${root}/keys`);
    await Deno.symlink(`${root}/work`, `${root}/project`);
    const { manifest } = parseCapsuleManifest(
      "name: a\nversion: '1'\ncapabilities: { shell: { allow: [tool, absent] } }\n",
      "m",
    );
    const session: HostPathSession = {
      file: "config.yaml",
      home: `${root}/home`,
      murmurHome: `${root}/home/.murmur`,
      workdir: `${root}/project/not/made/yet`,
      executables: sessionExecutables(
        manifest.capabilities,
        resolveShellAllow(manifest.capabilities.shellAllow, `${root}/bin`),
      ),
    };
    const resolve = (...paths: (readonly [string, "read" | "read-write"])[]) =>
      resolveHostPaths(paths.map(([name, access]) => ({ written: name, path: `${root}/${name}`, access })), session);
    assert.deepEqual(await resolve(["link", "read-write"]), [
      { path: `${root}/data`, access: "read-write", credentials: [] },
    ]);
    const refusals: readonly [Parameters<typeof resolve>, RegExp][] = [
      [[["nowhere", "read"]], /'nowhere', does not exist/],
      [[["file", "read"]], /is not a directory/],
      [[["system", "read"]], /is a system path/],
      [[["data", "read"], ["link", "read"]], /host_paths\[1\], 'link', is the same directory/],
      [[["keys", "read-write"]], /reaches/],
      [[["bin", "read"]], /bin\/tool, which this session may execute/],
      [[["bin/tool/x", "read"]], /does not exist/],
    ];
    for (const [paths, message] of refusals) {
      await assert.rejects(resolve(...paths), { code: "E-IO-003", message });
    }
    // The work folder is not there yet, and is reached through a link.
    await Deno.mkdir(`${root}/work/not/made/yet/sub`, { recursive: true });
    await assert.rejects(resolve(["work/not/made/yet/sub", "read"]), { message: /lies in the work folder/ });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
