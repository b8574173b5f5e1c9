import assert from "node:assert/strict";
import { gatewayEndpointProblem, maskedEndpoint } from "./gateway_endpoint.ts";

Deno.test("an endpoint is https anywhere or http on this machine, with port and path", () => {
  for (
    const good of [
      "https://api.example/v1",
      "https://api.example:8443/a/b/",
      "http://localhost:11434",
      "http://127.0.0.1:1/v1",
      "http://127.255.0.9",
      "http://[::1]:9/x",
      "  https://h  ",
    ]
  ) assert.equal(gatewayEndpointProblem(good), null, good);
});

Deno.test("everything that leaves room for interpretation is refused, in order", () => {
  const rows: [string, RegExp][] = [
    ["https://${HOST}/?x#y", /\$\{/],
    ["", /not a URL/],
    ["api.example", /not a URL/],
    ["https://", /not a URL/],
    ["https://h/a b", /not a URL/],
    ["https:\\\\h", /not a URL/],
    ["https://h\\@x", /not a URL/],
    ["ht\ntps://h", /not a URL/],
    ["ftp://h?x", /scheme/],
    ["javascript:alert(1)", /scheme/],
    ["https:h", /no host/],
    ["https:/h", /no host/],
    ["https://u@h?x", /user information/],
    ["https://u:p@h", /user information/],
    ["https://@h", /user information/],
    ["https://h?x#y", /query/],
    ["https://h/?", /query/],
    ["https://h#", /fragment/],
    ["http://h", /clear text/],
    ["http://0.0.0.0", /clear text/],
    ["http://[::ffff:127.0.0.1]", /clear text/],
    ["http://localhost.", /clear text/],
    ["http://a.localhost", /clear text/],
    ["http://127.0.0.1.example", /clear text/],
    ["http://10.0.0.1", /clear text/],
  ];
  for (const [value, reason] of rows) assert.match(gatewayEndpointProblem(value) ?? "accepted", reason, value);
});

Deno.test("user information is shown as three asterisks", () => {
  assert.equal(maskedEndpoint("https://u:p@ss@h/x"), "https://***@h/x");
  assert.equal(maskedEndpoint("u:p@h"), "***@h");
  assert.equal(maskedEndpoint("https://h/x"), "https://h/x");
});
