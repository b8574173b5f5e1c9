/**
 * Both planes at a real door, over raw sockets (seed resource-plane).
 *
 * @module
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mint, newNonce, PeerMintKey } from "../../planes/handle.ts";
import { answerListing, answerRead, type OperatorPlane } from "../../planes/operator_plane.ts";
import { handlePeerRequest, type PeerPlane } from "../../planes/peer_plane.ts";
import { type ExportFolder, exportFolder, SECRET } from "../../tests/support/export_folder.ts";
import { type LocalDoor, openLocalDoor } from "../../tests/support/local_door.ts";
import { type RawAnswer, rawAnswer, rawRequest } from "../../tests/support/raw_answer.ts";
import type { PlaneRecord } from "./door_session.ts";
import { PlaneEndpoint } from "./plane_endpoint.ts";

const AUDIENCE = "reporter@localhost:41234";
const NOW = 1_787_577_400_000;
const MTIME = 1_787_577_327_015;
const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

interface Planes extends AsyncDisposable {
  readonly folder: ExportFolder;
  readonly door: LocalDoor;
  readonly key: PeerMintKey;
  readonly records: PlaneRecord[];
  /** Moves the clock of the peer plane on, in milliseconds. */
  later(ms: number): void;
  ask(path: string, method?: string, headers?: string): Promise<RawAnswer>;
  /** A handle of this instance. */
  handle(path: string, more?: { readonly exp?: number; readonly audience?: string }): string;
}

interface Setup {
  readonly symlinks?: "refused" | "followed-inside";
  readonly maxBytes?: number;
  readonly planes?: "both" | "operator" | "peer" | "none";
  readonly listingMs?: number;
  readonly stallMs?: number;
  readonly roomMs?: number;
  readonly door?: Parameters<typeof openLocalDoor>[0];
}

