import assert from "node:assert/strict";
import fc from "fast-check";
import { checkoutHelper } from "./confine_helper.ts";
import { type CommandRecord, type ConfineRecord, encodeRecords } from "./confine_records.ts";
import { ControlConnection, ControlSocket, encodeFrame, FRAME, parseFailed } from "./confine_control.ts";
import { ConfinedPlace } from "./testing/confined_place.ts";
import { buildSanitized, confineSource } from "./testing/sanitized_helper.ts";

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

const path = fc.array(fc.stringMatching(/^[a-zA-Z0-9_ äß.-]{1,8}$/), { minLength: 1, maxLength: 4 })
  .map((parts) => "/" + parts.map((part) => part === "." || part === ".." ? "x" : part).join("/"));
const number = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const presence = fc.constantFrom("req", "opt");

/** Any record of a command but the four that must be there. */
const anyRecord: fc.Arbitrary<CommandRecord> = fc.oneof(
  fc.record({ op: fc.constant("join"), pid: fc.integer({ min: 1, max: 4_000_000 }), netns: fc.integer({ min: 1 }) }),
  fc.record({ op: fc.constant("unix"), allowed: fc.boolean() }),
  fc.record({
    op: fc.constant("rlimit"),
    name: fc.constantFrom("nproc", "nofile", "fsize", "cpu", "as"),
    value: number,
  }),
  fc.record({ op: fc.constant("cgroup"), path }),
  fc.record({
    op: fc.constant("watch"),
    name: fc.constantFrom("memory_bytes", "cgroup_memory_bytes", "cgroup_pids_max"),
    value: fc.integer({ min: 1 }),
  }),
  fc.record({
    op: fc.constant("rule"),
    rights: fc.constantFrom("W", "WX", "RX", "RXL", "R", "RL", "DRW"),
    presence,
    path,
  }),
  fc.record({ op: fc.constant("abi"), atMost: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ op: fc.constant("pidns"), own: fc.boolean() }),
  fc.record({ op: fc.constant("rw"), exec: fc.boolean(), path }),
  fc.record({ op: fc.constant("rebind"), exec: fc.boolean(), path }),
  fc.record({ op: fc.constant("tmpmap"), exec: fc.boolean(), path }),
  fc.record({ op: fc.constant("protect"), how: fc.constantFrom("ro", "dir"), path }),
  fc.record({ op: fc.constant("hold"), path }),
) as fc.Arbitrary<CommandRecord>;

const ONCE = new Set(["join", "unix", "abi", "pidns", "tmpmap"]);

/** Records of a command of the tier `full` that can be. */
const command: fc.Arbitrary<CommandRecord[]> = fc.tuple(
  path,
  fc.array(fc.stringMatching(/^[^\0]{0,20}$/), { minLength: 1, maxLength: 5 }),
  fc.array(anyRecord, { maxLength: 30 }),
).map(([program, argv, rest]) => {
  const seen = new Set<string>();
  return [
    { op: "tier", tier: "full" },
    { op: "exec", path: program, argv },
    { op: "ids", uid: 1, gid: 2 },
    { op: "cwd", path: program },
    { op: "mounts", own: true },
    ...rest.filter(({ op }) => !ONCE.has(op) || (!seen.has(op) && seen.add(op))),
  ];
});

Deno.test("records are strings that end in NUL, the version first", () => {
  assert.equal(
    text(encodeRecords([
      { op: "tier", tier: "sealed" },
      { op: "exec", path: "/bin/sh", argv: ["sh", "-c", ""] },
      { op: "unix", allowed: true },
      { op: "bind", access: "ro", presence: "opt", source: "/a", target: "/b" },
      { op: "seal" },
    ])),
    ["version", "1", "tier", "sealed", "exec", "/bin/sh", "3", "sh", "-c", "", "unix", "1"]
      .concat(["bind", "ro", "opt", "/a", "/b", "seal"])
      .map((word) => `${word}\0`).join(""),
  );
  assert.equal(text(encodeRecords([])), "version\x001\0");
});

