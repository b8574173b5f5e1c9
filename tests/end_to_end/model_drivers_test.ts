/**
 * The first-party drivers as a capsule runs them: the packed component in a process without permissions, its requests
 * through policy and credential gateway, a provider on the other side that checks what it is sent.
 *
 * @module
 */
import assert from "node:assert/strict";
import { openPackage, readPayload } from "../../artifact/package.ts";
import { DEFAULT_MAX_DECOMPRESSED_BYTES } from "../../artifact/zip_archive.ts";
import { createHttpClient } from "../../base/http_client.ts";
import type { ToolResult } from "../../runtime/component/component_runtime.ts";
import { Harness } from "../../runtime/component/testing/harness.ts";
import {
  createCredentialGateway,
  type CredentialEvent,
  type CredentialGateway,
  gatewayEndpointForGuest,
  requireUpstreamAuth,
} from "../../runtime/inference/credential_gateway.ts";
import { type CredentialSource, findCredential } from "../../runtime/inference/credential_source.ts";
import { createOutgoingHttp } from "../../runtime/inference/outgoing_policy.ts";
import { createSpendMeter } from "../../runtime/inference/spend_meter.ts";
import { firstPartyComponents } from "../../scripts/build_components.ts";
import { driverRequest, toolNamed, toolSays, userSays } from "../support/driver_harness.ts";
import { type ProviderServer, startProviderServer } from "../support/provider_server.ts";

const FORMATS = { anthropic: "murmur-driver-anthropic", openai: "murmur-driver-openai" } as const;
type Format = keyof typeof FORMATS;

async function packed(format: Format) {
  const name = FORMATS[format];
  const archive = (await firstPartyComponents([name])).get(name)!;
  const opened = await openPackage(await Deno.readFile(archive), archive, DEFAULT_MAX_DECOMPRESSED_BYTES);
  const bytes = await readPayload(opened);
  assert.ok(bytes !== null);
  return { manifest: opened.manifest, bytes };
}

interface Driver {
  readonly provider: ProviderServer;
  readonly gateway: CredentialGateway;
  readonly events: CredentialEvent[];
  readonly shown: { readonly text: string[]; readonly thinking: string[]; readonly output: string[] };
  ask(request: unknown, signal?: AbortSignal): Promise<ToolResult>;
}

/** Stages a driver before a provider and hands both to `use`. */
async function withDriver(
  format: Format,
  use: (driver: Driver) => Promise<void>,
  options: {
    readonly config?: unknown;
    readonly credential?: CredentialSource;
    readonly providerKey?: string;
    readonly basePath?: string;
  } = {},
): Promise<void> {
  await using harness = new Harness();
  await using provider = await startProviderServer({
    format,
    key: options.providerKey ?? "sk-only-the-runtime-knows",
    basePath: options.basePath ?? "",
  });
  const { manifest, bytes } = await packed(format);
  const client = createHttpClient();
  const events: CredentialEvent[] = [];
  const meter = createSpendMeter({ sessionId: "ses_1", sessionCeiling: null, machine: null });
  const credential = options.credential ?? (await findCredential(
    { kind: "literal", value: "sk-only-the-runtime-knows" },
    { configFile: "/nonexistent", env: { get: () => undefined }, injectable: [], secrets: { get: () => undefined } },
  ))!;
  const gateway = createCredentialGateway({
    artifact: manifest.name,
    endpoint: provider.endpoint,
    auth: requireUpstreamAuth(`${manifest.name}@${manifest.version}`, manifest.upstreamAuth, manifest.hasInferenceAuth),
    credential,
    admission: meter,
    send: client.send,
    onEvent: (event) => events.push(event),
  });
  const spec = await harness.spec(bytes, {
    name: manifest.name,
    role: "driver",
    sharesProcess: false,
    http: createOutgoingHttp({ rules: [], send: client.send, gateway: gateway.http }),
    environment: {
      MURMUR_INFERENCE_TRANSPORT: "http",
      MURMUR_INFERENCE_ENDPOINT: gatewayEndpointForGuest(provider.endpoint),
      MURMUR_GATEWAY_ENDPOINT: gatewayEndpointForGuest(provider.endpoint),
      ...(options.config === undefined ? {} : { MURMUR_INFERENCE_DRIVER_CONFIG: JSON.stringify(options.config) }),
    },
  });
  const shown: Driver["shown"] = { text: [], thinking: [], output: [] };
  try {
    await use({
      provider,
      gateway,
      events,
      shown,
      async ask(request, signal) {
        const admission = await meter.admit(1, 1);
        assert.ok(admission.admitted);
        try {
          return await harness.call(spec, request, {
            emitChunk: (text) => void shown.text.push(text),
            emitThinkingChunk: (text) => void shown.thinking.push(text),
            output: (_stream, line) => void shown.output.push(line),
            ...(signal === undefined ? {} : { signal }),
          });
        } finally {
          await admission.settle(1, 1);
        }
      },
    });
  } finally {
    client.close();
  }
}

const bodyOf = (result: ToolResult) => {
  assert.equal(result.status, "passed", `${result.summary} ${result.data}`);
  return JSON.parse(result.data!);
};

