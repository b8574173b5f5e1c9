/**
 * The five endpoints of `mur-roost` from outside: orders of checks, statuses, and every refusal byte for byte as the seed has
 * it (seed roost "Endpoints", "Refusals", "Delegation bounds", "Spawn envelope").
 */
import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { RoostDaemon, RoostHome, type RoostReply } from "../../roost/testing/daemon.ts";

// The seed's texts, copied.
const IDENTITY =
  "not authorised: this daemon answers only a credential it minted for a running session, and an approval it minted for that same session";
const EXPIRED =
  "this spawn approval has passed its expiry; an approval is valid for 60 seconds from the POST /spawn that granted it";
const REPLAYED =
  "this spawn approval has already been redeemed; an approval covers one launch, so ask POST /spawn for another";
const DEPTH = (n: number) =>
  `delegation depth bound reached: this daemon allows ${n} levels of delegation below a top-level capsule (--max-depth ${n}), and this session has none left to spend — a capsule whose capabilities.spawn.allow names itself terminates here rather than recursing`;
const CONCURRENCY = (n: number, live: number) =>
  `delegation concurrency bound reached: this daemon allows a capsule ${n} live children at a time (--max-concurrent ${n}), and this session already holds ${live} — wait for one to finish, or raise --max-concurrent`;
const CEILING = (n: number, live: number) =>
  `machine capsule ceiling reached: this daemon allows ${n} live capsules on this host across every formation (--max-live-capsules ${n}), and it is already holding ${live} — this is the host's ceiling rather than this capsule's own --max-concurrent, so narrowing the formation does not help; the same request may be granted once other capsules finish`;

const SPAWNS = "capabilities: { spawn: { allow: [local/child, local/unpublished, local/parent] } }\n";

function assertRefused(reply: RoostReply, status: number, error: string, what = ""): void {
  assert.deepEqual(reply, { status, body: { error } }, what);
}

