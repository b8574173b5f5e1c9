/**
 * The official A2A clients, unmodified, against the doors of real sessions.
 *
 * @module
 */
import assert from "node:assert/strict";
import { ListTasksRequest, type Message, SendMessageRequest, type StreamResponse, type Task } from "@a2a-js/sdk";
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { isLegacyAgentCard, parseLegacyAgentCard } from "@a2a-js/sdk/compat/v0_3/client";
import type { JsonObject } from "../../base/json_value.ts";
import { type AgentProject, agentProject, capsule, toolEntry } from "../support/agent_project.ts";
import { type DoorSession, message, startSession } from "../support/door_session.ts";

const SERVES: JsonObject = { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 };
const SLOW = { turns: [{ delayMs: 60_000, text: "never" }] };
const ASKS = {
  turns: [{ calls: [{ name: "murmur-tool-request-input", input: { prompt: "Which one?" } }] }, { show: "results" }],
};

const project = (blocks: JsonObject = {}): Promise<AgentProject> =>
  agentProject(capsule({
    artifacts: [toolEntry("murmur-tool-request-input", { version: "0.1.0" })],
    lifecycle: SERVES,
    ...blocks,
  }));

const request = (text: string | object, more: object = {}, configuration?: object): SendMessageRequest =>
  SendMessageRequest.fromJSON(message(text, more, configuration));

const STATES = ["", "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected"];
const stateOf = ({ status }: Pick<Task, "status">) => STATES[status!.state];
const asTask = (result: Task | Message): Task => {
  assert.ok("status" in result);
  return result;
};
const artifactText = ({ artifacts }: Task, name: string): string => {
  const part = artifacts.find((artifact) => artifact.artifactId === name)!.parts[0]!;
  return String(part.content!.value);
};

async function collect(stream: AsyncIterable<StreamResponse>): Promise<StreamResponse[]> {
  const events: StreamResponse[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

const shape = (events: readonly StreamResponse[]) =>
  events.map(({ payload }) =>
    payload?.$case === "statusUpdate" ? stateOf(payload.value) : payload?.$case === "task" ? "task" : payload?.$case
  );

/** Everything a client does in its life, whatever its transport. @param older A2A 0.3, which lists no tasks. */
async function exercise(client: Client, older = false): Promise<void> {
  const blocking = asTask(await client.sendMessage(request("hello")));
  assert.equal(stateOf(blocking), "completed");
  assert.match(artifactText(blocking, "response"), /you said: .*hello/s);
  assert.deepEqual(stateOf(await client.getTask({ id: blocking.id, tenant: "" })), "completed");

  const streamed = await collect(client.sendMessageStream(request({ turns: [{ chunks: ["a", "b"], text: "ab" }] })));
  assert.deepEqual(shape(streamed), [
    "task",
    "working",
    "working",
    "working",
    "working",
    "artifactUpdate",
    "completed",
  ]);

  const slow = asTask(await client.sendMessage(request(SLOW, {}, { returnImmediately: true })));
  assert.ok(["submitted", "working"].includes(stateOf(slow)!));
  const followed = collect(client.resubscribeTask({ id: slow.id, tenant: "" }));
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(stateOf(await client.cancelTask({ id: slow.id, tenant: "", metadata: undefined })), "canceled");
  const events = await followed;
  assert.equal(events[0]!.payload!.$case, "task");
  assert.equal(shape(events).at(-1), "canceled");
  await assert.rejects(
    client.cancelTask({ id: slow.id, tenant: "", metadata: undefined }),
    /already TASK_STATE_CANCELED/,
  );
  await assert.rejects(client.getTask({ id: "tsk_none", tenant: "" }), /Task not found/);
  await assert.rejects(client.sendMessage(request("x", { taskId: blocking.id })), /has ended/);

  const asking = asTask(await client.sendMessage(request(ASKS)));
  assert.equal(stateOf(asking), "input-required");
  assert.equal(artifactText(asking, "prompt"), "Which one?");
  const answered = asTask(
    await client.sendMessage(request("the green one", { taskId: asking.id, contextId: asking.contextId })),
  );
  assert.equal(answered.id, asking.id);
  assert.equal(stateOf(answered), "completed");
  assert.match(artifactText(answered, "response"), /the green one/);
  // The same with a stream that stays open while it waits.
  const ids: string[] = [];
  const states: (string | undefined)[] = [];
  for await (const event of client.sendMessageStream(request(ASKS))) {
    states.push(...shape([event]));
    if (event.payload?.$case === "task") ids.push(event.payload.value.id);
    if (event.payload?.$case === "statusUpdate" && stateOf(event.payload.value) === "input-required") {
      await client.sendMessage(request("the red one", { taskId: ids[0] }, { returnImmediately: true }));
    }
  }
  assert.equal(states.filter((state) => state === "input-required").length, 1);
  assert.equal(states.at(-1), "completed");
  if (older) return;
  const listed = await client.listTasks(ListTasksRequest.fromJSON({ pageSize: 2 }));
  assert.deepEqual([listed.totalSize, listed.tasks.length], [5, 2]);
  assert.equal(listed.tasks[0]!.id, ids[0]);
  const next = await client.listTasks(ListTasksRequest.fromJSON({ pageSize: 100, pageToken: listed.nextPageToken }));
  assert.equal(next.tasks.length, 3);
}

/** Ends a session and holds it against what it should have been. */
async function finish(session: DoorSession): Promise<void> {
  const ended = await session.stop();
  assert.equal(ended.status, 0, ended.stderr);
  assert.equal(ended.trace.at(-1)!.event_type, "session_end");
}

Deno.test("the official client discovers, sends, streams, cancels, answers, lists and resubscribes", async () => {
  await using own = await project();
  await using session = await startSession(own);
  const client = await new ClientFactory().createFromUrl(session.url);
  const card = await client.getAgentCard();
  assert.deepEqual([card.name, card.skills.length, card.capabilities?.streaming], ["probe", 1, true]);
  await exercise(client);
  await finish(session);
});

Deno.test("with a token it reads the extended card; tokens stand in the running record and nowhere else", async () => {
  await using own = await project({
    network: { authentication: { scheme: "bearer", credentials: { reader: { scopes: ["GetTask"] } } } },
  });
  await using session = await startSession(own);
  const record = `${own.murmur}/running/${session.sessionId}.json`;
  assert.equal((await Deno.stat(record)).mode! & 0o777, 0o600);
  const { door_token: operator, credentials } = JSON.parse(await Deno.readTextFile(record));
  assert.deepEqual(Object.keys(credentials), ["reader"]);
  const clientWith = (token: string) =>
    new ClientFactory({
      transports: [
        new JsonRpcTransportFactory({
          fetchImpl: (input, init) => {
            const headers = new Headers(init?.headers);
            headers.set("authorization", `Bearer ${token}`);
            return fetch(input, { ...init, headers });
          },
        }),
      ],
    }).createFromUrl(session.url);
  const client = await clientWith(operator);
  const card = await client.getAgentCard();
  assert.ok(JSON.stringify(card).includes(session.sessionId));
  await exercise(client);
  const reader = await clientWith(credentials.reader);
  await assert.rejects(reader.sendMessage(request("x")), /403|insufficient_scope/);
  const anonymous = await new ClientFactory().createFromUrl(session.url);
  await assert.rejects(anonymous.sendMessage(request("x")), /401|unauthenticated/);
  // A trusted peer's text would go without a fence; this capsule takes none, and says so to a valid token too.
  assert.equal(
    (await session.request("/", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "authorization": `Bearer ${operator}`,
        "x-murmur-task-origin": "peer",
      },
      body: "{}",
    })).status,
    403,
  );
  await finish(session);
  for (const token of [operator, credentials.reader] as string[]) {
    const { stdout } = await new Deno.Command("grep", { args: ["-rlF", token, own.root] }).output();
    assert.equal(new TextDecoder().decode(stdout), "");
  }
  await assert.rejects(Deno.stat(record), Deno.errors.NotFound);
});