function openPlanes(setup: Setup = {}): Planes {
  const { symlinks = "followed-inside", maxBytes = 1_000, planes = "both", stallMs = 5_000, roomMs = 5_000 } = setup;
  const folder = exportFolder();
  const key = PeerMintKey.generate();
  const records: PlaneRecord[] = [];
  let shift = 0;
  const common = folder.plane(symlinks, maxBytes);
  const operator: OperatorPlane = { ...common, listingMs: setup.listingMs ?? 60_000 };
  const peer: PeerPlane = { ...common, sessionId: "ses_1", key, maxTtlSeconds: 60, now: () => NOW + shift };
  const record = (line: PlaneRecord) => void records.push(line);
  const door = openLocalDoor({
    ...setup.door,
    recordPlane: record,
    ...(planes === "none" ? {} : {
      planes: new PlaneEndpoint({
        operator: planes === "peer" ? null : operator,
        peer: planes === "operator" ? null : peer,
        record,
        stallMs,
        roomMs,
      }),
    }),
  });
  return {
    folder,
    door,
    key,
    records,
    later: (ms) => void (shift += ms),
    ask: async (path, method = "GET", headers = "") =>
      rawAnswer(await door.raw(rawRequest(path, method, headers), 3_000)),
    handle: (path, { exp = NOW + 1_000, audience = AUDIENCE } = {}) =>
      mint(key, { v: 1, iss: "ses_1", p: path, exp, n: newNonce() }, audience),
    async [Symbol.asyncDispose]() {
      await door[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
      key.destroy();
    },
  };
}

/** Files and links that the rows of the tables are about. */
function fill({ folder: { out, work } }: Planes): void {
  Deno.writeTextFileSync(`${out}/report.md`, "hello");
  Deno.utimeSync(`${out}/report.md`, 0, MTIME / 1_000);
  Deno.mkdirSync(`${out}/dir`);
  Deno.writeTextFileSync(`${out}/dir/100%.txt`, "percent");
  Deno.writeFileSync(`${out}/large`, new Uint8Array(1_001));
  Deno.symlinkSync("report.md", `${out}/near`);
  Deno.symlinkSync(`${work}/secret.txt`, `${out}/far`);
  // More than fits into any memory, in a hole.
  using hole = Deno.openSync(`${out}/hole`, { write: true, create: true });
  hole.truncateSync(1e13);
}

const last = ({ records }: Planes) => records.at(-1)!;

function refusedWith(answer: RawAnswer, status: number, error: string): void {
  assert.equal(answer.status, status, answer.body);
  const { error: code, message, ...rest } = JSON.parse(answer.body);
  assert.deepEqual([code, typeof message, rest], [error, "string", {}]);
  assert.equal(answer.header("content-type"), "application/json");
  assert.equal(answer.header("connection"), "close");
  assert.equal(answer.header("content-length"), String(new TextEncoder().encode(answer.body).length));
}

Deno.test("the operator plane answers every row of its table, and its trace says the same", async () => {
  await using planes = openPlanes();
  fill(planes);
  const { ask } = planes;
  const read = await ask("/resources/files/report.md");
  assert.equal(read.status, 200);
  assert.equal(read.body, "hello");
  assert.deepEqual(read.headers.map(([name, value]) => `${name}: ${value}`), [
    "content-type: application/octet-stream",
    `etag: "sha256:${sha256("hello")}"`,
    `x-murmur-mtime-ms: ${MTIME}`,
    "x-murmur-generation: 7",
    "x-murmur-containment: sealed",
    "x-murmur-export-root: out/",
    "connection: close",
    "content-length: 5",
  ]);
  assert.deepEqual(last(planes), {
    type: "resource_read",
    body: {
      path: "report.md",
      outcome: "ok",
      bytes: 5,
      sha256: sha256("hello"),
      generation: 7,
      containment_achieved: "sealed",
      reason: null,
    },
  });
  assert.equal((await ask("/resources/files/near")).body, "hello");
  assert.equal((await ask("/resources/files/dir%2F100%25.txt")).body, "percent");

  const rows: readonly (readonly [string, number, string, string?])[] = [
    ["/resources/files/nothing", 404, "not_found"],
    ["/resources/files/report.md/x", 404, "not_found"],
    ["/resources/files/%ff", 404, "not_found", "\ufffd"],
    ["/resources/files/a%2", 404, "not_found", "a%2"],
    ["/resources", 404, "not_found", "/resources"],
    ["/resources/", 404, "not_found", "/resources/"],
    ["/resources/other", 404, "not_found", "/resources/other"],
    ["/resources/filesystem", 404, "not_found", "/resources/filesystem"],
    ["/resources/../control", 404, "not_found", "/resources/../control"],
    ["/resources/files/", 403, "outside_root", ""],
    ["/resources/files//etc/passwd", 403, "outside_root", "/etc/passwd"],
    ["/resources/files/%2fetc/passwd", 403, "outside_root", "/etc/passwd"],
    ["/resources/files/../secret.txt", 403, "outside_root", "../secret.txt"],
    ["/resources/files/%2e%2e/secret.txt", 403, "outside_root", "../secret.txt"],
    ["/resources/files/..%2fsecret.txt", 403, "outside_root", "../secret.txt"],
    ["/resources/files/dir/../report.md", 403, "outside_root", "dir/../report.md"],
    ["/resources/files/./report.md", 403, "outside_root", "./report.md"],
    ["/resources/files/report.md/", 403, "outside_root", "report.md/"],
    ["/resources/files/report.md%00", 403, "outside_root", "report.md\0"],
    ["/resources/files/far", 403, "outside_root"],
    ["/resources/files/%252e%252e/secret.txt", 404, "not_found", "%2e%2e/secret.txt"],
    ["/resources/files/..\\secret.txt", 404, "not_found", "..\\secret.txt"],
    ["/resources/files/dir", 403, "not_a_regular_file"],
    ["/resources/files/large", 413, "too_large"],
    ["/resources/files/hole", 413, "too_large"],
  ];
  for (const [path, status, error, recorded = path.slice("/resources/files/".length)] of rows) {
    const answer = await ask(path);
    refusedWith(answer, status, error);
    const { type, body } = last(planes);
    assert.equal(type, "resource_read", path);
    assert.deepEqual(
      { ...body, reason: "" },
      {
        path: recorded,
        outcome: error,
        bytes: null,
        sha256: null,
        generation: 7,
        containment_achieved: "sealed",
        reason: "",
      },
    );
    assert.equal(body.reason, JSON.parse(answer.body).message);
  }
  for (
    const path of [
      "/resources/files",
      "/resources/files/report.md",
      "/resources/files/nothing",
      "/resources",
      "/resources/x",
    ]
  ) {
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "MKCOL", "TRACE", "get"]) {
      const answer = await ask(path, method);
      refusedWith(answer, 405, "method_not_allowed");
      assert.equal(answer.header("allow"), "GET");
    }
    const head = rawAnswer(await planes.door.raw(rawRequest(path, "HEAD"), 100));
    assert.deepEqual([head.status, head.header("allow"), head.body], [405, "GET", ""]);
    assert.equal(last(planes).type, path === "/resources/files" ? "resource_list" : "resource_read");
    assert.equal(last(planes).body.outcome, "method_not_allowed");
  }
});