/** A daemon with `local/parent`, which may spawn `local/child` and itself. */
async function started(args: readonly string[] = [], options: { bounds?: { spawnApproval: number } } = {}) {
  const home = new RoostHome();
  await home.install("parent", SPAWNS);
  await home.install("child");
  const daemon = await RoostDaemon.start(["--spawn-allow", "local/parent", ...args], { home: home.path, ...options });
  return {
    home,
    daemon,
    async [Symbol.asyncDispose]() {
      await daemon[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

Deno.test("registering without an approval: the operator's list, then the registry, then the id", async () => {
  await using at = await started(["--spawn-allow", "local/gone"]);
  const { daemon } = at;
  const id = newId("ses");
  const { status, body } = await daemon.register(id, "parent");
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(body), ["credential"]);
  assert.match(body.credential, /^msc1\.[\w-]+\.[\w-]{43}$/);
  // Not on the list: the same whether or not it is published.
  assertRefused(await daemon.register(newId("ses"), "child"), 403, "capsule 'local/child' is not in --spawn-allow");
  assertRefused(
    await daemon.register(newId("ses"), "unpublished"),
    403,
    "capsule 'local/unpublished' is not in --spawn-allow",
  );
  const gone = await daemon.register(newId("ses"), "gone");
  assert.equal(gone.status, 500);
  assert.match(gone.body.error, /^capsule 'local\/gone@1\.0\.0' could not be resolved from the registry: /);
  assert.equal((await daemon.register(id, "parent", undefined, "9.9.9")).status, 500);
  assertRefused(await daemon.register(id, "parent"), 403, IDENTITY);
  assertRefused(await daemon.register(id, "child"), 403, "capsule 'local/child' is not in --spawn-allow");
  // A session that ended keeps its id.
  await daemon.deregister(body.credential);
  assertRefused(await daemon.register(id, "parent"), 403, IDENTITY);
});

Deno.test("a bare name on the operator's list never matches, and no name is split at a comma", async () => {
  await using at = await started(["--spawn-allow", "child", "--spawn-allow", "local/a,local/child"]);
  assertRefused(await at.daemon.register(newId("ses"), "child"), 403, "capsule 'local/child' is not in --spawn-allow");
  assertRefused(
    await at.daemon.register(newId("ses"), "other/parent"),
    403,
    "capsule 'other/parent' is not in --spawn-allow",
  );
});

Deno.test("an approval that is none is refused and falls back to nothing; the registry is asked first", async () => {
  await using at = await started();
  const { daemon } = at;
  for (const approval of ["", "garbage", "msa1.a.b", "msc1.a.b"]) {
    assertRefused(await daemon.register(newId("ses"), "parent", approval), 403, IDENTITY, approval);
  }
  assert.equal((await daemon.register(newId("ses"), "unpublished", "garbage")).status, 500);
  const parent = await daemon.root("parent");
  const { approval } = (await daemon.spawn(parent.credential, "child")).body;
  // A token of the one kind is none of the other.
  assertRefused(await daemon.register(newId("ses"), "child", parent.credential), 403, IDENTITY);
  assertRefused(await daemon.spawn(approval, "child"), 403, IDENTITY);
  assertRefused(await daemon.deregister(approval), 403, IDENTITY);
  // Nor with its payload changed.
  const [tag, segment, code] = approval.split(".");
  const payload = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(segment, { alphabet: "base64url" })));
  assert.deepEqual(Object.keys(payload), ["v", "sid", "name", "version", "digest", "depth", "exp", "jti"]);
  const edited = new TextEncoder().encode(JSON.stringify({ ...payload, depth: 9 }))
    .toBase64({ alphabet: "base64url", omitPadding: true });
  assertRefused(await daemon.register(newId("ses"), "child", `${tag}.${edited}.${code}`), 403, IDENTITY);
  // A taken id is found before the approval is spent.
  assertRefused(await daemon.register(parent.id, "child", approval), 403, IDENTITY);
  assert.equal((await daemon.register(newId("ses"), "child", approval)).status, 200);
});

Deno.test("bodies that are none are answered 400 before any credential is looked at", async () => {
  await using at = await started();
  const { daemon } = at;
  const name = "local/child", version = "1.0.0";
  for (
    const [path, body] of [
      ["/spawn", "{"],
      ["/spawn", "[]"],
      ["/spawn", ""],
      ["/spawn", { version }],
      ["/spawn", { name }],
      ["/spawn", { name: "child", version }],
      ["/spawn", { name: 1, version }],
      ["/spawn", { name, version: 1 }],
      ["/register", "nul"],
      ["/register", { name, version }],
      ["/register", { session_id: "", name, version }],
      ["/register", { session_id: 7, name, version }],
      ["/register", { session_id: "ses_1", name: "child", version }],
      ["/register", { session_id: "ses_1", name }],
      ["/deregister", "x"],
      ["/deregister", {}],
      ["/deregister", { outcome: "done" }],
      ["/deregister", { outcome: 1 }],
    ] as const
  ) {
    const { status, body: answer } = await daemon.post(path, body);
    assert.equal(status, 400, `${path} ${JSON.stringify(body)}`);
    assert.deepEqual(Object.keys(answer), ["error"]);
  }
  // No content type, or any other, is as good as JSON's.
  const headers = { "content-type": "text/plain" };
  assertRefused(await daemon.post("/deregister", { outcome: "complete" }, headers), 403, IDENTITY);
});

Deno.test("what a body says beside its fields changes nothing", async () => {
  await using at = await started();
  const id = newId("ses");
  const more = {
    capabilities: { spawn: { allow: ["local/other"] } },
    depth: 9,
    envelope: {},
    spawned_by: "x",
    manifest: "",
  };
  const { body } = await at.daemon.post("/register", {
    session_id: id,
    name: "local/parent",
    version: "1.0.0",
    ...more,
  });
  assert.equal((await at.daemon.status(id)).body.depth_remaining, 3);
  const headers = { "x-murmur-spawn-credential": body.credential };
  const asked = { name: "local/other", version: "1.0.0", ...more };
  assertRefused(
    await at.daemon.post("/spawn", asked, headers),
    403,
    "capsule 'local/other' is not in parent's spawn_allow",
  );
});

Deno.test("every failure of identity is one answer, whether or not the session exists", async () => {
  await using at = await started();
  await using other = await started();
  const { daemon } = at;
  const ended = await daemon.root("parent");
  await daemon.deregister(ended.credential);
  const foreign = await other.daemon.root("parent");
  const running = await daemon.root("parent");
  const changed = running.credential.slice(0, -1) + (running.credential.endsWith("A") ? "B" : "A");
  for (
    const credential of [
      null,
      "",
      "garbage",
      changed,
      `${running.credential} `.trim() + ".x",
      ended.credential,
      foreign.credential,
    ]
  ) {
    const headers: Record<string, string> = credential === null ? {} : { "x-murmur-spawn-credential": credential };
    const spawn = await daemon.post("/spawn", { name: "local/child", version: "1.0.0" }, headers);
    assertRefused(spawn, 403, IDENTITY, String(credential));
    assertRefused(
      await daemon.post("/deregister", { outcome: "complete" }, headers),
      403,
      IDENTITY,
      String(credential),
    );
  }
  assert.equal((await daemon.status(running.id)).body.status, "running");
});

Deno.test("a grant names the artifact that was judged and expires in a minute", async () => {
  await using at = await started();
  const sha256 = await at.home.install("child", "# another\n", "2.0.0");
  const { credential } = await at.daemon.root("parent");
  const before = Date.now();
  const { status, body } = await at.daemon.spawn(credential, "child", "2.0.0");
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(body), ["approval", "name", "version", "sha256", "expires_at_ms"]);
  assert.match(body.approval, /^msa1\.[\w-]+\.[\w-]{43}$/);
  assert.deepEqual([body.name, body.version, body.sha256], ["local/child", "2.0.0", sha256]);
  assert.ok(body.expires_at_ms >= before + 60_000 && body.expires_at_ms <= Date.now() + 60_000);
});