Deno.test("a client of A2A 0.3 does the same where the manifest asks for it, beside one of 1.0", async () => {
  await using own = await project({ network: { a2a_compat: ["v0.3"] } });
  await using session = await startSession(own);
  const { supportedInterfaces, ...older } = await (await session.request("/.well-known/agent-card.json")).json();
  assert.deepEqual(supportedInterfaces.map(({ protocolVersion }: JsonObject) => protocolVersion), ["1.0", "0.3"]);
  // What a client of 0.3 sees of the card.
  assert.ok(isLegacyAgentCard(older));
  const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ legacyCompat: { enabled: true } })] });
  const client = await factory.createFromAgentCard(parseLegacyAgentCard(older));
  assert.deepEqual([client.transport.protocolName, client.protocolVersion], ["JSONRPC", "0.3"]);
  await exercise(client, true);
  const newer = await new ClientFactory().createFromUrl(session.url);
  assert.equal(newer.protocolVersion, "1.0");
  assert.equal(stateOf(asTask(await newer.sendMessage(request("x")))), "completed");
  await finish(session);
});

Deno.test("clients of the HTTP+JSON binding do the same where the manifest asks for it, in both versions", async () => {
  await using own = await project({ network: { a2a_compat: ["rest", "v0.3"] } });
  await using session = await startSession(own);
  const factory = new ClientFactory({ transports: [new RestTransportFactory()], preferredTransports: ["HTTP+JSON"] });
  const client = await factory.createFromUrl(session.url);
  assert.equal(client.transport.protocolName, "HTTP+JSON");
  await exercise(client);
  const { supportedInterfaces: _, ...card } = await (await session.request("/.well-known/agent-card.json")).json();
  const older = new ClientFactory({ transports: [new RestTransportFactory({ legacyCompat: { enabled: true } })] });
  const olderClient = await older.createFromAgentCard(parseLegacyAgentCard(card));
  assert.deepEqual([olderClient.transport.protocolName, olderClient.protocolVersion], ["HTTP+JSON", "0.3"]);
  await exercise(olderClient, true);
  await finish(session);
});
