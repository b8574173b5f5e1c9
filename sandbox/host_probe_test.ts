import assert from "node:assert/strict";
import { checkoutHelper } from "./confine_helper.ts";
import { parseHostProbe, probeHost } from "./host_probe.ts";

const LINE = {
  landlock_abi: 7,
  landlock: true,
  netns: "ok",
  sealed: "pivot-denied",
  mountns: "mount-denied",
  pidns: true,
  own_proc: false,
  sampling: true,
  apparmor: "withheld",
};

Deno.test("the helper's line is read whole or not at all", () => {
  assert.deepEqual(parseHostProbe(JSON.stringify(LINE)), {
    landlockAbi: 7,
    landlock: true,
    network: "ok",
    sealed: "pivot-denied",
    privateMounts: "mount-denied",
    pidNamespace: true,
    ownProc: false,
    sampling: true,
    usernsGrant: "withheld",
  });
  for (const key of Object.keys(LINE)) {
    assert.equal(parseHostProbe(JSON.stringify({ ...LINE, [key]: undefined })), null, key);
    assert.equal(parseHostProbe(JSON.stringify({ ...LINE, [key]: "maybe" })), null, key);
    assert.equal(parseHostProbe(JSON.stringify({ ...LINE, [key]: -1 })), null, key);
  }
  for (const line of ["", "{", "null", "[]", "7"]) assert.equal(parseHostProbe(line), null);
});

Deno.test("the probe of this host agrees with what other programs find", async () => {
  const probe = await probeHost(await checkoutHelper());
  const works = async (program: string, ...args: string[]) => {
    const output = await new Deno.Command(program, { args, stdin: "null", stderr: "null" }).output().catch(() => null);
    return output?.success ?? null;
  };
  const network = await works("unshare", "-Urn", "true");
  if (network !== null) assert.equal(probe.network === "ok", network);
  const mounts = await works("unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /tmp");
  if (mounts !== null) assert.equal(probe.sealed === "ok", mounts);
  const pids = await works("unshare", "-Urpf", "true");
  if (pids !== null) assert.equal(probe.pidNamespace, pids);
  const own = await works("unshare", "-Urmpf", "sh", "-c", "mount -t proc none /proc");
  if (own !== null) assert.equal(probe.ownProc, own);
  assert.equal(probe.landlock, probe.landlockAbi > 0);
  assert.equal(probe.sampling, Deno.readTextFileSync(`/proc/${Deno.pid}/task/${Deno.pid}/children`) !== null);
  const apparmor = await Deno.readTextFile("/sys/module/apparmor/parameters/enabled").catch(() => "N");
  assert.equal(probe.usernsGrant === "apparmor_absent", !apparmor.startsWith("Y"));
});

Deno.test("probing twice says the same, and probes nothing in this process", async () => {
  const helper = await checkoutHelper();
  const namespaces = () => ["user", "net", "mnt", "pid"].map((kind) => Deno.readLinkSync(`/proc/self/ns/${kind}`));
  const before = namespaces();
  const [one, two] = await Promise.all([probeHost(helper), probeHost(helper)]);
  assert.deepEqual(one, two);
  assert.deepEqual(namespaces(), before);
});

Deno.test("where namespaces are used up the probe says so", async () => {
  if (Deno.uid() !== 0) return console.log("only root can lower the number of namespaces: not tested");
  const dir = await Deno.makeTempDir();
  // In a user namespace of its own, whose limits are its own as well.
  const limited = async (limit: string) => {
    const path = `${dir}/${limit}`;
    await Deno.writeTextFile(
      path,
      `#!/bin/sh\nexec unshare -Ur sh -c 'echo 0 > /proc/sys/user/${limit} && exec "$@"' sh ${await checkoutHelper()} "$@"\n`,
      { mode: 0o755 },
    );
    return await probeHost(path);
  };
  try {
    const users = await limited("max_user_namespaces");
    assert.equal(users.network, "unsupported");
    assert.equal(users.sealed, "unsupported");
    assert.equal(users.privateMounts, "unsupported");
    assert.equal(users.pidNamespace, false);
    assert.equal(users.landlock, true);
    const networks = await limited("max_net_namespaces");
    assert.equal(networks.network, "unsupported");
    assert.equal(networks.sealed, "ok");
    const mounts = await limited("max_mnt_namespaces");
    assert.equal(mounts.network, "ok");
    assert.equal(mounts.sealed, "unsupported");
    assert.equal(mounts.privateMounts, "unsupported");
    const pids = await limited("max_pid_namespaces");
    assert.equal(pids.pidNamespace, false);
    assert.equal(pids.sealed, "ok");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a helper that can't be asked is an error", async () => {
  await assert.rejects(probeHost("/nothing/here"), { code: "E-IO-003", message: /can't be run/ });
  await assert.rejects(probeHost("/bin/true"), { code: "E-IO-003", message: /does not tell/ });
  await assert.rejects(probeHost("/bin/false"), { code: "E-IO-003" });
});