Deno.test("an error of the reader is one too: a file that fits into no memory, a listing that takes too long", async () => {
  await using planes = openPlanes({ maxBytes: 1e15, listingMs: 200 });
  fill(planes);
  refusedWith(await planes.ask("/resources/files/hole"), 500, "io_error");
  refusedWith(await planes.ask("/resources/files"), 500, "io_error");
  assert.deepEqual({ ...last(planes).body, reason: "" }, {
    root: "out/",
    entry_count: 0,
    total_bytes: 0,
    generation: 7,
    containment_achieved: "sealed",
    outcome: "io_error",
    reason: "",
  });
  const handle = planes.handle("hole");
  refusedWith(
    await planes.ask(`/resources/peer/${handle}`, "GET", `x-murmur-audience: ${AUDIENCE}\r\n`),
    500,
    "io_error",
  );
});

Deno.test("under scoped every link is refused, and left out of listings", async () => {
  await using planes = openPlanes({ symlinks: "refused" });
  Deno.writeTextFileSync(`${planes.folder.out}/report.md`, "hello");
  Deno.symlinkSync("report.md", `${planes.folder.out}/near`);
  refusedWith(await planes.ask("/resources/files/near"), 403, "symlink_refused");
  const handle = planes.handle("near");
  refusedWith(
    await planes.ask(`/resources/peer/${handle}`, "GET", `x-murmur-audience: ${AUDIENCE}\r\n`),
    403,
    "symlink_refused",
  );
  const listed = await planes.ask("/resources/files");
  assert.equal(listed.header("content-type"), "application/json");
  const { mtime } = Deno.statSync(`${planes.folder.out}/report.md`);
  assert.equal(
    listed.body,
    `{"root":"out/","mode":"read-only","max_bytes":1000,"generation":7,"containment_achieved":"scoped","entries":[` +
      `{"path":"report.md","size_bytes":5,"mtime_ms":${mtime!.getTime()},"sha256":"${sha256("hello")}"}]}`,
  );
});

Deno.test("conditions, ranges and queries select nothing", async () => {
  await using planes = openPlanes();
  Deno.writeTextFileSync(`${planes.folder.out}/report.md`, "hello");
  for (
    const [path, headers] of [
      ["/resources/files/report.md", `If-None-Match: "sha256:${sha256("hello")}"\r\n`],
      ["/resources/files/report.md", "Range: bytes=1-2\r\nIf-Modified-Since: Sun, 01 Jan 2090 00:00:00 GMT\r\n"],
      ["/resources/files/report.md", 'If-Match: "x"\r\nAccept-Encoding: gzip, br\r\n'],
      ["/resources/files/report.md?generation=3&path=../secret.txt", ""],
    ] as const
  ) {
    const answer = await planes.ask(path, "GET", headers);
    assert.deepEqual([answer.status, answer.body], [200, "hello"]);
    assert.equal(answer.header("content-encoding"), null);
  }
  assert.equal((await planes.ask("/resources/files?x=/..")).status, 200);
});

