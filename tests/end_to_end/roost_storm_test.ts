/**
 * `mur-roost` under many requests: nothing is lost, nothing is given twice, nothing grows, nothing forged is taken. The
 * benchmark `roost-storm` runs the same for longer.
 */
import assert from "node:assert/strict";
import {
  cycleFormations,
  mutatedBody,
  PARENT,
  raceForSlots,
  residentBytes,
  seededRandom,
  sendChangedTokens,
  StormConnection,
} from "../../roost/testing/storm.ts";
import { RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";

async function started(args: readonly string[] = []) {
  const home = new RoostHome();
  await home.install("parent", PARENT);
  await home.install("child");
  const daemon = await RoostDaemon.start(["--spawn-allow", "local/parent", ...args], { home: home.path });
  return {
    home,
    daemon,
    async [Symbol.asyncDispose]() {
      await daemon[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

Deno.test("formations that come and go leave neither slots taken nor memory grown", async () => {
  await using at = await started(["--max-live-capsules", "16"]);
  const { daemon, home } = at;
  // Until the code is compiled and the heap has its size.
  await cycleFormations(daemon, home, 1_000, 4);
  const before = residentBytes(daemon.child.pid);
  await cycleFormations(daemon, home, 2_000, 4);
  const grown = residentBytes(daemon.child.pid) / before;
  assert.ok(grown < 1.1, `resident memory grew ${grown} times`);
  using connection = await StormConnection.open(daemon.port);
  const { id, credential } = await connection.register("local/parent");
  for (let count = 0; count < 4; count++) assert.equal((await connection.spawn(credential, "local/child")).status, 200);
  const { body } = await connection.request("GET", `/status/${id}`);
  assert.deepEqual([body.live_children, body.live_capsules], [4, 5]);
});

Deno.test("parents that race for the last slots get exactly those", async () => {
  const parents = 200, free = 7;
  await using at = await started(["--max-live-capsules", String(parents + free)]);
  await raceForSlots(at.daemon, at.home, { parents, free, rounds: 20 });
});

Deno.test("no changed token is taken, and each is answered alike", async () => {
  await using at = await started();
  const answers = await sendChangedTokens(at.daemon, 3_000);
  assert.equal(answers.size, 1);
  assert.match([...answers][0]!, /^403 .*not authorised/);
});

Deno.test("no changed body makes it fail, or answer but as it says", async () => {
  await using at = await started();
  using connection = await StormConnection.open(at.daemon.port);
  const { credential } = await connection.register("local/parent");
  const random = seededRandom(2);
  const bodies: readonly [path: string, body: string][] = [
    ["/spawn", JSON.stringify({ name: "local/child", version: "1.0.0" })],
    ["/register", JSON.stringify({ session_id: "ses_fuzz", name: "local/parent", version: "1.0.0" })],
    ["/deregister", JSON.stringify({ outcome: "complete" })],
  ];
  const statuses = new Map<number, number>();
  for (let count = 0; count < 4_000; count++) {
    const [path, body] = bodies[count % bodies.length]!;
    // With a credential that is one, but for retiring the session of the test.
    const headers: Record<string, string> = path === "/spawn" ? { "x-murmur-spawn-credential": credential } : {};
    const bytes = mutatedBody(body, random);
    const reply = await connection.request("POST", path, headers, bytes);
    statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
    if (reply.status === 500) assert.match(reply.body.error, /could not be resolved from the registry/);
    else assert.ok([200, 400, 403].includes(reply.status), `${reply.status} to ${new TextDecoder().decode(bytes)}`);
  }
  assert.ok((statuses.get(400) ?? 0) > 2_000);
  assert.equal((await connection.request("GET", "/health")).status, 200);
  assert.ok(!at.daemon.stderr.includes('"event":"defect"'));
});

Deno.test("a failed identity takes as long whether or not its session exists", async () => {
  await using at = await started();
  using connection = await StormConnection.open(at.daemon.port);
  const running = await connection.register("local/parent");
  const ended = await connection.register("local/parent");
  await connection.deregister(ended.credential);
  const forged = (token: string) => token.slice(0, -1) + (token.endsWith("A") ? "B" : "A");
  const tokens = { running: forged(running.credential), ended: ended.credential, nobody: forged(ended.credential) };
  const times: Record<string, number[]> = { running: [], ended: [], nobody: [] };
  for (let count = 0; count < 600; count++) {
    for (const [kind, token] of Object.entries(tokens)) {
      const start = performance.now();
      assert.equal((await connection.spawn(token, "local/child")).status, 403);
      times[kind]!.push(performance.now() - start);
    }
  }
  // The quick ones, which nothing else on the machine got in the way of.
  const quick = Object.values(times).map((all) => all.sort((a, b) => a - b)[Math.floor(all.length / 4)]!);
  assert.ok(Math.max(...quick) < 2 * Math.min(...quick), `${quick}`);
});
