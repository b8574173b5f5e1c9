import assert from "node:assert/strict";
import { letOthersWork } from "./other_work.ts";

Deno.test("requests of others are answered in the midst of work, each within a few pauses of it", async () => {
  const PAUSE_AFTER_MS = 5;
  const REQUESTS = 30;
  let pauses = 0;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    await request.text();
    return new Response(String(pauses));
  });
  // Each on a connection of its own; tells how many pauses went by from asking to the answer before it.
  const program = `
    const pauses = [];
    for (let request = 0; request < ${REQUESTS}; request++) {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: ${server.addr.port} });
      const text = "POST / HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\n{}";
      await connection.write(new TextEncoder().encode(text));
      const answer = new TextDecoder().decode((await new Response(connection.readable).bytes()));
      pauses.push(Number(answer.split("\\r\\n\\r\\n")[1]));
    }
    console.log(JSON.stringify(pauses));`;
  const client = new Deno.Command(Deno.execPath(), { args: ["eval", program], stdout: "piped" }).spawn();
  let told: number[] | null = null;
  client.output().then(({ stdout }) => told = JSON.parse(new TextDecoder().decode(stdout)));
  let timers = 0;
  const timer = setInterval(() => timers++, 1);
  const start = performance.now();
  for (; told === null; pauses++) {
    assert.ok(pauses < 5_000, "others did not come to their turn");
    for (const end = performance.now() + PAUSE_AFTER_MS; performance.now() < end;);
    await letOthersWork();
  }
  const took = performance.now() - start;
  clearInterval(timer);
  await server.shutdown();
  const answered = told as number[];
  assert.equal(answered.length, REQUESTS);
  const waited = answered.slice(1).map((at, index) => at - answered[index]!);
  assert.ok(Math.max(...waited) <= 20, `${waited}`);
  assert.ok(timers >= took / 100, `${timers} timers in ${took} ms`);
});