Deno.test("the peer plane answers every row of its table, in the seed's order, and its trace says the same", async () => {
  await using planes = openPlanes();
  fill(planes);
  const { ask, handle, key } = planes;
  const audience = `X-Murmur-Audience: ${AUDIENCE}\r\n`;
  const good = handle("report.md");
  const id = sha256(good).slice(0, 16);
  for (let again = 0; again < 3; again++) {
    const read = await ask(`/resources/peer/${good}`, "GET", audience);
    assert.equal(read.body, "hello");
    assert.deepEqual(read.headers.map(([name, value]) => `${name}: ${value}`), [
      "content-type: application/octet-stream",
      `etag: "sha256:${sha256("hello")}"`,
      `x-murmur-mtime-ms: ${MTIME}`,
      "x-murmur-generation: 7",
      "x-murmur-containment: sealed",
      `x-murmur-handle-id: ${id}`,
      "connection: close",
      "content-length: 5",
    ]);
    assert.deepEqual(last(planes), {
      type: "peer_handle_redeem",
      body: {
        handle_id: id,
        path: "report.md",
        generation: 7,
        audience_asserted: AUDIENCE,
        bytes: 5,
        sha256: sha256("hello"),
        outcome: "ok",
        reason: null,
      },
    });
  }
  using other = PeerMintKey.generate();
  const foreign = mint(other, { v: 1, iss: "ses_2", p: "report.md", exp: 1, n: newNonce() }, AUDIENCE);
  const [, segment, code] = good.split(".");
  const signed = (payload: object) => {
    const text = new TextEncoder().encode(JSON.stringify(payload)).toBase64({
      alphabet: "base64url",
      omitPadding: true,
    });
    return `mh1.${text}.${key.code(text, AUDIENCE)}`;
  };
  const rows: readonly (readonly [string, string, number, string, string | null])[] = [
    ["", audience, 404, "not_found", null],
    ["mh1", "", 400, "malformed_handle", null],
    ["mh1.x", "", 400, "malformed_handle", null],
    [`mh2.${segment}.${code}`, "", 400, "malformed_handle", null],
    [`${good}/`, audience, 400, "malformed_handle", null],
    [`${good}.x`, audience, 400, "malformed_handle", null],
    ["report.md", audience, 400, "malformed_handle", null],
    ["..%2ffiles", audience, 400, "malformed_handle", null],
    [signed({ v: 2, iss: "s", p: "report.md", exp: NOW + 1, n: "0" }), audience, 400, "malformed_handle", null],
    [good, "", 400, "missing_audience", null],
    [good, "X-Murmur-Audience:\r\n", 400, "missing_audience", null],
    // Before its code is looked at.
    [foreign, "", 400, "missing_audience", null],
    [good, "X-Murmur-Audience: thief@localhost:41234\r\n", 403, "handle_not_valid", null],
    [good, `X-Murmur-Audience: ${AUDIENCE.toUpperCase()}\r\n`, 403, "handle_not_valid", null],
    [good, audience + audience, 403, "handle_not_valid", null],
    [`mh1.${segment}.${code!.slice(0, -4)}AAAA`, audience, 403, "handle_not_valid", null],
    // Neither its expiry nor its path is looked at before its code.
    [foreign, audience, 403, "handle_not_valid", null],
    [handle("nothing", { audience: "x", exp: 1 }), audience, 403, "handle_not_valid", null],
    [handle("nothing", { exp: NOW }), audience, 410, "handle_expired", "nothing"],
    [handle("../secret.txt"), audience, 403, "outside_root", "../secret.txt"],
    [handle("/etc/passwd"), audience, 403, "outside_root", "/etc/passwd"],
    [handle("far"), audience, 403, "outside_root", "far"],
    [handle("nothing"), audience, 404, "not_found", "nothing"],
    [handle("dir"), audience, 403, "not_a_regular_file", "dir"],
    [handle("large"), audience, 413, "too_large", "large"],
  ];
  const bodies = new Set<string>();
  for (const [token, headers, status, error, path] of rows) {
    const answer = await ask(`/resources/peer/${token}`, "GET", headers);
    refusedWith(answer, status, error);
    if (error === "handle_not_valid") bodies.add(answer.body);
    const { type, body } = last(planes) as PlaneRecord & { readonly type: "peer_handle_redeem" };
    assert.equal(type, "peer_handle_redeem");
    assert.deepEqual([body.handle_id, body.path, body.outcome], [sha256(token).slice(0, 16), path, error]);
    assert.ok(!/mh1\.[A-Za-z0-9_-]/.test(JSON.stringify([answer, body])));
  }
  assert.equal(bodies.size, 1);
  refusedWith(await ask("/resources/peer", "GET", audience), 404, "not_found");
  for (const path of ["/resources/peer", "/resources/peer/", `/resources/peer/${good}`]) {
    for (const method of ["POST", "PUT", "DELETE", "PROPFIND"]) {
      const answer = await ask(path, method, audience);
      refusedWith(answer, 405, "method_not_allowed");
      assert.equal(answer.header("allow"), "GET");
    }
  }
  // A file whose name holds what a request would encode.
  const percent = await ask(`/resources/peer/${handle("dir/100%.txt")}`, "GET", audience);
  assert.equal(percent.body, "percent");
});

