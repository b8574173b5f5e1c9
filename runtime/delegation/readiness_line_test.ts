import assert from "node:assert/strict";
import fc from "fast-check";
import { newId } from "../../base/ids.ts";
import { parseReadiness } from "./readiness_line.ts";

const SESSION = newId("ses");
const LINE = { url: "localhost:41873", pid: 1, session_id: SESSION, name: "w", version: "1", workdir: "/w" };

Deno.test("the line of a child that serves", () => {
  assert.deepEqual(parseReadiness(JSON.stringify(LINE)), {
    sessionId: SESSION,
    url: "localhost:41873",
    doorToken: null,
  });
  for (const url of ["127.0.0.1:1", "[::1]:65535"]) {
    assert.equal((parseReadiness(JSON.stringify({ ...LINE, url })) as { url: string }).url, url);
  }
  assert.deepEqual(parseReadiness(JSON.stringify({ ...LINE, tokens: { operator: "dt1.x", ci: "dt1.y" } })), {
    sessionId: SESSION,
    url: "localhost:41873",
    doorToken: "dt1.x",
  });
});

Deno.test("anything else says what is wrong with it, and shows nothing of it", () => {
  const bad: unknown[] = [
    null,
    [],
    "ready",
    {},
    { ...LINE, session_id: "ses_1" },
    { ...LINE, session_id: undefined },
    { ...LINE, url: "" },
    { ...LINE, url: null },
    { ...LINE, url: undefined },
    { ...LINE, url: 7 },
    { ...LINE, url: "http://localhost:1" },
    { ...LINE, url: "evil.example:80" },
    { ...LINE, url: "localhost:1/path" },
    { ...LINE, url: "169.254.169.254:80" },
  ];
  for (const value of bad) assert.equal(typeof parseReadiness(JSON.stringify(value)), "string", JSON.stringify(value));
  assert.match(parseReadiness(JSON.stringify({ ...LINE, url: "" })) as string, /opened no door/);
  assert.ok(!(parseReadiness("secret words") as string).includes("secret"));
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => typeof parseReadiness(text) === "string"));
});