Deno.test("the session's own list counts, whatever the operator's holds", async () => {
  await using at = await started(["--spawn-allow", "local/other"]);
  await at.home.install("other");
  const { credential } = await at.daemon.root("parent");
  assertRefused(
    await at.daemon.spawn(credential, "other"),
    403,
    "capsule 'local/other' is not in parent's spawn_allow",
  );
  assertRefused(await at.daemon.spawn(credential, "x/child"), 403, "capsule 'x/child' is not in parent's spawn_allow");
});

Deno.test("bounds refuse in their order, in their words, before the registry is read", async () => {
  for (
    const [args, error] of [
      [["--max-depth", "0", "--max-live-capsules", "0", "--max-concurrent", "0"], DEPTH(0)],
      [["--max-live-capsules", "0", "--max-concurrent", "0"], CEILING(0, 1)],
      [["--max-live-capsules", "1", "--max-concurrent", "0"], CEILING(1, 1)],
      [["--max-concurrent", "0"], CONCURRENCY(0, 0)],
    ] as const
  ) {
    await using at = await started(args);
    const { id, credential } = await at.daemon.root("parent");
    const before = (await at.daemon.status(id)).body;
    for (const name of ["child", "unpublished"]) assertRefused(await at.daemon.spawn(credential, name), 403, error);
    assertRefused(
      await at.daemon.spawn(credential, "elsewhere"),
      403,
      "capsule 'local/elsewhere' is not in parent's spawn_allow",
    );
    assert.deepEqual((await at.daemon.status(id)).body, before);
  }
});

Deno.test("a chain is as deep as --max-depth says, and a capsule that names itself ends there", async () => {
  await using at = await started(["--max-concurrent", "1"]);
  const { daemon } = at;
  let { id, credential } = await daemon.root("parent");
  for (let depth = 3; depth >= 0; depth--) {
    assert.equal((await daemon.status(id)).body.depth_remaining, depth);
    if (depth > 0) ({ id, credential } = await daemon.delegate(credential, "parent"));
  }
  assertRefused(await daemon.spawn(credential, "parent"), 403, DEPTH(3));
});

Deno.test("the ceiling never refuses a session without an approval, which counts all the same", async () => {
  await using at = await started(["--max-live-capsules", "1"]);
  const parent = await at.daemon.root("parent");
  await at.daemon.root("parent");
  await at.daemon.root("parent");
  assert.equal((await at.daemon.status(parent.id)).body.live_capsules, 3);
  assertRefused(await at.daemon.spawn(parent.credential, "child"), 403, CEILING(1, 3));
});

Deno.test("concurrency: as many children as the flag says, all asked at once", async () => {
  await using at = await started(["--max-concurrent", "2"]);
  const { id, credential } = await at.daemon.root("parent");
  const replies = await Promise.all(Array.from({ length: 10 }, () => at.daemon.spawn(credential, "child")));
  assert.equal(replies.filter(({ status }) => status === 200).length, 2);
  for (const reply of replies) if (reply.status !== 200) assertRefused(reply, 403, CONCURRENCY(2, 2));
  assert.equal((await at.daemon.status(id)).body.live_children, 2);
});

