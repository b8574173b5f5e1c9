import assert from "node:assert/strict";
import { audienceFromCard } from "./audience.ts";

const jsonRpc = (url: unknown) => ({ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" });

Deno.test("the audience is name and host of the card's JSONRPC interface, lower-cased", () => {
  for (
    const [card, audience] of [
      [{ name: "Reporter", supportedInterfaces: [jsonRpc("http://LocalHost:41234")] }, "reporter@localhost:41234"],
      [{ name: "r", supportedInterfaces: [jsonRpc("https://agents.example/a2a/v1?x#y")] }, "r@agents.example"],
      [{ name: "r", supportedInterfaces: [jsonRpc("http://[::1]:80/")] }, "r@[::1]:80"],
      [{ name: "r", supportedInterfaces: [jsonRpc("localhost:1")] }, "r@localhost:1"],
      [{ name: "acme/reporter", supportedInterfaces: [jsonRpc("http://h:1")] }, "acme/reporter@h:1"],
      [
        {
          name: "r",
          supportedInterfaces: [
            { url: "http://rest:1", protocolBinding: "HTTP+JSON" },
            jsonRpc("http://rpc:2"),
            jsonRpc("http://rpc:3"),
          ],
        },
        "r@rpc:2",
      ],
      // The interface counts, not the older member beside it; a card that has only that is understood too.
      [{ name: "r", url: "http://old:1", supportedInterfaces: [jsonRpc("http://new:2")] }, "r@new:2"],
      [{ name: "r", url: "http://old:1" }, "r@old:1"],
    ] as const
  ) assert.equal(audienceFromCard(card), audience);
});

Deno.test("a card without name or address, or with one that no header can carry, makes none", () => {
  const interfaces = [jsonRpc("http://h:1")];
  for (
    const card of [
      null,
      [],
      "card",
      {},
      { name: "r" },
      { name: "", supportedInterfaces: interfaces },
      { name: 7, supportedInterfaces: interfaces },
      { supportedInterfaces: interfaces },
      { name: "r", supportedInterfaces: [] },
      { name: "r", supportedInterfaces: {} },
      { name: "r", supportedInterfaces: [null, 3, { protocolBinding: "JSONRPC" }, jsonRpc(5)] },
      { name: "r", supportedInterfaces: [jsonRpc("http://")] },
      { name: "r", supportedInterfaces: [jsonRpc("http:///path")] },
      { name: "r", supportedInterfaces: [jsonRpc("http://user@h:1")] },
      { name: "r\r\nx-evil: 1", supportedInterfaces: interfaces },
      { name: "r\x1f", supportedInterfaces: interfaces },
      { name: "résumé", supportedInterfaces: interfaces },
      { name: " r", supportedInterfaces: interfaces },
      { name: "r".repeat(2_000), supportedInterfaces: interfaces },
    ]
  ) assert.equal(audienceFromCard(card), null, JSON.stringify(card));
});
