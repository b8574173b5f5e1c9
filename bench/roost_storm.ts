/**
 * The long form of the storm tests: 10,000 formations that come and go and what they leave, 200 parents that race for the
 * last slots 1,000 times, a million changed tokens. Anything lost, given twice or taken ends it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { newTokenKey } from "../base/mac_token.ts";
import { mintApproval, mintCredential, newTokenId, openApproval, openCredential } from "../base/spawn_token.ts";
import { RoostDaemon, RoostHome } from "../roost/testing/daemon.ts";
import {
  cycleFormations,
  mutatedToken,
  PARENT,
  raceForSlots,
  residentBytes,
  seededRandom,
} from "../roost/testing/storm.ts";
import type { BenchResult } from "./result.ts";

const FORMATIONS = 10_000;
const ROUNDS = 1_000;
const PARENTS = 200;
const TOKENS = 1_000_000;

export async function run(): Promise<BenchResult> {
  await using home = new RoostHome();
  await home.install("parent", PARENT);
  await home.install("child");
  const allow = ["--spawn-allow", "local/parent"];
  let grown: number;
  {
    await using daemon = await RoostDaemon.start([...allow, "--max-live-capsules", "32"], { home: home.path });
    // Until the code is compiled and the heap has its size.
    await cycleFormations(daemon, 2_000);
    const before = residentBytes(daemon.child.pid);
    await cycleFormations(daemon, FORMATIONS);
    grown = residentBytes(daemon.child.pid) / before;
    const parent = await daemon.root("parent");
    assert.equal((await daemon.status(parent.id)).body.live_capsules, 1);
  }
  const free = 13;
  const raced = performance.now();
  {
    const ceiling = ["--max-live-capsules", String(PARENTS + free)];
    await using daemon = await RoostDaemon.start([...allow, ...ceiling], { home: home.path });
    await raceForSlots(daemon, home, { parents: PARENTS, free, rounds: ROUNDS });
  }
  const raceSeconds = (performance.now() - raced) / 1_000;
  const accepted = changedTokens();
  return {
    name: "roost storm",
    figures: [
      { what: `resident memory after ${FORMATIONS} formations over before`, value: grown, unit: "x", atMost: 1.1 },
      { what: `${ROUNDS} races of ${PARENTS} parents for ${free} slots, all exact`, value: raceSeconds, unit: "s" },
      { what: `changed tokens accepted, of ${TOKENS}`, value: accepted, unit: "", atMost: 0 },
    ],
  };
}

/** Opens a million changed tokens with the very keys they were minted with. */
function changedTokens(): number {
  const random = seededRandom(7);
  const keys = { credential: newTokenKey(), approval: newTokenKey() };
  let accepted = 0;
  for (let count = 0; count < TOKENS; count++) {
    const credential = mintCredentialAt(count, keys.credential);
    const approval = mintApprovalAt(count, keys.approval);
    const token = mutatedToken(count % 2 === 0 ? credential : approval, random);
    if (openCredential(keys.credential, token) !== null || openApproval(keys.approval, token) !== null) accepted++;
  }
  return accepted;
}

/** One token in a hundred is fresh; minting is not what is tried here. */
let credential = "";
function mintCredentialAt(count: number, key: Uint8Array): string {
  if (count % 100 === 0) credential = mintCredential(key, `ses_${newTokenId()}`);
  return credential;
}

let approval = "";
function mintApprovalAt(count: number, key: Uint8Array): string {
  if (count % 100 !== 0) return approval;
  return approval = mintApproval(key, {
    sessionId: `ses_${newTokenId()}`,
    name: "local/worker-a",
    version: "0.1.0",
    sha256: newTokenId() + newTokenId(),
    depth: count % 4,
    expiresAtMs: Date.now() + 60_000,
    id: newTokenId(),
  });
}