Deno.test("the envelope speaks through the manifests of the registry, and a refusal leaves nothing", async () => {
  await using at = await started();
  const { home, daemon } = at;
  await home.install(
    "bounded",
    "capabilities:\n  network: { allow: ['https://a.test'] }\n  containment: scoped\n  spawn: { allow: [local/wide, local/loose, local/fits] }\n",
  );
  await home.install(
    "wide",
    "capabilities: { network: { allow: ['https://a.test', api.example.com] }, containment: scoped }\n",
  );
  await home.install("loose", "capabilities: { network: { allow: ['https://a.test'] } }\n");
  await home.install("fits", "capabilities: { network: { allow: ['https://A.test:443'] }, containment: sealed }\n");
  await using own = await RoostDaemon.start(["--spawn-allow", "local/bounded"], { home: home.path });
  const { id, credential } = await own.root("bounded");
  assertRefused(
    await own.spawn(credential, "wide"),
    403,
    "capabilities.network.allow: the child declares 'api.example.com', which its parent does not hold — a spawned capsule can never hold more capability than the capsule that spawned it",
  );
  assertRefused(
    await own.spawn(credential, "loose"),
    403,
    "capabilities.containment: the child declares 'advisory', which its parent does not hold — a spawned capsule can never hold more capability than the capsule that spawned it",
  );
  const { body } = await own.status(id);
  assert.deepEqual([body.live_children, body.live_capsules], [0, 1]);
  assert.equal((await own.spawn(credential, "fits")).status, 200);
  // A registration without an approval has no parent to be within.
  assert.equal((await daemon.register(newId("ses"), "parent")).status, 200);
});

Deno.test("grants stay those of the registration, whatever becomes of the artifact", async () => {
  await using at = await started();
  const { credential } = await at.daemon.root("parent");
  await at.home.install("parent", "capabilities: { spawn: { allow: [local/other] } }\n");
  assert.equal((await at.daemon.spawn(credential, "child")).status, 200);
  const later = await at.daemon.root("parent");
  assertRefused(
    await at.daemon.spawn(later.credential, "child"),
    403,
    "capsule 'local/child' is not in parent's spawn_allow",
  );
});

Deno.test("a manifest's keys and variables are never resolved, and never kept", async () => {
  await using at = await started();
  const driver = (key: string) =>
    `artifacts:\n  - { name: d, version: "1", runtime: driver, gateway: { endpoint: "https://p.test", api_key: "${key}" } }\n` +
    "inference: { model: m, driver: { artifact: d } }\n";
  await at.home.install("child", driver("${OPENAI_API_KEY}"), "2.0.0");
  await at.home.install("child", driver("sk-literal-secret"), "3.0.0");
  const { credential } = await at.daemon.root("parent");
  for (const version of ["2.0.0", "3.0.0"]) {
    const reply = await at.daemon.spawn(credential, "child", version);
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
  }
  assert.doesNotMatch(at.daemon.stderr, /sk-literal/);
});

Deno.test("an approval is redeemed once, then it says so, and after its minute that it expired", async () => {
  await using at = await started([], { bounds: { spawnApproval: 1_500 } });
  const { daemon } = at;
  const { id, credential } = await daemon.root("parent");
  const live = async () => (await daemon.status(id)).body.live_children;
  const granted = (await daemon.spawn(credential, "child")).body.approval;
  const left = (await daemon.spawn(credential, "child")).body.approval;
  const child = newId("ses");
  assert.equal(await live(), 2);
  assert.equal((await daemon.register(child, "child", granted)).status, 200);
  assert.equal(await live(), 2);
  assertRefused(await daemon.register(newId("ses"), "child", granted), 403, REPLAYED);
  await new Promise((resolve) => setTimeout(resolve, 1_600));
  // Evaluated at the read: nothing was asked meanwhile.
  assert.equal(await live(), 1);
  assertRefused(await daemon.register(newId("ses"), "child", granted), 403, EXPIRED);
  assertRefused(await daemon.register(newId("ses"), "child", left), 403, EXPIRED);
  assert.equal((await daemon.status(child)).body.depth_remaining, 2);
});