Deno.test("an operand that would be cut short or changed on its way is refused", () => {
  for (
    const record of [
      { op: "cwd", path: "/a\0/b" },
      { op: "exec", path: "/a", argv: ["a", "b\0c"] },
      { op: "cwd", path: "/\ud800" },
      { op: "watch", name: "memory_bytes", value: 1.5 },
      { op: "watch", name: "memory_bytes", value: -1 },
      { op: "watch", name: "memory_bytes", value: NaN },
      { op: "rlimit", name: "as", value: 2 ** 60 },
    ] satisfies ConfineRecord[]
  ) assert.throws(() => encodeRecords([record]), { code: "E-IO-003", message: new RegExp(`'${record.op}'`) });
});

/** Sends some bytes as `SPEC`, as a run or a keeper, and gives what the helper answers. */
async function answerTo(place: ConfinedPlace, mode: "run" | "keeper", spec: Uint8Array<ArrayBuffer>) {
  using socket = new ControlSocket(place.control);
  const child = new Deno.Command(await checkoutHelper(), {
    args: [mode, socket.name],
    cwd: socket.directory,
    clearEnv: true,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const control = new ControlConnection((await socket.accept())!);
  await control.send(FRAME.SPEC, spec);
  const frame = await control.next();
  control.close();
  const [status, said] = await Promise.all([child.status, new Response(child.stderr).text()]);
  return { frame, status, said };
}

const words = (...all: string[]) => new TextEncoder().encode(all.map((word) => `${word}\0`).join(""));
const RUN = ["version", "1", "exec", "/bin/true", "1", "true", "ids", "0", "0", "cwd", "/"] as const;
const FULL = [...RUN, "tier", "full"] as const;
const SEALED = [...RUN, "tier", "sealed"] as const;
const TOKEN = "0123456789abcdef".repeat(4);

Deno.test("the helper refuses every list that is not whole before it starts anything", async () => {
  await using place = new ConfinedPlace(await checkoutHelper());
  const refused: readonly (readonly [string, "run" | "keeper", Uint8Array<ArrayBuffer>])[] = [
    ["text behind the last record", "run", new Uint8Array([...words(...FULL), 97])],
    ["no version", "run", words(...FULL.slice(2))],
    ["the version elsewhere", "run", words(...FULL.slice(2), "version", "1")],
    ["another version", "run", words("version", "2", ...FULL.slice(2))],
    ["an unknown operation", "run", words(...FULL, "shell", "x")],
    ["an empty operation", "run", words(...FULL, "")],
    ["a missing operand", "run", words(...FULL, "rule", "R", "req")],
    ["a relative path", "run", words(...FULL, "rule", "R", "req", "etc")],
    ["an empty path", "run", words(...FULL, "cgroup", "")],
    ["a path that climbs", "run", words(...FULL, "mounts", "1", "rw", "noexec", "/tmp/../etc")],
    ["a path with a dot", "run", words(...FULL, "mounts", "1", "rw", "noexec", "/tmp/./etc")],
    ["a path with an empty part", "run", words(...FULL, "mounts", "1", "rw", "noexec", "/tmp//etc")],
    ["a path that ends in a slash", "run", words(...FULL, "mounts", "1", "rw", "noexec", "/tmp/")],
    ["a path too long", "run", words(...FULL, "rule", "R", "opt", `/${"x".repeat(4096)}`)],
    ["a right set nobody knows", "run", words(...FULL, "rule", "RWX", "req", "/")],
    ["a limit nobody knows", "run", words(...FULL, "rlimit", "core", "1")],
    ["a number that is none", "run", words(...FULL, "rlimit", "cpu", "1e3")],
    ["a number with a sign", "run", words(...FULL, "rlimit", "cpu", "-1")],
    ["a number that does not fit", "run", words(...FULL, "rlimit", "cpu", "99999999999999999999")],
    ["a watch of nothing", "run", words(...FULL, "watch", "memory_bytes", "0")],
    ["a flag that is no flag", "run", words(...FULL, "unix", "2")],
    ["a record twice", "run", words(...FULL, "unix", "0", "unix", "1")],
    ["two tiers", "run", words(...FULL, "tier", "env")],
    ["no tier", "run", words(...RUN)],
    ["no program", "run", words("version", "1", "tier", "env", "ids", "0", "0", "cwd", "/")],
    [
      "no arguments",
      "run",
      words("version", "1", "tier", "env", "ids", "0", "0", "cwd", "/", "exec", "/bin/true", "0"),
    ],
    ["fewer arguments than said", "run", words(...RUN.slice(0, 2), "exec", "/bin/true", "3", "true")],
    ["more arguments than memory", "run", words(...RUN.slice(0, 2), "exec", "/bin/true", "18446744073709551615", "x")],
    ["a keeper's record", "run", words(...FULL, "port", "80")],
    ["a keeper that can't be", "run", words(...FULL, "join", "0", "1")],
    ["a keeper of all processes", "run", words(...FULL, "join", "4294967295", "1")],
    [
      "an id that is none",
      "run",
      words("version", "1", "ids", "4294967295", "0", ...FULL.slice(2, 6), ...FULL.slice(9)),
    ],
    ["mounts without a namespace", "run", words(...FULL, "rw", "noexec", "/tmp")],
    ["guards without a namespace", "run", words(...FULL, "mounts", "0", "protect", "ro", "/tmp/x")],
    ["walls without any", "run", words(...RUN, "tier", "env", "rule", "R", "req", "/")],
    ["rules without Landlock", "run", words(...RUN, "tier", "seccomp", "rule", "R", "req", "/")],
    ["a composed root elsewhere", "run", words(...FULL, "base", "/run", "seal")],
    ["sealed without a root", "run", words(...SEALED)],
    ["sealed without a seal", "run", words(...SEALED, "base", "/run")],
    ["sealed without a base", "run", words(...SEALED, "mkdir", "/usr", "seal")],
    ["a root behind its seal", "run", words(...SEALED, "base", "/run", "seal", "mkdir", "/usr")],
    ["another tier's grants", "run", words(...SEALED, "base", "/run", "seal", "rw", "noexec", "/tmp")],
    ["sealed in the host's tree", "run", words(...SEALED, "base", "/run", "seal", "mounts", "0")],
    ["a keeper without a token", "keeper", words("version", "1", "port", "80")],
    ["a short token", "keeper", words("version", "1", "token", TOKEN.slice(2))],
    ["a token that is none", "keeper", words("version", "1", "token", TOKEN.replace("a", "g"))],
    ["a port of nothing", "keeper", words("version", "1", "token", TOKEN, "port", "0")],
    ["a port too high", "keeper", words("version", "1", "token", TOKEN, "port", "65536")],
    ["ports that fall", "keeper", words("version", "1", "token", TOKEN, "port", "443", "port", "80")],
    ["a command's record", "keeper", words("version", "1", "token", TOKEN, "tier", "env")],
    [
      "too many ports",
      "keeper",
      words("version", "1", "token", TOKEN, ...Array.from({ length: 17 }, (_, i) => ["port", `${i + 80}`]).flat()),
    ],
  ];
  for (const [what, mode, spec] of refused) {
    const { frame, status } = await answerTo(place, mode, spec);
    assert.equal(frame?.type, FRAME.FAILED, what);
    assert.equal(parseFailed(frame.payload)?.stage, "spec", what);
    assert.notEqual(status.code, 0, what);
  }
  // What they differ from is taken.
  assert.equal((await answerTo(place, "run", words(...RUN, "tier", "env"))).frame?.type, FRAME.STARTED);
});

Deno.test("a first frame that is no SPEC is not answered", async () => {
  await using place = new ConfinedPlace(await checkoutHelper());
  for (
    const bytes of [
      encodeFrame(FRAME.KILL, words(...FULL)),
      encodeFrame(FRAME.SPEC),
      new Uint8Array([255, 255, 255, 255, FRAME.SPEC, 0]),
      new Uint8Array([1, 0]),
    ]
  ) {
    using socket = new ControlSocket(place.control);
    const child = new Deno.Command(await checkoutHelper(), {
      args: ["run", socket.name],
      cwd: socket.directory,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const connection = (await socket.accept())!;
    await connection.write(bytes);
    await connection.closeWrite();
    assert.equal(await connection.read(new Uint8Array(10)).catch(() => null), null);
    connection.close();
    assert.match(await new Response(child.stderr).text(), /^mur-confine: failed: control: /);
    assert.notEqual((await child.status).code, 0);
  }
});

/** Runs the parser alone, built with sanitizers, over many lists. */
async function parseAll(program: string, lists: readonly (readonly [number, Uint8Array])[]) {
  const child = new Deno.Command(program, { stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (const [keeper, bytes] of lists) {
    const header = new Uint8Array(5);
    new DataView(header.buffer).setUint32(0, bytes.length, true);
    header[4] = keeper;
    parts.push(header, new Uint8Array(bytes));
  }
  const writer = child.stdin.getWriter();
  const written = writer.write(new Uint8Array(await new Blob(parts).arrayBuffer())).then(() => writer.close());
  const [{ success }, out, err] = await Promise.all([
    child.status,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    written.catch(() => {}),
  ]);
  assert.ok(success, err.slice(0, 4_000));
  const [, taken, refused] = /^(\d+) taken, (\d+) refused/.exec(out)!;
  return { taken: Number(taken), refused: Number(refused) };
}

Deno.test("the record parser takes what is encoded and survives what is not", async (t) => {
  const directory = await Deno.makeTempDir();
  try {
    const program = `${directory}/fuzz`;
    const parts = ["fuzz_records.c", "records.c", "process.c"].map(confineSource);
    if (!await buildSanitized(program, parts)) {
      console.log("this machine's compiler has no sanitizers: the record parser is not fuzzed");
      return;
    }
    await t.step("every list of records that can be is taken", async () => {
      const lists = fc.sample(command, 2_000).map((records) => [0, encodeRecords(records)] as const);
      assert.deepEqual(await parseAll(program, lists), { taken: lists.length, refused: 0 });
    });
    await t.step("lists cut, mixed and changed anywhere are no fault", async () => {
      const edit = fc.record({
        at: fc.nat({ max: 1_000_000 }),
        remove: fc.nat({ max: 40 }),
        insert: fc.oneof(
          fc.uint8Array({ maxLength: 12 }),
          fc.constantFrom("\0", "exec\0", "-1\0", "18446744073709551615\0", "seal\0", "/\0", "/../\0", "version\x001\0")
            .map((word) => new TextEncoder().encode(word)),
        ),
      });
      const broken = fc.tuple(command, fc.array(edit, { minLength: 1, maxLength: 6 }), fc.boolean()).map(
        ([records, edits, keeper]): readonly [number, Uint8Array] => {
          let bytes: number[] = [...encodeRecords(records)];
          for (const { at, remove, insert } of edits) {
            const place = at % (bytes.length + 1);
            bytes = [...bytes.slice(0, place), ...insert, ...bytes.slice(place + remove)];
          }
          return [keeper ? 1 : 0, new Uint8Array(bytes)];
        },
      );
      const noise = fc.tuple(fc.constantFrom(0, 1), fc.uint8Array({ maxLength: 200 }));
      const lists = [...fc.sample(broken, 20_000), ...fc.sample(noise, 5_000)];
      const { taken, refused } = await parseAll(program, lists);
      assert.equal(taken + refused, lists.length);
      assert.ok(refused > lists.length / 2);
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