Deno.test("a file rewritten between redeems is served as it is then", async () => {
  await using planes = openPlanes();
  const token = planes.handle("f");
  const ask = async () => {
    const answer = await planes.ask(`/resources/peer/${token}`, "GET", `x-murmur-audience: ${AUDIENCE}\r\n`);
    return [answer.body, answer.header("etag")];
  };
  for (const text of ["one", "two, longer", ""]) {
    Deno.writeTextFileSync(`${planes.folder.out}/f`, text);
    assert.deepEqual(await ask(), [text, `"sha256:${sha256(text)}"`]);
  }
});

Deno.test("a handle is good until the clock reaches its expiry, and never again", async () => {
  await using planes = openPlanes();
  Deno.writeTextFileSync(`${planes.folder.out}/f`, "text");
  const token = planes.handle("f", { exp: NOW + 60_000 });
  const status = async () =>
    (await planes.ask(`/resources/peer/${token}`, "GET", `x-murmur-audience: ${AUDIENCE}\r\n`)).status;
  for (const [ms, expected] of [[0, 200], [59_999, 200], [1, 410], [86_400_000, 410]] as const) {
    planes.later(ms);
    assert.equal(await status(), expected, String(ms));
  }
});

Deno.test("each plane is refused where it is not declared, whatever the other is, and the trace tells", async () => {
  const audience = `x-murmur-audience: ${AUDIENCE}\r\n`;
  for (const [declared, operator, peer] of [["none", 404, 404], ["operator", 200, 404], ["peer", 404, 200]] as const) {
    await using planes = openPlanes({ planes: declared });
    Deno.writeTextFileSync(`${planes.folder.out}/f`, "text");
    const token = planes.handle("f");
    const [listed, read] = [await planes.ask("/resources/files"), await planes.ask("/resources/files/f%2e")];
    assert.equal(listed.status, operator);
    if (operator === 404) {
      for (const answer of [listed, read, await planes.ask("/resources/x")]) {
        refusedWith(answer, 404, "no_resource_plane");
      }
      const reason = "this capsule declares no exports.files";
      const common = { generation: 0, containment_achieved: "advisory", outcome: "no_resource_plane", reason };
      assert.deepEqual(planes.records.slice(0, 2), [
        { type: "resource_list", body: { root: "", entry_count: 0, total_bytes: 0, ...common } },
        { type: "resource_read", body: { path: "f.", bytes: null, sha256: null, ...common } },
      ]);
      refusedWith(await planes.ask("/resources/files", "PUT"), 405, "method_not_allowed");
    }
    const redeemed = await planes.ask(`/resources/peer/${token}`, "GET", audience);
    assert.equal(redeemed.status, peer);
    if (peer === 404) {
      refusedWith(redeemed, 404, "no_peer_plane");
      for (const path of ["/resources/peer", "/resources/peer/"]) {
        refusedWith(await planes.ask(path), 404, "no_peer_plane");
      }
      const line = planes.records.find(({ type }) => type === "peer_handle_redeem");
      assert.deepEqual(line!.body, {
        handle_id: sha256(token).slice(0, 16),
        path: null,
        generation: 0,
        audience_asserted: AUDIENCE,
        bytes: null,
        sha256: null,
        outcome: "no_peer_plane",
        reason: "this capsule declares no exports.peer_files",
      });
      refusedWith(await planes.ask("/resources/peer/x", "POST"), 405, "method_not_allowed");
    }
  }
});

