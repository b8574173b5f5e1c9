import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { isLoopbackBind, publicDoorWarning } from "./public_door_warning.ts";

const AGENT =
  "name: c\nversion: '1'\nartifacts: [{ name: d, version: '1', runtime: driver, gateway: { endpoint: 'https://api.example.com', keyless: true } }]\n" +
  "inference: { transport: http, model: m, driver: { artifact: d } }\n";
const warningFor = (text: string, bind: string) =>
  publicDoorWarning(parseCapsuleManifest(text, "murmur.yaml").manifest, bind);

Deno.test("only 127.0.0.0/8, ::1 and localhost are loopback", () => {
  for (const address of ["127.0.0.1", "127.255.0.9", "::1", "[::1]", "localhost"]) {
    assert.ok(isLoopbackBind(address), address);
  }
  for (
    const address of [
      "0.0.0.0",
      "::",
      "192.168.1.4",
      "10.0.0.1",
      "example.com",
      "localhost.example.com",
      "127.0.0.1.example.com",
      "",
    ]
  ) {
    assert.ok(!isLoopbackBind(address), address);
  }
});

Deno.test("a public door off loopback warns and names what is open", () => {
  const warning = warningFor(AGENT, "0.0.0.0");
  assert.equal(warning?.code, "W-SEC-032");
  assert.match(warning!.message, /0\.0\.0\.0.* call SendMessage, SendStreamingMessage, .*murmur\.StopSession;/);
  const closed = `${AGENT}lifecycle: { task_acceptance: none }\n`;
  assert.match(warningFor(closed, "0.0.0.0")!.message, / call SubscribeToTask, /);
  assert.ok(!warning!.message.includes("resources/files"));
  assert.match(
    warningFor(`${AGENT}exports: { files: { root: out, mode: read-only } }\n`, "0.0.0.0")!.message,
    /resources\/files/,
  );
});

Deno.test("loopback, an authenticated door and a script capsule do not warn", () => {
  assert.equal(warningFor(AGENT, "127.0.0.1"), null);
  assert.equal(warningFor(`${AGENT}network: { authentication: { scheme: bearer } }\n`, "0.0.0.0"), null);
  assert.equal(warningFor("name: c\nversion: '1'\n", "0.0.0.0"), null);
});
