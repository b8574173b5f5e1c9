import assert from "node:assert/strict";
import { VERSION } from "../../base/version.ts";
import { createHttpClient, type HttpClient } from "../../base/http_client.ts";
import { type LocalAnswer, withLocalServer } from "../../tests/support/local_server.ts";
import { sha256Hex } from "../sha256.ts";
import type { ArtifactRequest, SourceAnswer } from "./artifact_source.ts";
import {
  chooseAsset,
  githubApiBase,
  GitHubReleases,
  githubSource,
  parseRepository,
  releaseArchives,
} from "./github_source.ts";
import { withCode } from "../../tests/support/error_code.ts";

const BOUNDS = { registryRequest: 2_000 };
const TOKEN = "ghp_secretsecretsecret";

const utf8 = (text: string) => new TextEncoder().encode(text);
const json = (value: unknown, status = 200) => Response.json(value, { status });
const missing = () => json({ message: "Not Found" }, 404);
const release = (tag: string, ...names: string[]) => ({
  tag_name: tag,
  assets: names.map((name, index) => ({ id: 100 + index, name })),
});

function releasesAt(client: HttpClient, url: string, token: string | null = TOKEN, bounds = BOUNDS) {
  return new GitHubReleases({ owner: "Owner", name: "repo" }, token, { send: client.send, apiBase: url, bounds });
}

const WANTED = { name: "a", version: "1.0.0", platform: "linux-x86_64" };

function unanswered(answer: SourceAnswer, pattern: RegExp) {
  assert.equal(answer.kind, "unanswered");
  if (answer.kind === "unanswered") assert.match(answer.reason, pattern);
}

Deno.test("a release is asked for by tag, by v-tag, then as the latest, with user agent, token and media types", async () => {
  const answer: LocalAnswer = (path) => {
    if (path.endsWith("/releases/latest")) return json(release("v1.0.0", "other.mur.zip", "a-1.0.0.mur.zip"));
    if (path.endsWith("/releases/assets/101")) return new Response("zip bytes");
    return missing();
  };
  await withLocalServer(answer, async ({ url, seen }, client) => {
    const found = await githubSource(releasesAt(client, url)).fetch(WANTED);
    assert.deepEqual(found, { kind: "found", bytes: utf8("zip bytes"), sha256: await sha256Hex(utf8("zip bytes")) });
    assert.deepEqual(seen.map(({ path }) => path), [
      "/repos/Owner/repo/releases/tags/1.0.0",
      "/repos/Owner/repo/releases/tags/v1.0.0",
      "/repos/Owner/repo/releases/latest",
      "/repos/Owner/repo/releases/assets/101",
    ]);
    for (const { method, authorization, headers } of seen) {
      assert.equal(method, "GET");
      assert.equal(authorization, `Bearer ${TOKEN}`);
      assert.equal(headers.get("user-agent"), `murmur-cli/${VERSION}`);
    }
    assert.equal(seen[3]!.headers.get("accept"), "application/octet-stream");
  });
});

Deno.test("no token, no authorization header; a version that starts with v is not tried with a second one", async () => {
  await withLocalServer(() => missing(), async ({ url, seen }, client) => {
    const answer = await githubSource(releasesAt(client, url, null)).fetch({ ...WANTED, version: "v2" });
    assert.deepEqual(answer, { kind: "not-found", reason: "no release 'v2'; no release" });
    assert.deepEqual(seen.map(({ path }) => path.split("/releases/")[1]), ["tags/v2", "latest"]);
    assert.ok(seen.every(({ authorization }) => authorization === null));
  });
});

Deno.test("a tag is one path segment whatever it holds", async () => {
  await withLocalServer(() => missing(), async ({ url, seen }, client) => {
    await githubSource(releasesAt(client, url)).fetch({ ...WANTED, version: "v1/../../x?y=#z" });
    assert.equal(seen[0]!.path, "/repos/Owner/repo/releases/tags/v1%2F..%2F..%2Fx%3Fy%3D%23z");
  });
});