Deno.test("an approval binds name, version and bytes, and is spent on the wrong ones", async () => {
  await using at = await started();
  const { daemon, home } = at;
  await home.install("child", "", "2.0.0");
  const { id, credential } = await daemon.root("parent");
  const approval = async () => (await daemon.spawn(credential, "child")).body.approval;
  for (const [name, version] of [["parent", "1.0.0"], ["child", "2.0.0"], ["other/child", "1.0.0"]] as const) {
    const token = await approval();
    const full = name.includes("/") ? name : `local/${name}`;
    assertRefused(
      await daemon.register(newId("ses"), name, token, version),
      403,
      `this spawn approval was granted for 'local/child@1.0.0', not '${full}@${version}'`,
    );
    assertRefused(await daemon.register(newId("ses"), "child", token), 403, REPLAYED);
  }
  // What the registry does not hold is found out before the approval is looked at.
  const token = await approval();
  assert.equal((await daemon.status(id)).body.live_children, 4);
  assert.equal((await daemon.register(newId("ses"), "unpublished", token)).status, 500);
  assert.equal((await daemon.register(newId("ses"), "child", token)).status, 200);
});

Deno.test("other bytes under the same coordinates are refused with both hashes", async () => {
  await using at = await started();
  const { daemon, home } = at;
  const { credential } = await daemon.root("parent");
  // Long enough ago for the daemon to trust that nothing has changed.
  await new Promise((resolve) => setTimeout(resolve, 300));
  for (let round = 0; round < 3; round++) {
    const { approval, sha256 } = (await daemon.spawn(credential, "child")).body;
    const changed = await home.install("child", `# ${round}\n`);
    assert.notEqual(changed, sha256);
    assertRefused(
      await daemon.register(newId("ses"), "child", approval),
      403,
      `'local/child@1.0.0' now resolves to a different artifact than the one this spawn approval was granted for (approved sha256 ${sha256}, resolved sha256 ${changed})`,
    );
  }
  // Bytes that are not those of the recorded hash are no artifact at all.
  const archive = `${home.store.root}/child/1.0.0/child-1.0.0.mur.zip`;
  const bytes = await Deno.readFile(archive);
  bytes[bytes.length - 1]! ^= 1;
  await Deno.writeFile(archive, bytes);
  const reply = await daemon.spawn(credential, "child");
  assert.equal(reply.status, 500);
  assert.match(reply.body.error, /could not be resolved from the registry: /);
});

Deno.test("an approval dies with the session that earned it", async () => {
  await using at = await started();
  const { daemon } = at;
  const { credential } = await daemon.root("parent");
  const { approval } = (await daemon.spawn(credential, "child")).body;
  await daemon.deregister(credential);
  assertRefused(await daemon.register(newId("ses"), "child", approval), 403, IDENTITY);
});

Deno.test("retiring a session: once, with an outcome, which becomes its status", async () => {
  await using at = await started();
  const { daemon } = at;
  for (const outcome of ["complete", "failed"]) {
    const { id, credential } = await daemon.root("parent");
    assert.equal((await daemon.deregister(credential, "done")).status, 400);
    assert.deepEqual(await daemon.deregister(credential, outcome), { status: 200, body: {} });
    assertRefused(await daemon.deregister(credential, outcome), 403, IDENTITY);
    assertRefused(await daemon.spawn(credential, "child"), 403, IDENTITY);
    const { body } = await daemon.status(id);
    assert.deepEqual([body.status, body.live_children, body.live_capsules], [outcome, 0, 0]);
  }
});

Deno.test("a session is polled by its id, and nothing else is an endpoint", async () => {
  await using at = await started();
  const { daemon } = at;
  const { id } = await daemon.root("parent");
  assert.deepEqual(await daemon.status(id), {
    status: 200,
    body: { status: "running", depth_remaining: 3, live_children: 0, live_capsules: 1 },
  });
  assert.deepEqual(await daemon.request("GET", `/status/${id}?x=1`), await daemon.status(id));
  for (const other of ["ses_none", "", "%", `${id}/`, `${id}%00`]) {
    assertRefused(await daemon.status(other), 404, "session not found", other);
  }
  for (
    const [method, path] of [
      ["GET", "/"],
      ["GET", "/spawn"],
      ["GET", "/status"],
      ["POST", "/health"],
      ["POST", "/status/x"],
      ["PUT", "/spawn"],
      ["DELETE", "/register"],
      ["OPTIONS", "/spawn"],
      ["POST", "/spawn/"],
      ["POST", "/Spawn"],
    ] as const
  ) assertRefused(await daemon.request(method, path), 404, "not found", `${method} ${path}`);
});

