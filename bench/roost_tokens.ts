/**
 * Changed tokens: a million of them opened with the very keys they were minted with, and some thousands sent to a real
 * daemon. None is taken, and the daemon answers each alike.
 *
 * @module
 */
import assert from "node:assert/strict";
import { newTokenKey } from "../base/mac_token.ts";
import { mintApproval, mintCredential, newTokenId, openApproval, openCredential } from "../base/spawn_token.ts";
import { RoostDaemon, RoostHome } from "../roost/testing/daemon.ts";
import { mutatedToken, PARENT, seededRandom, sendChangedTokens } from "../roost/testing/storm.ts";
import type { BenchResult } from "./result.ts";

const OPENED = 1_000_000;
/** Changes that are made of one token. */
const OF_ONE = 100;
const SENT = 20_000;

export async function run(): Promise<BenchResult> {
  const started = performance.now();
  const accepted = openChanged();
  const opened = performance.now();
  const answers = await sendChanged();
  const sent = performance.now();
  return {
    name: "roost tokens",
    figures: [
      { what: `changed tokens accepted, of ${OPENED} opened`, value: accepted, unit: "", atMost: 0 },
      { what: "opened a second", value: OPENED / (opened - started) * 1_000, unit: "/s" },
      { what: `different answers to ${SENT} sent`, value: answers, unit: "", atMost: 1 },
      { what: "sent a second", value: SENT / (sent - opened) * 1_000, unit: "/s" },
    ],
  };
}

/** Opens changed tokens of both kinds as both kinds; how many were taken. */
function openChanged(): number {
  const random = seededRandom(7);
  const keys = { credential: newTokenKey(), approval: newTokenKey() };
  let accepted = 0;
  for (let count = 0; count < OPENED; count += 2 * OF_ONE) {
    const credential = mintCredential(keys.credential, `ses_${newTokenId()}`);
    const approval = mintApproval(keys.approval, {
      sessionId: `ses_${newTokenId()}`,
      name: "local/worker-a",
      version: "0.1.0",
      sha256: newTokenId() + newTokenId(),
      depth: random(4),
      expiresAtMs: Date.now() + 60_000,
      id: newTokenId(),
    });
    assert.ok(openCredential(keys.credential, credential) !== null && openApproval(keys.approval, approval) !== null);
    for (let change = 0; change < 2 * OF_ONE; change++) {
      const token = mutatedToken(change % 2 === 0 ? credential : approval, random);
      if (openCredential(keys.credential, token) !== null || openApproval(keys.approval, token) !== null) accepted++;
    }
  }
  return accepted;
}

/** Sends changed tokens to a daemon; how many different answers came. */
async function sendChanged(): Promise<number> {
  await using home = new RoostHome();
  await home.install("parent", PARENT);
  await home.install("child");
  await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent"], { home: home.path });
  return (await sendChangedTokens(daemon, SENT)).size;
}
