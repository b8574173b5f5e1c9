import assert from "node:assert/strict";
import { peerUrl, shownPeer } from "./peer_address.ts";

Deno.test("a peer is host:port or an http(s) URL, of which host and port count", () => {
  for (
    const [peer, url, shown] of [
      ["localhost:41234", "http://localhost:41234/", "localhost:41234"],
      [" localhost:41234 ", "http://localhost:41234/", "localhost:41234"],
      ["http://localhost:41234", "http://localhost:41234/", "localhost:41234"],
      ["HTTP://LocalHost:41234/a2a?x#y", "http://localhost:41234/", "localhost:41234"],
      ["https://agents.example", "https://agents.example/", "agents.example:443"],
      ["http://agents.example", "http://agents.example/", "agents.example:80"],
      ["agents.example:80", "http://agents.example/", "agents.example:80"],
      ["[::1]:8080", "http://[::1]:8080/", "[::1]:8080"],
      ["127.0.0.1:1", "http://127.0.0.1:1/", "127.0.0.1:1"],
    ] as const
  ) {
    const parsed = peerUrl(peer);
    assert.deepEqual([parsed?.href, shownPeer(parsed!)], [url, shown], peer);
  }
});

Deno.test("anything else names no peer", () => {
  for (
    const peer of [
      "",
      "localhost",
      "localhost:",
      "localhost:port",
      "localhost:99999",
      "localhost:123456",
      "user@localhost:1",
      "http://user:pw@localhost:1",
      "ftp://localhost:1",
      "file:///etc/passwd",
      "unix:/run/x",
      "localhost:1/path",
      "localhost:1\r\nHost: evil",
      "http://local host:1",
      "http:\\\\localhost:1",
      "http://",
      "/localhost:1",
      "::1:80",
    ]
  ) assert.equal(peerUrl(peer), null, peer);
});