Deno.test("ids of any text are told apart, and lead to no file", async () => {
  await using at = await started();
  const { daemon, home } = at;
  await Deno.mkdir(home.running, { recursive: true });
  await Deno.writeTextFile(`${home.path}/.murmur/outside.json`, "{}");
  for (const id of ["a b", "../outside", "../../x", "...", "ä/ö", "\u{1f600}", "a\nb", "x".repeat(128)]) {
    const { status, body } = await daemon.register(id, "parent");
    assert.equal(status, 200, id);
    assert.equal((await daemon.status(encodeURIComponent(id))).body.status, "running", id);
    assert.equal((await daemon.deregister(body.credential)).status, 200, id);
    assert.equal((await daemon.status(encodeURIComponent(id))).body.status, "complete", id);
  }
  for (const line of daemon.stderr.trim().split("\n")) assert.match(line, /^[\x20-\x7e]*$/);
});

Deno.test("the log tells what was decided, and no token", async () => {
  await using at = await started();
  const { daemon } = at;
  const { id, credential } = await daemon.root("parent");
  const { approval } = (await daemon.spawn(credential, "child")).body;
  const child = (await daemon.register(newId("ses"), "child", approval)).body;
  await daemon.spawn(credential, "elsewhere");
  await daemon.spawn("msc1.secret.secret", "child");
  await daemon.deregister(child.credential);
  await daemon.stop();
  const lines = daemon.stderr.trim().split("\n").slice(3).map((line) => JSON.parse(line));
  assert.deepEqual(lines.map(({ event, status }) => [event, status]), [
    ["register", 200],
    ["spawn", 200],
    ["register", 200],
    ["spawn", 403],
    ["spawn", 403],
    ["deregister", 200],
    ["stopping", undefined],
  ]);
  assert.equal(lines[0].session_id, id);
  for (const token of [credential, approval, child.credential, "secret"]) assert.ok(!daemon.stderr.includes(token));
  assert.doesNotMatch(daemon.stderr, /ms[ac]1/);
});

Deno.test("a page in a browser cannot drive it: its Host or its Origin gives it away, and nothing is recorded", async () => {
  await using at = await started();
  const { daemon } = at;
  const ask = async (path: string, ...headers: string[]) => {
    const id = newId("ses");
    const body = JSON.stringify({ session_id: id, name: "local/parent", version: "1.0.0" });
    const method = path === "/health" ? "GET" : "POST";
    const lines = [
      `${method} ${path} HTTP/1.1`,
      ...headers,
      "connection: close",
      `content-length: ${body.length}`,
      "",
      body,
    ];
    const [reply] = await daemon.raw(lines.join("\r\n"));
    const known = (await daemon.status(id)).status === 200;
    return { status: reply!.status, error: reply!.body.error, known };
  };
  const host = `host: 127.0.0.1:${daemon.port}`;
  for (const path of ["/register", "/health", "/nowhere"]) {
    for (
      const headers of [
        ["host: evil.example"],
        ["host: 127.0.0.1.evil.example"],
        ["host: 10.0.0.1"],
        ["host:"],
        [],
        [host, "host: localhost"],
      ]
    ) {
      assert.deepEqual(
        await ask(path, ...headers),
        { status: 403, error: "this daemon does not answer for that host", known: false },
        `${path} ${headers}`,
      );
    }
    for (const origin of ["http://127.0.0.1:7700", "null", "https://evil.example", ""]) {
      assert.deepEqual(
        await ask(path, host, `origin: ${origin}`),
        { status: 403, error: "this daemon does not answer to web pages", known: false },
        `${path} ${origin}`,
      );
    }
  }
  for (const own of ["host: localhost", "host: LOCALHOST:1", "host: [::1]:7700", "host: 127.1.2.3"]) {
    assert.deepEqual(await ask("/register", own), { status: 200, error: undefined, known: true }, own);
  }
});