Deno.test("before either plane stand the door's rules: hosts, origins, tokens and scopes", async () => {
  await using planes = openPlanes({
    door: { credentials: { reader: ["resources/files"], sender: ["SendMessage"] }, origins: ["https://ui.example"] },
  });
  Deno.writeTextFileSync(`${planes.folder.out}/f`, "text");
  const { door, records, ask } = planes;
  const token = planes.handle("f");
  const paths = ["/resources/files", "/resources/files/f", `/resources/peer/${token}`];
  for (const path of paths) {
    for (
      const [head, error] of [
        ["Host: evil.example\r\n", "host_not_allowed"],
        ["Host: localhost\r\nOrigin: https://evil.example\r\n", "origin_not_allowed"],
        ["Host: localhost\r\nOrigin: null\r\n", "origin_not_allowed"],
      ] as const
    ) {
      const answer = rawAnswer(await door.raw(`GET ${path} HTTP/1.1\r\n${head}Connection: close\r\n\r\n`));
      assert.deepEqual([answer.status, JSON.parse(answer.body).error], [403, error]);
    }
  }
  assert.equal(records.length, 0);
  refusedStatus(await ask("/resources/files/f"), 401);
  const bearer = (name: string) => `Authorization: Bearer ${door.tokens!.credentials().get(name)!}\r\n`;
  refusedWith(await ask("/resources/files/f", "GET", bearer("sender")), 403, "insufficient_scope");
  refusedWith(await ask("/resources/files/f", "PUT", bearer("sender")), 403, "insufficient_scope");
  assert.equal(records.length, 0);
  const read = await ask("/resources/files/f", "GET", `${bearer("reader")}Origin: https://ui.example\r\n`);
  assert.deepEqual([read.status, read.body, read.header("access-control-allow-origin")], [200, "text", null]);
  // The handle is the credential of the peer plane.
  const redeemed = await ask(`/resources/peer/${token}`, "GET", `x-murmur-audience: ${AUDIENCE}\r\n`);
  assert.equal(redeemed.body, "text");
});

function refusedStatus(answer: RawAnswer, status: number): void {
  assert.equal(answer.status, status);
}

Deno.test("large files reach every reader whole, within the room for them; who takes nothing is cut off", async () => {
  await using planes = openPlanes({ maxBytes: 64 << 20, stallMs: 3_000, roomMs: 60_000 });
  const bytes = new Uint8Array(10 << 20);
  for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  Deno.writeFileSync(`${planes.folder.out}/large`, bytes);
  const hash = sha256(bytes);
  const { port } = planes.door;
  // These ask and read nothing: they hold all the room there is until they are cut off.
  const stalled = await Promise.all(Array.from({ length: 3 }, async () => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await connection.write(new TextEncoder().encode(rawRequest("/resources/files/large")));
    return connection;
  }));
  const started = performance.now();
  const read = async () => {
    const response = await fetch(`http://localhost:${port}/resources/files/large`);
    const body = await response.bytes();
    return [response.headers.get("etag"), response.headers.get("content-length"), sha256(body)];
  };
  const answers = await Promise.all(Array.from({ length: 12 }, read));
  for (const answer of answers) assert.deepEqual(answer, [`"sha256:${hash}"`, String(bytes.length), hash]);
  assert.ok(performance.now() - started < 60_000);
  for (const connection of stalled) connection.close();
  // What is small passes whatever waits.
  Deno.writeTextFileSync(`${planes.folder.out}/small`, "small");
  assert.equal((await planes.ask("/resources/files/small")).body, "small");
});

