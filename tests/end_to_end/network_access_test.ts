/**
 * What a component reaches over HTTP in a whole run: the rules of its entry within those of the capsule, and no private
 * address behind a name (spec components 3.6, manifest 8.6).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { agentProject, callsThenResults, capsule, shownResults } from "../support/agent_project.ts";
import { type LocalAnswer, withLocalServer } from "../support/local_server.ts";
import { nameServer } from "../support/name_server.ts";
import { canMount } from "../support/own_mounts.ts";

const FETCH = { name: "murmur-tool-fetch", version: "0.1.0", runtime: "tool" };
const fetching = (url: string): JsonObject => ({ name: "murmur-tool-fetch", input: { url } });

Deno.test("an entry's own network.allow narrows what the capsule may reach, redirects included, and widens nothing", async () => {
  const answer = (name: string): LocalAnswer => (path) =>
    path.startsWith("/to?") ? Response.redirect(decodeURIComponent(path.slice(4))) : new Response(`from ${name}`);
  await withLocalServer(
    answer("one"),
    (one) =>
      withLocalServer(answer("two"), (two) =>
        withLocalServer(answer("three"), async (three) => {
          const allow = (...urls: string[]) => ({ network: { allow: urls } });
          const calls = callsThenResults(
            fetching(`${one.url}/`),
            fetching(`${two.url}/`),
            fetching(`${three.url}/`),
            fetching(`${one.url}/to?${encodeURIComponent(`${two.url}/`)}`),
            fetching(`${two.url}/to?${encodeURIComponent(`${one.url}/`)}`),
          );
          const reached = async (artifact: JsonObject) => {
            await using project = await agentProject(
              capsule({ artifacts: [artifact], capabilities: allow(one.url, two.url) }),
            );
            const run = await project.run({ task: calls });
            assert.equal(run.status, 0, run.stderr);
            const results = shownResults(run);
            return { run, got: results.map(({ text, error }) => error ? null : /from \w+/.exec(text)![0]), results };
          };

          const wide = await reached(FETCH);
          assert.deepEqual(wide.got, ["from one", "from two", null, "from two", "from one"]);

          const before = two.seen.length;
          const narrow = await reached({ ...FETCH, capabilities: allow(one.url, three.url) });
          assert.deepEqual(narrow.got, ["from one", null, null, null, null]);
          for (const { text, error } of narrow.results) {
            if (error) assert.match(text, /was refused: no network\.allow covers it/);
          }
          assert.equal(two.seen.length, before);
          assert.match(narrow.run.stderr, /warning\[W-[A-Z]+-\d+\]: [^\n]*murmur-tool-fetch[^\n]*dropped/);

          assert.deepEqual((await reached({ ...FETCH, capabilities: allow() })).got, Array(5).fill(null));
          assert.equal(three.seen.length, 0);
        })),
  );
});

async function privateNames(files: Readonly<Record<string, string>>, names: readonly string[]): Promise<void> {
  await withLocalServer(() => new Response("the private service"), async (server) => {
    const port = new URL(server.url).port;
    const urls = names.map((name) => `http://${name}:${port}`);
    await using project = await agentProject(
      capsule({ artifacts: [FETCH], capabilities: { network: { allow: [...urls, `http://localhost:${port}`] } } }),
    );
    const mounts = await Promise.all(
      Object.entries(files).map(async ([at, text], index) => {
        await Deno.writeTextFile(`${project.root}/mounted_${index}`, text);
        return { at, file: `${project.root}/mounted_${index}` };
      }),
    );
    const run = await project.run({
      task: callsThenResults(...urls.map((url) => fetching(`${url}/`)), fetching(`http://localhost:${port}/`)),
      mounts,
    });
    assert.equal(run.status, 0, run.stderr);
    const results = shownResults(run);
    for (const [index, name] of names.entries()) {
      const { text, error } = results[index]!;
      assert.ok(error, text);
      assert.ok(text.includes(`${name}:${port} failed: destination-IP-prohibited`), text);
    }
    assert.match(results.at(-1)!.text, /the private service/);
    assert.equal(server.seen.length, 1);
  });
}

Deno.test(
  "a name in the hosts file opens no private address, though a rule names it",
  { ignore: !canMount() },
  () =>
    privateNames(
      { "/etc/hosts": "127.0.0.1 service.example\n10.9.8.7 ten.example\n169.254.169.254 metadata.example\n" },
      ["service.example", "ten.example", "metadata.example"],
    ),
);

/** Loopback address of a name server of the test, where it may have the port of one. */
const NAME_SERVER = "127.98.76.54";

async function canServeNames(): Promise<boolean> {
  try {
    await using _server = await nameServer(NAME_SERVER, {}, 53);
    return true;
  } catch {
    return false;
  }
}

Deno.test("nor does the answer of a name server", { ignore: !canMount() || !await canServeNames() }, async () => {
  await using server = await nameServer(NAME_SERVER, {
    "service.example": { a: "127.0.0.1" },
    "six.example": { aaaa: [...Array<number>(15).fill(0), 1] },
    "mapped.example": { aaaa: [...Array<number>(10).fill(0), 0xff, 0xff, 10, 0, 0, 1] },
  }, 53);
  const names = ["service.example", "six.example", "mapped.example"];
  await privateNames(
    { "/etc/resolv.conf": `nameserver ${NAME_SERVER}\n`, "/etc/hosts": "127.0.0.1 localhost\n" },
    names,
  );
  for (const name of names) assert.ok(server.asked.includes(`${name} A`), server.asked.join());
});
