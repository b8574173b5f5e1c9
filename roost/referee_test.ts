import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { grantsOf } from "./grants.ts";
import { Ledger, MAX_SESSIONS } from "./ledger.ts";
import { Referee } from "./referee.ts";
import { APPROVAL_EXPIRED } from "./refusals.ts";
import { parseRequestHead, type RequestHead } from "./http_request.ts";

const MANIFEST = "name: a\nversion: '1'\ncapabilities: { spawn: { allow: [local/a] } }\n";
const grants = grantsOf(parseCapsuleManifest(MANIFEST, "murmur.yaml").manifest);
const HEAD = parseRequestHead("POST / HTTP/1.1\r\nhost: localhost\r\n\r\n") as RequestHead;
const encoder = new TextEncoder();

/** A referee whose registry holds `local/a`, without processes to look at. */
function referee(): Referee {
  return new Referee({
    ledger: new Ledger({ maxDepth: 3, maxConcurrent: 4, maxLiveCapsules: 100 }, 60_000),
    registry: { resolve: () => ({ sha256: "0".repeat(64), grants }) },
    census: { gone: () => ({ found: [], registered: [] }), register: () => {}, forget: () => {} },
    approvalMs: 60_000,
    spawnAllow: new Set(["local/a"]),
    log: () => {},
  });
}

let moment = 0;

async function post(asked: Referee, path: string, body: object, fields: Record<string, string> = {}) {
  const content = encoder.encode(JSON.stringify(body));
  const request = { ...HEAD, fields: new Map(Object.entries(fields)), content, moment: moment++ };
  const { status, body: text } = await asked.answer(request, path);
  return { status, ...JSON.parse(text) };
}

Deno.test("an id that is given out again is another session: the credential of the first one is nothing to it", async () => {
  const asked = referee();
  const register = async (id: string) =>
    (await post(asked, "/register", { session_id: id, name: "local/a", version: "1" })).credential as string;
  const end = async (credential: string) =>
    await post(asked, "/deregister", { outcome: "complete" }, { "x-murmur-spawn-credential": credential });
  const first = await register("ses_a");
  assert.equal((await end(first)).status, 200);
  for (let count = 0; count < MAX_SESSIONS; count++) await end(await register(`ses_${count}`));
  const second = await register("ses_a");
  assert.notEqual(second, first);
  const spawn = (credential: string) =>
    post(asked, "/spawn", { name: "local/a", version: "1" }, { "x-murmur-spawn-credential": credential });
  // Asked before the right one was ever seen, and after.
  assert.equal((await spawn(first)).status, 403);
  assert.equal((await spawn(second)).status, 200);
  assert.equal((await spawn(first)).status, 403);
  assert.equal((await end(first)).status, 403);
  assert.equal((await end(second)).status, 200);
});

Deno.test("an approval expires by the time it tells, too, whatever part of it the host slept through", async () => {
  const asked = referee();
  const registered = await post(asked, "/register", { session_id: "ses_p", name: "local/a", version: "1" });
  const spawn = async () =>
    (await post(asked, "/spawn", { name: "local/a", version: "1" }, {
      "x-murmur-spawn-credential": registered.credential,
    })) as { readonly approval: string; readonly expires_at_ms: number };
  const redeem = (session_id: string, { approval }: { readonly approval: string }) =>
    post(asked, "/register", { session_id, name: "local/a", version: "1" }, { "x-murmur-spawn-approval": approval });
  const [first, second] = [await spawn(), await spawn()];
  const { now } = Date;
  try {
    Date.now = () => first.expires_at_ms - 1;
    assert.equal((await redeem("ses_a", first)).status, 200);
    Date.now = () => second.expires_at_ms;
    const late = await redeem("ses_b", second);
    assert.deepEqual([late.status, late.error], [403, APPROVAL_EXPIRED]);
  } finally {
    Date.now = now;
  }
});
