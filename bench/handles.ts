/**
 * Minting and verifying peer handles, beside a bare loop of `createHmac` over as many bytes.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { mint, newNonce, PeerMintKey, verify } from "../planes/handle.ts";
import { type BenchResult, median } from "./result.ts";

const COUNT = 5_000;
const ROUNDS = 15;
const AUDIENCE = "reporter@localhost:41234";

export function run(): Promise<BenchResult> {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const secret = bytes.slice();
  using key = PeerMintKey.of(bytes);
  const payload =
    () => ({ v: 1, iss: "ses_01a033ec2c1f7eb2a5922f84e012e89d", p: "report.md", exp: 9e15, n: newNonce() } as const);
  const token = mint(key, payload(), AUDIENCE);
  const message = `murmur-peer-handle-v1\x1f${token.split(".")[1]}\x1f${AUDIENCE}`;
  const perSecond = (work: () => void) => {
    const start = performance.now();
    for (let i = 0; i < COUNT; i++) work();
    return COUNT / (performance.now() - start) * 1_000;
  };
  const rounds: { readonly mint: number; readonly verify: number; readonly peer: number }[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const figures = {
      mint: perSecond(() => mint(key, payload(), AUDIENCE)),
      peer: perSecond(() => createHmac("sha256", secret).update(message).digest("base64url")),
      verify: perSecond(() => {
        if ("error" in verify(key, token, AUDIENCE, 0)) throw new Error("the token is not accepted");
      }),
    };
    if (round > 0) rounds.push(figures);
  }
  const of = (figure: (round: typeof rounds[number]) => number) => median(rounds.map(figure));
  return Promise.resolve({
    name: "handles",
    figures: [
      { what: "minted a second", value: of((round) => round.mint), unit: "/s" },
      { what: "verified a second", value: of((round) => round.verify), unit: "/s" },
      { what: "createHmac over as many bytes", value: of(({ peer }) => peer), unit: "/s" },
      { what: "minting as fast as createHmac", value: of((round) => round.mint / round.peer), unit: "x", atLeast: 0.4 },
      {
        what: "verifying as fast as createHmac",
        value: of((round) => round.verify / round.peer),
        unit: "x",
        atLeast: 0.4,
      },
    ],
  });
}