Deno.test("the generation is that of the moment the bytes were opened, not of the request that waited for room", async () => {
  using folder = exportFolder();
  Deno.writeFileSync(`${folder.out}/large`, new Uint8Array(100_000));
  let ended = 0;
  const plane: OperatorPlane = { ...folder.plane("followed-inside"), generation: () => ended };
  const key = PeerMintKey.generate();
  const peer: PeerPlane = { ...plane, sessionId: "ses_1", key, maxTtlSeconds: 60, now: () => NOW };
  const rawPath = `/resources/peer/${
    mint(key, { v: 1, iss: "ses_1", p: "large", exp: NOW + 1, n: newNonce() }, AUDIENCE)
  }`;
  // A task ends while the answer waits.
  const wait = <T>(given: T) => Promise.resolve().then(() => (ended++, given));
  const told = (answer: { readonly headers: readonly (readonly [string, string])[] }) =>
    answer.headers.find(([name]) => name === "x-murmur-generation")?.[1];
  const read = await answerRead(plane, "GET", "/resources/files/large", () => wait(true));
  assert.deepEqual([told(read), read.record.body.generation], ["1", 1]);
  const redeemed = await handlePeerRequest(peer, { method: "GET", rawPath, audience: AUDIENCE }, () => wait(true));
  assert.deepEqual([told(redeemed), redeemed.record.body.generation], ["2", 2]);
  const listed = await answerListing(plane, "GET", () => wait({ release() {} }), () => true);
  assert.equal(JSON.parse(new TextDecoder().decode(listed.body as Uint8Array<ArrayBuffer>)).generation, 3);
  assert.equal(listed.record.body.generation, 3);
  key.destroy();
});

Deno.test("a large file for which there is no room in time is refused, and told to come again", async () => {
  await using planes = openPlanes({ maxBytes: 64 << 20, stallMs: 10_000, roomMs: 200 });
  Deno.writeFileSync(`${planes.folder.out}/large`, new Uint8Array(40 << 20));
  const { port } = planes.door;
  const first = await Deno.connect({ hostname: "127.0.0.1", port });
  await first.write(new TextEncoder().encode(rawRequest("/resources/files/large")));
  await first.read(new Uint8Array(1_000));
  const refused = await planes.ask("/resources/files/large");
  refusedWith(refused, 503, "too_many_answers");
  assert.equal(refused.header("retry-after"), "1");
  assert.equal(last(planes).body.outcome, "too_many_answers");
  // The reader goes away, and its room is there again.
  first.close();
  const response = await fetch(`http://localhost:${port}/resources/files/large`);
  assert.equal((await response.bytes()).length, 40 << 20);
});

Deno.test("no path that anybody can think of is served from outside", async () => {
  await using planes = openPlanes();
  const { folder, ask } = planes;
  Deno.mkdirSync(`${folder.out}/dir`);
  Deno.symlinkSync("..", `${folder.out}/dir/up`);
  Deno.symlinkSync(folder.outer, `${folder.out}/away`);
  Deno.symlinkSync(`${folder.work}/secret.txt`, `${folder.out}/far`);
  const pieces = [
    "..",
    "%2e%2e",
    ".%2E",
    "%2f",
    "/",
    "//",
    "%5c",
    "\\",
    "%00",
    "%c0%ae",
    "dir",
    "up",
    "away",
    "far",
    "secret.txt",
    "work",
    ".",
    "%252e",
    ";x",
    "?",
  ];
  let seed = 1;
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  const seen = new Map<number, number>();
  for (let round = 0; round < 600; round++) {
    const path = Array.from(
      { length: 1 + random(7) },
      () => pieces[random(pieces.length)]! + (random(2) === 0 ? "/" : ""),
    ).join("");
    const prefix = ["/resources/files/", "/resources/files", "/resources/"][random(8)] ?? "/resources/files/";
    const answer = await ask(prefix + path);
    seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
    assert.ok(!answer.body.includes(SECRET), path);
  }
  assert.ok((seen.get(403) ?? 0) > 50 && (seen.get(404) ?? 0) > 50, JSON.stringify([...seen]));
});