Deno.test("a release without the artifact is passed over for the next one", async () => {
  const answer: LocalAnswer = (path) => {
    if (path.endsWith("/tags/1.0.0")) {
      return json(release("1.0.0", "b-1.0.0.mur.zip", "a-1.0.0-darwin-aarch64.mur.zip"));
    }
    if (path.endsWith("/tags/v1.0.0")) return json(release("v1.0.0", "a-1.0.0-linux-x86_64.mur.zip"));
    if (path.endsWith("/assets/100")) return new Response("native");
    return missing();
  };
  await withLocalServer(answer, async ({ url }, client) => {
    assert.equal((await githubSource(releasesAt(client, url)).fetch(WANTED)).kind, "found");
    const other = await githubSource(releasesAt(client, url)).fetch({ ...WANTED, platform: "linux-aarch64" });
    assert.equal(other.kind, "not-found");
  });
});

Deno.test("a download that redirects elsewhere is followed without the token, and stays without it", async () => {
  await withLocalServer(() => new Response("zip bytes"), async (storage, client) => {
    let back = "";
    const answer: LocalAnswer = (path) => {
      if (path.endsWith("/tags/1.0.0")) return json(release("1.0.0", "a-1.0.0.mur.zip"));
      if (path.endsWith("/assets/100")) return Response.redirect(back, 302);
      if (path === "/hop") return Response.redirect(`${storage.url}/signed?x=1`, 307);
      return missing();
    };
    await withLocalServer(answer, async (api) => {
      await withLocalServer(() => Response.redirect(`${api.url}/hop`, 302), async (between) => {
        back = `${between.url}/between`;
        const found = await githubSource(releasesAt(client, api.url)).fetch(WANTED);
        assert.equal(found.kind, "found");
        assert.equal(between.seen[0]!.authorization, null);
        const hop = api.seen.find(({ path }) => path === "/hop");
        assert.equal(hop?.authorization, null, "the token came back after it had been dropped");
      });
    });
    assert.equal(storage.seen[0]!.path, "/signed?x=1");
    assert.equal(storage.seen[0]!.authorization, null);
    assert.equal(storage.seen[0]!.headers.get("user-agent"), `murmur-cli/${VERSION}`);
  });
});

Deno.test("a redirect within the origin keeps the token, a renamed repository for example", async () => {
  const answer: LocalAnswer = (path) => {
    if (path.startsWith("/repos/Owner/")) {
      return new Response(null, { status: 301, headers: { location: "/repositories/7" } });
    }
    return path === "/repositories/7" ? json(release("1.0.0")) : missing();
  };
  await withLocalServer(answer, async ({ url, seen }, client) => {
    await githubSource(releasesAt(client, url)).fetch(WANTED);
    assert.equal(seen[1]!.path, "/repositories/7");
    assert.equal(seen[1]!.authorization, `Bearer ${TOKEN}`);
  });
});

Deno.test("endless redirects, redirects to other schemes and to URLs with user information are not followed", async () => {
  for (
    const location of ["/again", "file:///etc/passwd", "data:text/plain,x", "http://user:pw@127.0.0.1/", "http://["]
  ) {
    const answer: LocalAnswer = () => new Response(null, { status: 302, headers: { location } });
    await withLocalServer(answer, async ({ url, seen }, client) => {
      unanswered(await githubSource(releasesAt(client, url)).fetch(WANTED), /redirects/);
      assert.ok(seen.length <= 6, `${seen.length} requests`);
    });
  }
});

