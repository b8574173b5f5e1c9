import assert from "node:assert/strict";
import { planeOf, refusePlane } from "./undeclared_planes.ts";

Deno.test("the raw path decides whose answer it is", () => {
  const cases: [string, ReturnType<typeof planeOf>][] = [
    ["/resources", "operator_plane"],
    ["/resources/", "operator_plane"],
    ["/resources/files", "operator_plane"],
    ["/resources/peer", "peer_plane"],
    ["/resources/peer/x", "peer_plane"],
    ["/resources/peers", "operator_plane"],
    ["/resources/../control", "operator_plane"],
    ["/resources/peer/../files", "peer_plane"],
    ["/resources/files/../peer/x", "operator_plane"],
    ["/control", "control"],
    ["/control/settings/x", "control"],
    ["/controls", null],
    ["/resource", null],
    ["/Resources", null],
    ["//resources", null],
    ["/%72esources", null],
    ["/", null],
  ];
  for (const [path, plane] of cases) assert.equal(planeOf(path), plane, path);
});

Deno.test("an undeclared plane is not found; any method but GET is not allowed", () => {
  assert.deepEqual([refusePlane("operator_plane", "GET").status, refusePlane("operator_plane", "GET").error], [
    404,
    "no_resource_plane",
  ]);
  assert.deepEqual([refusePlane("peer_plane", "GET").status, refusePlane("peer_plane", "GET").error], [
    404,
    "no_peer_plane",
  ]);
  for (const method of ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "get"]) {
    const { status, error, headers } = refusePlane("operator_plane", method);
    assert.deepEqual([status, error, headers], [405, "method_not_allowed", [["allow", "GET"]]]);
  }
});
