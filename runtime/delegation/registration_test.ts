import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { DEFAULT_TIME_BOUNDS } from "../../base/time_bounds.ts";
import { RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";
import { register, type Registration } from "./registration.ts";

const NEVER = new AbortController().signal;
const SHORT = { ...DEFAULT_TIME_BOUNDS, roostConnect: 300, roostAnswer: 300, roostRetire: 300 };

async function refused(registering: Promise<Registration>): Promise<string> {
  try {
    await registering;
  } catch (error) {
    assert.ok(error instanceof MurError && error.code === "E-RUN-019", String(error));
    return `${error.message} ${error.hint}`;
  }
  assert.fail("registered");
}

function asked(daemon: string | undefined, more: Partial<Parameters<typeof register>[0]> = {}): Promise<Registration> {
  return register({
    daemon,
    sessionId: newId("ses"),
    name: "local/boss",
    version: "1.0.0",
    approval: null,
    bounds: DEFAULT_TIME_BOUNDS,
    ...more,
  });
}

async function world(body: (daemon: RoostDaemon, worker: string) => Promise<void>): Promise<void> {
  await using home = new RoostHome();
  await home.install("boss", "capabilities:\n  spawn:\n    allow: [local/worker]\n");
  const worker = await home.install("worker");
  await using daemon = await RoostDaemon.start(["--spawn-allow", "local/boss"], { home: home.path });
  await body(daemon, worker);
}

Deno.test("a session registers, asks for a child, and is retired; the child registers under its approval", () =>
  world(async (daemon, worker) => {
    const sessionId = newId("ses");
    const boss = await asked(` ${daemon.url}/ `, { sessionId });
    assert.equal(boss.daemon, daemon.url);
    assert.ok(!JSON.stringify(boss).includes("msc1."), "the credential is in no property");
    const answer = await boss.spawn("local/worker", "1.0.0", NEVER);
    assert.ok(answer.granted);
    assert.deepEqual([answer.name, answer.version, answer.sha256], ["local/worker", "1.0.0", worker]);
    const childId = newId("ses");
    const child = { sessionId: childId, name: "local/worker", approval: answer.approval };
    const worked = await asked(daemon.url, child);
    assert.equal((await daemon.status(childId)).body.status, "running");
    assert.equal((await daemon.status(sessionId)).body.live_children, 1);
    await worked.deregister("complete");
    await worked.deregister("failed");
    assert.equal((await daemon.status(childId)).body.status, "complete", "only the first call counts");
    await boss.deregister("failed");
    assert.equal((await daemon.status(sessionId)).body.status, "failed");
    const late = await boss.spawn("local/worker", "1.0.0", NEVER);
    assert.ok(!late.granted && late.kind === "refused" && late.reason.startsWith("not authorised"));
    // An approval covers one launch; the refusal shows no token.
    const replayed = await refused(asked(daemon.url, { ...child, sessionId: newId("ses") }));
    assert.ok(!replayed.includes("msa1."), replayed);
  }));

Deno.test("the daemon's own sentence is handed on for a child it refuses", () =>
  world(async (daemon) => {
    const boss = await asked(daemon.url);
    const answer = await boss.spawn("local/other", "1.0.0", NEVER);
    assert.deepEqual(answer, {
      granted: false,
      kind: "refused",
      reason: "capsule 'local/other' is not in parent's spawn_allow",
    });
    await daemon.stop("SIGKILL");
    const gone = await boss.spawn("local/worker", "1.0.0", NEVER);
    assert.ok(
      !gone.granted && gone.kind === "failed" && /refused the connection/.test(gone.reason),
      JSON.stringify(gone),
    );
    await boss.deregister("complete");
  }));

Deno.test("a session that cannot register is refused: no address, nobody there, or not allowed", () =>
  world(async (daemon) => {
    for (const unset of [undefined, "", "  "]) assert.match(await refused(asked(unset)), /MURMUR_ROOST_URL is not set/);
    for (const bad of ["127.0.0.1:7700", "https://127.0.0.1:1", "http://u:secret@h:1", "http://h/?q=secret"]) {
      const message = await refused(asked(bad));
      assert.ok(!message.includes("secret"), message);
    }
    assert.match(await refused(asked("http://127.0.0.1:1")), /refused the connection/);
    assert.match(
      await refused(asked(daemon.url, { name: "local/worker" })),
      /capsule 'local\/worker' is not in --spawn-allow.*--spawn-allow local\/worker/s,
    );
    const forged = await refused(asked(daemon.url, { approval: "msa1.forged.token" }));
    assert.match(forged, /not authorised/);
    assert.ok(!forged.includes("forged.token"));
  }));

Deno.test("a daemon that hangs or speaks nonsense keeps neither a launch nor an end", async () => {
  using silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const url = `http://127.0.0.1:${(silent.addr as Deno.NetAddr).port}`;
  const start = performance.now();
  await refused(asked(url, { bounds: SHORT }));
  assert.ok(performance.now() - start < 3_000);

  let reply = (): Response | Promise<Response> => Response.json({ credential: "msc1.x.y" });
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    () => reply(),
  );
  const odd = `http://127.0.0.1:${server.addr.port}`;
  const session = await asked(odd, { bounds: SHORT });
  const grant = {
    approval: "msa1.a.b",
    name: "local/worker",
    version: "1.0.0",
    sha256: "a".repeat(64),
    expires_at_ms: 1,
  };
  const spawn = async (body: unknown) => {
    reply = () => Response.json(body);
    return await session.spawn("local/worker", "1.0.0", NEVER);
  };
  assert.ok((await spawn(grant)).granted);
  for (
    const body of [
      {},
      [],
      { ...grant, name: "local/other" },
      { ...grant, version: "2.0.0" },
      { ...grant, sha256: "x" },
      { ...grant, approval: "two\nlines" },
      { ...grant, approval: "" },
    ]
  ) {
    const answer = await spawn(body);
    assert.ok(!answer.granted && answer.kind === "failed", JSON.stringify(body));
  }
  const hanging = Promise.withResolvers<void>();
  reply = async () => {
    await hanging.promise;
    return Response.json({});
  };
  const asking = new AbortController();
  setTimeout(() => asking.abort(), 20);
  const aborted = await session.spawn("local/worker", "1.0.0", asking.signal);
  assert.ok(!aborted.granted && aborted.kind === "failed");
  const before = performance.now();
  await session.deregister("complete");
  assert.ok(performance.now() - before < 2_000, "an end is not held up");
  hanging.resolve();
});