for (const format of ["anthropic", "openai"] as const) {
  const request = (more: Parameters<typeof driverRequest>[0] = {}) =>
    driverRequest({ model: format === "openai" ? "gpt-4o-mini" : "claude-haiku-4-5", ...more });

  Deno.test(`${format}: a conversation with tools, streamed in pieces of a few bytes`, async () => {
    await withDriver(format, async ({ provider, shown, ask }) => {
      const tools = [toolNamed("list-files"), toolNamed("g++")];
      provider.script.push(
        {
          ...(format === "anthropic" ? { thinking: "Grübeln \u{1F914}" } : {}),
          text: "Ich sehe nach – \u{1F50D}",
          toolCalls: [{ name: "list-files", input: { path: 'a "b" ü\n' } }, { name: "g__", input: { path: "x" } }],
          pieceBytes: 3,
          usage: { input: 20, output: 7 },
        },
        { text: "Drei." },
      );
      const first = bodyOf(await ask(request({ tools })));
      assert.equal(first.stop_reason, "tool_call");
      const calls = first.content.filter((block: { type: string }) => block.type === "tool_call");
      assert.deepEqual(calls.map((call: { name: string; input: unknown }) => [call.name, call.input]), [
        ["list-files", { path: 'a "b" ü\n' }],
        ["g++", { path: "x" }],
      ]);
      assert.deepEqual(first.usage, { input_tokens: 20, output_tokens: 7 });
      assert.equal(shown.text.join(""), "Ich sehe nach – \u{1F50D}");
      assert.ok(shown.text.length > 1);
      if (format === "anthropic") assert.equal(shown.thinking.join(""), "Grübeln \u{1F914}");
      const messages = [
        userSays("Count the files"),
        { role: "assistant" as const, content: first.content },
        ...calls.map((call: { id: string }) => toolSays(call.id, "3 files")),
      ];
      const second = bodyOf(await ask(request({ tools, messages })));
      assert.equal(second.stop_reason, "end_turn");
      assert.deepEqual(second.content, [{ type: "text", text: "Drei." }]);
      assert.deepEqual(provider.problems, []);
    });
  });

  Deno.test(`${format}: overload and a broken stream are tried again`, async () => {
    await withDriver(format, async ({ provider, shown, ask }) => {
      provider.script.push(
        { status: 503, type: "overloaded_error", message: "busy", headers: { "retry-after": "0" } },
        { text: "The first try", disconnectAfter: 4 },
        { text: "Whole." },
      );
      const answer = bodyOf(await ask(request()));
      assert.deepEqual(answer.content, [{ type: "text", text: "Whole." }]);
      assert.match(shown.text.join(""), /\[the connection broke; the answer starts again\]\n\nWhole\.$/);
      assert.equal(shown.output.filter((line) => line.includes("trying again")).length, 2);
      assert.deepEqual(provider.problems, []);
    });
  });

  Deno.test(`${format}: the provider's refusal is the error of the task; a rejected key is the gateway's to tell`, async () => {
    await withDriver(format, async ({ provider, gateway, events, shown, ask }) => {
      provider.script.push({ status: 400, type: "invalid_request_error", message: "prompt is too long" });
      const refused = bodyOf(await ask(request()));
      assert.equal(refused.stop_reason, "error");
      assert.match(refused.error, /^the provider answered 400 invalid_request_error: prompt is too long/);
      assert.equal(gateway.lastStatus(), 400);
      provider.key = "another";
      const rejected = await ask(request());
      assert.match(bodyOf(rejected).error, /^the provider answered 401 authentication_error/);
      assert.ok(gateway.rejected());
      assert.deepEqual(events, [{ source: "manifest", change: "rejected", status: 401, retried: false }]);
      assert.ok(!JSON.stringify([rejected, shown]).includes("sk-only-the-runtime-knows"));
    });
  });

  Deno.test(`${format}: a key that changes while the capsule runs costs no task`, async () => {
    const directory = await Deno.makeTempDir();
    const configFile = `${directory}/config.yaml`;
    try {
      await Deno.writeTextFile(configFile, "credentials: { KEY: one }\n");
      const credential = (await findCredential({ kind: "reference", name: "KEY" }, {
        configFile,
        env: { get: () => undefined },
        injectable: [],
        secrets: { get: () => undefined },
      }))!;
      await withDriver(format, async ({ provider, events, ask }) => {
        provider.script.push({ text: "a" }, { text: "b" });
        bodyOf(await ask(request()));
        provider.key = "second";
        await Deno.writeTextFile(configFile, "credentials: { KEY: second }\n");
        assert.deepEqual(bodyOf(await ask(request())).content, [{ type: "text", text: "b" }]);
        assert.deepEqual(events.map((event) => event.change), ["rotated"]);
      }, { credential, providerKey: "one" });
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  });

  Deno.test(`${format}: an endpoint below a path, and a configuration that is wrong`, async () => {
    await withDriver(format, async ({ provider, ask }) => {
      provider.script.push({ text: "ok" });
      assert.equal(bodyOf(await ask(request())).stop_reason, "end_turn");
      assert.match(provider.requests[0]!.path, /^\/proxy\/v1\//);
    }, { basePath: "/proxy" });
    await withDriver(format, async ({ ask }) => {
      const result = await ask(request());
      assert.equal(result.status, "error");
      assert.match(`${result.summary}${result.data}`, /inference\.driver\.config has no key 'max_retry'/);
    }, { config: { max_retry: 1 } });
  });

  Deno.test(`${format}: a cancelled call ends the provider's stream`, async () => {
    await withDriver(format, async ({ provider, shown, ask }) => {
      provider.script.push({ text: "A long answer that never ends", silentAfter: 5 });
      const controller = new AbortController();
      const asked = ask(request(), controller.signal);
      while (shown.text.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
      controller.abort();
      await assert.rejects(asked);
      for (let wait = 0; wait < 200 && provider.abandoned === 0; wait++) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      assert.equal(provider.abandoned, 1);
    });
  });
}
