import assert from "node:assert/strict";
import { VERSION } from "../../base/version.ts";
import { AgentCard } from "@a2a-js/sdk";
import { agentCard, type CardFacts } from "./agent_card.ts";
import { CARD_EXTENSION } from "./card_extension.ts";

const COUNTER: CardFacts = {
  name: "counter",
  version: "1.2.0",
  sessionId: "ses_019f0000000070008000000000000001",
  port: 40111,
  takesTasks: true,
  authenticated: false,
  a2aCompat: [],
  tools: ["bash"],
  shell: true,
  network: false,
  planes: [],
  peerTasks: false,
};

// deno-lint-ignore no-explicit-any
const card = (facts: Partial<CardFacts> = {}, kind: "public" | "extended" = "public"): any =>
  JSON.parse(JSON.stringify(agentCard({ ...COUNTER, ...facts }, kind)));

// deno-lint-ignore no-explicit-any
const extension = (of: any, uri: string) => of.capabilities.extensions.find((found: any) => found.uri === uri)?.params;

Deno.test("the card of a public door is the published example", () => {
  const shown = card();
  assert.deepEqual(Object.keys(shown), [
    "name",
    "description",
    "version",
    "supportedInterfaces",
    "capabilities",
    "securitySchemes",
    "securityRequirements",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
  ]);
  assert.deepEqual(shown.description, "Murmur capsule counter 1.2.0");
  assert.deepEqual(shown.supportedInterfaces, [
    { url: "http://localhost:40111", protocolBinding: "JSONRPC", protocolVersion: "1.0" },
  ]);
  const { extensions, ...capabilities } = shown.capabilities;
  assert.deepEqual(capabilities, { streaming: true, pushNotifications: false, extendedAgentCard: false });
  for (const found of extensions) {
    assert.deepEqual(Object.keys(found), ["uri", "description", "required", "params"]);
    assert.equal(found.required, false);
  }
  assert.deepEqual(extensions.map(({ uri }: { uri: string }) => uri), [
    CARD_EXTENSION.door,
    CARD_EXTENSION.capsule,
    CARD_EXTENSION.stream,
  ]);
  assert.deepEqual(extension(shown, CARD_EXTENSION.door), {
    methods: [
      "SendMessage",
      "SendStreamingMessage",
      "SubscribeToTask",
      "murmur.WatchStream",
      "GetTask",
      "ListTasks",
      "CancelTask",
      "murmur.StopSession",
    ],
    peerTasks: false,
  });
  assert.deepEqual(extension(shown, CARD_EXTENSION.capsule), {
    sessionId: COUNTER.sessionId,
    tools: ["bash"],
    shell: true,
    network: false,
    planes: [],
    murVersion: VERSION,
  });
  assert.deepEqual(extension(shown, CARD_EXTENSION.stream).frames, [
    "status",
    "artifact",
    "text",
    "thinking",
    "tool-call-started",
    "tool-call-progress",
    "gap",
    "lagged",
    "connection-ack",
    "capsule-closed",
    "error",
  ]);
  assert.deepEqual([shown.securitySchemes, shown.securityRequirements], [{}, []]);
  assert.deepEqual([shown.skills.length, shown.skills[0].id, shown.skills[0].tags], [1, "task", ["task"]]);
  assert.ok(!("securityRequirements" in shown.skills[0]));
});

Deno.test("an authenticated door tells of its session in the extended card alone", () => {
  const secret = [COUNTER.sessionId, "bash", "planes", '"shell"', '"network"'];
  const open = card({ authenticated: true });
  for (const word of secret) assert.ok(!JSON.stringify(open).includes(word), word);
  assert.deepEqual(open.capabilities.extensions.length, 2);
  assert.equal(open.capabilities.extendedAgentCard, true);
  assert.ok(extension(open, CARD_EXTENSION.door).methods.includes("GetExtendedAgentCard"));
  assert.deepEqual(open.securitySchemes.bearer.httpAuthSecurityScheme.scheme, "Bearer");
  assert.deepEqual(Object.keys(open.securitySchemes.bearer), ["httpAuthSecurityScheme"]);
  assert.deepEqual(open.securityRequirements, [{ schemes: { bearer: { list: [] } } }]);
  assert.deepEqual(open.skills[0].securityRequirements, [
    { schemes: { bearer: { list: ["SendMessage"] } } },
    { schemes: { bearer: { list: ["SendStreamingMessage"] } } },
  ]);
  const extended = card({ authenticated: true }, "extended");
  assert.equal(extension(extended, CARD_EXTENSION.capsule).sessionId, COUNTER.sessionId);
  assert.equal(extended.capabilities.extensions.length, 3);
});

Deno.test("a capsule that takes no tasks has no skill, streams none and writes no error frame", () => {
  const shown = card({ takesTasks: false, peerTasks: true });
  assert.deepEqual(shown.skills, []);
  assert.equal(shown.capabilities.streaming, false);
  assert.ok(!extension(shown, CARD_EXTENSION.stream).frames.includes("error"));
  assert.deepEqual(extension(shown, CARD_EXTENSION.door).methods[0], "SubscribeToTask");
  assert.equal(extension(shown, CARD_EXTENSION.door).peerTasks, true);
});

Deno.test("without older forms the library's own codec finds nothing it does not know", () => {
  const lost = (facts: Partial<CardFacts>) => {
    const shown = card(facts, "extended");
    // The codec leaves out lists and objects that are empty.
    const isEmpty = (value: unknown) =>
      value === false || (typeof value === "object" && value !== null && Object.keys(value).length === 0);
    const kept = (value: unknown): unknown => {
      if (typeof value !== "object" || value === null) return value;
      if (Array.isArray(value)) return value.map(kept);
      const members = Object.entries(value).map(([key, item]) => [key, key === "params" ? item : kept(item)] as const);
      return Object.fromEntries(members.filter(([key, item]) => key === "params" || !isEmpty(item)));
    };
    assert.deepEqual(kept(AgentCard.toJSON(AgentCard.fromJSON(shown))), kept(shown));
  };
  lost({});
  lost({ authenticated: true });
});

Deno.test("older forms add their interfaces behind the first and the members their clients read", () => {
  const forms = (a2aCompat: CardFacts["a2aCompat"]) =>
    card({ a2aCompat }).supportedInterfaces.map((at: { protocolBinding: string; protocolVersion: string }) =>
      `${at.protocolBinding} ${at.protocolVersion}`
    );
  assert.deepEqual(forms(["rest"]), ["JSONRPC 1.0", "HTTP+JSON 1.0"]);
  assert.deepEqual(forms(["v0.3"]), ["JSONRPC 1.0", "JSONRPC 0.3"]);
  assert.deepEqual(forms(["v0.3", "rest"]), ["JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"]);
  assert.ok(!("url" in card({ a2aCompat: ["rest"] })));
  const { url, protocolVersion, preferredTransport, security, securitySchemes, supportsAuthenticatedExtendedCard } =
    card({
      a2aCompat: ["v0.3", "rest"],
      authenticated: true,
    });
  assert.deepEqual([url, protocolVersion, preferredTransport], ["http://localhost:40111", "0.3", "JSONRPC"]);
  assert.deepEqual([security, supportsAuthenticatedExtendedCard], [[{ bearer: [] }], true]);
  assert.deepEqual([securitySchemes.bearer.type, securitySchemes.bearer.scheme], ["http", "bearer"]);
});