Deno.test("rate limits, refusals, server failures, broken answers and silence are answers that were not given", async () => {
  const cases: [LocalAnswer, RegExp][] = [
    [() => json({}, 429), /rate limit/],
    [() => new Response("{}", { status: 403, headers: { "x-ratelimit-remaining": "0" } }), /rate limit/],
    [() => new Response("{}", { status: 403, headers: { "retry-after": "60" } }), /rate limit/],
    [() => json({ message: "API rate limit exceeded for" }, 403), /rate limit/],
    [() => json({ message: "Forbidden" }, 403), /HTTP 403, the token was refused/],
    [() => json({ message: "Bad credentials" }, 401), /HTTP 401, the token was refused/],
    [() => json({}, 502), /HTTP 502/],
    [() => new Response("<html>", { status: 200 }), /not a release in JSON/],
    [() => json({ tag_name: "x", assets: [{ id: "../1", name: "a" }] }), /not a release in JSON/],
    [() => new Response("{}", { headers: { "content-encoding": "br" } }), /content encoding/],
  ];
  for (const [answer, pattern] of cases) {
    await withLocalServer(answer, async ({ url }, client) => {
      const given = await githubSource(releasesAt(client, url)).fetch(WANTED);
      unanswered(given, pattern);
      assert.ok(!JSON.stringify(given).includes(TOKEN));
    });
  }
  const client = createHttpClient();
  unanswered(await githubSource(releasesAt(client, "http://127.0.0.1:1")).fetch(WANTED), /./);
  client.close();
});

Deno.test("a server that starts to answer and stops is left after the time bound", async () => {
  const answer: LocalAnswer = (path) => {
    if (path.endsWith("/tags/1.0.0")) return json(release("1.0.0", "a-1.0.0.mur.zip"));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(utf8("PK"));
        timer = setTimeout(() => controller.close(), 60_000);
      },
      cancel: () => clearTimeout(timer),
    });
    return new Response(body);
  };
  await withLocalServer(answer, async ({ url }, client) => {
    const started = Date.now();
    unanswered(
      await githubSource(releasesAt(client, url, null, { registryRequest: 200 })).fetch(WANTED),
      /no answer for/,
    );
    assert.ok(Date.now() - started < 5_000);
  });
});

Deno.test("an answer larger than its bound is given up while it comes", async () => {
  const answer: LocalAnswer = () =>
    new Response(
      new ReadableStream({
        pull: (controller) => controller.enqueue(new Uint8Array(1 << 20).fill(32)),
      }),
    );
  await withLocalServer(answer, async ({ url }, client) => {
    unanswered(await githubSource(releasesAt(client, url)).fetch(WANTED), /more than 4194304 bytes/);
  });
});

Deno.test("bytes that do not have the digest the service tells are E-REG-002", async () => {
  const answer: LocalAnswer = (path) =>
    path.endsWith("/assets/1")
      ? new Response("changed")
      : json({ tag_name: "1", assets: [{ id: 1, name: "a-1.0.0.mur.zip", digest: `sha256:${"0".repeat(64)}` }] });
  await withLocalServer(answer, async ({ url }, client) => {
    await assert.rejects(
      () => githubSource(releasesAt(client, url)).fetch(WANTED),
      withCode("E-REG-002", /a-1\.0\.0\.mur\.zip/),
    );
  });
});

Deno.test("a token with characters no header can carry is not sent and not shown", async () => {
  await withLocalServer(() => missing(), async ({ url, seen }, client) => {
    const given = await githubSource(releasesAt(client, url, "secret\nvalue")).fetch(WANTED);
    unanswered(given, /cannot be sent/);
    assert.ok(!JSON.stringify(given).includes("secret"));
    assert.equal(seen.length, 0);
  });
});

