/**
 * The code of a peer handle beside what `openssl` makes of the same bytes (seed resource-plane, The audience).
 *
 * @module
 */
import assert from "node:assert/strict";
import { mint, newNonce, PeerMintKey } from "../../planes/handle.ts";

Deno.test("the code of a handle is the HMAC-SHA256 that openssl computes over the seed's bytes", async () => {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const hex = bytes.toHex();
  using key = PeerMintKey.of(bytes);
  for (
    const [audience, p] of [["reporter@localhost:41234", "report.md"], ["a@[::1]:1", "dir/ä 😀.txt"], [
      "x",
      "",
    ]] as const
  ) {
    const token = mint(key, { v: 1, iss: "ses_1", p, exp: 1_755_950_300_000, n: newNonce() }, audience);
    const [, segment, code] = token.split(".");
    const openssl = new Deno.Command("openssl", {
      args: ["dgst", "-sha256", "-mac", "HMAC", "-macopt", `hexkey:${hex}`, "-binary"],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const input = openssl.stdin.getWriter();
    await input.write(new TextEncoder().encode(`murmur-peer-handle-v1\x1f${segment}\x1f${audience}`));
    await input.close();
    const { stdout, success } = await openssl.output();
    assert.ok(success);
    assert.equal(code, stdout.toBase64({ alphabet: "base64url", omitPadding: true }));
  }
});