Deno.test("a github: reference gives every archive of the release and nothing else", async () => {
  const answer: LocalAnswer = (path) => {
    if (path.endsWith("/tags/v1")) return json(release("v1", "a-1.mur.zip", "checksums.txt", "b-2.mur.zip"));
    if (path.endsWith("/tags/empty")) return json(release("empty", "checksums.txt"));
    if (path.endsWith("/tags/limited")) return json({}, 429);
    return path.includes("/assets/") ? new Response(path.split("/").at(-1)!) : missing();
  };
  await withLocalServer(answer, async ({ url }, client) => {
    const archives = await releaseArchives(releasesAt(client, url), "v1");
    assert.deepEqual(archives.map(({ asset, artifact }) => [asset, new TextDecoder().decode(artifact.bytes)]), [
      ["a-1.mur.zip", "100"],
      ["b-2.mur.zip", "102"],
    ]);
    await assert.rejects(
      () => releaseArchives(releasesAt(client, url), "none"),
      withCode("E-REG-001", /github:Owner\/repo — no release 'none'/),
    );
    await assert.rejects(
      () => releaseArchives(releasesAt(client, url), "empty"),
      withCode("E-REG-001", /no \.mur\.zip asset/),
    );
    await assert.rejects(
      () => releaseArchives(releasesAt(client, url), "limited"),
      withCode("E-REG-006", /rate limit[^]*GITHUB_TOKEN/),
    );
  });
});

Deno.test("assets are tried by platform first, and a wildcard takes no other artifact and no other platform", () => {
  const choose = (names: string[], request: Partial<ArtifactRequest> = {}) =>
    chooseAsset(names.map((name, id) => ({ id, name, digest: null })), { ...WANTED, ...request })?.name;
  const latest = { version: null };
  assert.equal(choose(["a-1.0.0.mur.zip", "a-1.0.0-linux-x86_64.mur.zip"]), "a-1.0.0-linux-x86_64.mur.zip");
  assert.equal(
    choose(["a-1.0.0.mur.zip", "a-1.0.0-linux-x86_64.mur.zip"], { platform: "darwin-aarch64" }),
    "a-1.0.0.mur.zip",
  );
  assert.equal(choose(["a-2.0.0.mur.zip", "a.mur.zip"]), undefined);
  assert.equal(choose(["a-b-1.0.0.mur.zip", "a-1.0.0.mur.zip"], latest), "a-1.0.0.mur.zip");
  assert.equal(choose(["a-1.mur.zip", "a.mur.zip", "a-1-linux-x86_64.mur.zip"], latest), "a-1-linux-x86_64.mur.zip");
  assert.equal(choose(["a-1.mur.zip", "a.mur.zip"], latest), "a.mur.zip");
  assert.equal(choose(["a-1-darwin-aarch64.mur.zip"], latest), undefined);
  assert.equal(choose(["a-darwin-aarch64.mur.zip", "a-linux-x86_64.mur.zip"], latest), undefined);
  assert.equal(choose(["b-a-1.mur.zip", "a-.mur.zip", "a-1.zip"], latest), undefined);
  assert.equal(choose(["a-nightly.mur.zip"], latest), "a-nightly.mur.zip");
});

Deno.test("a repository is owner/repo and nothing that changes the path of a request", () => {
  assert.deepEqual(parseRepository("Owner-1/re.po_x"), { owner: "Owner-1", name: "re.po_x" });
  for (const bad of ["", "a", "a/", "/b", "a/b/c", "a/..", "a/.", "../b", "a/b?c", "a b/c", "a/b#c", "a%2f/b"]) {
    assert.equal(parseRepository(bad), null, bad);
  }
});

Deno.test("the API base is a plain http URL without its trailing slash, or refused", () => {
  const base = (value?: string) => githubApiBase({ get: () => value });
  assert.equal(base(), "https://api.github.com");
  assert.equal(base(""), "https://api.github.com");
  assert.equal(base("http://127.0.0.1:9/api/v3/"), "http://127.0.0.1:9/api/v3");
  for (const bad of ["nonsense", "file:///x", "http://u:p@h/", "http://h/?q", "http://h/#f"]) {
    assert.throws(() => base(bad), withCode("E-IO-003", /MUR_GITHUB_API_BASE/));
  }
});
