/**
 * A small Internet for attacks on the relay: started in a network of its own in which every IPv4 address is this machine's
 * (`own_network.c`), it serves on all of them, runs each attack once bare and once contained per tier, and prints what
 * came of them as JSON.
 *
 * Arguments: the helper, the attack program. Standard input: a list of {@linkcode Step}.
 *
 * @module
 */
import { createSocket } from "node:dgram";
import { parseNetworkRule } from "../../artifact/network_rules.ts";
import { createNameResolver } from "../../base/name_resolver.ts";
import { DEFAULT_TIME_BOUNDS } from "../../base/time_bounds.ts";
import { EgressRelay } from "../../sandbox/egress_relay.ts";
import { resolveLaunchAddresses } from "../../sandbox/launch_addresses.ts";
import { NetworkKeeper } from "../../sandbox/network_keeper.ts";
import { ConfinedPlace, CONTAINED_TIERS, type ContainedTier } from "../../sandbox/testing/confined_place.ts";
import { type NameAnswer, nameServer } from "../support/name_server.ts";

/** What happens next. */
export type Step =
  /** A program with its arguments; `attack` stands for the attack program. */
  | { readonly name: string; readonly run: readonly string[]; readonly env?: Readonly<Record<string, string>> }
  /** Milliseconds pass. */
  | { readonly pass: number }
  /** From here on a name leads elsewhere. */
  | { readonly answer: Readonly<Record<string, NameAnswer>> };

/** What one round of the steps left. */
export interface Round {
  /** Standard output of each program, trimmed. */
  readonly results: Readonly<Record<string, string>>;
  /** Questions that reached the name server. */
  readonly asked: readonly string[];
  /** Local address and port of each connection a service took. */
  readonly reached: readonly string[];
  /** What services were sent over UDP. */
  readonly datagrams: readonly string[];
}

/** What the world prints. */
export interface WorldReport {
  readonly bare: Round;
  readonly contained: Readonly<Record<ContainedTier, Round>>;
}

/** Rules of the capsule. */
const RULES = [
  "http://api.example",
  "rebind.example:80",
  "ssh.example:8022",
  "quiet.example:8090",
  "localhost:8080",
  "10.9.9.9:80",
];

const NAMES: Readonly<Record<string, NameAnswer>> = {
  "api.example": { a: "93.184.216.34" },
  "rebind.example": { a: "93.184.216.40" },
  "ssh.example": { a: "93.184.216.50" },
  "evil.test": { a: "93.184.216.66" },
};

/** Where services listen, on every address. 22, 53 and 9999 are in no rule, and nothing listens on the rules' 8090. */
const TCP_PORTS = [22, 53, 80, 8022, 8080, 9999];
const UDP_PORTS = [123, 9999];

const [helper, attack] = Deno.args as [string, string];
const steps: Step[] = JSON.parse(await new Response(Deno.stdin.readable).text());
const log = { reached: [] as string[], datagrams: [] as string[] };
let table: Record<string, NameAnswer> = { ...NAMES };
// A look-up at the time of the question.
const names = await nameServer("0.0.0.0", new Proxy(table, { get: (_, name: string) => table[name] }), 53);

/** Answers a request with where it arrived and its first line. */
async function serve(connection: Deno.TcpConn): Promise<void> {
  const { hostname, port } = connection.localAddr;
  log.reached.push(`${hostname}:${port}`);
  const buffer = new Uint8Array(4_096);
  let text = "";
  while (!text.includes("\r\n\r\n")) {
    const length = await connection.read(buffer);
    if (length === null) break;
    text += new TextDecoder().decode(buffer.subarray(0, length));
  }
  const body = `at ${hostname}:${port}: ${text.split("\r\n")[0]}\n`;
  const head = `HTTP/1.0 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`;
  // Only what reads HTTP is answered in it.
  await connection.write(new TextEncoder().encode(text.includes("curl/") ? head + body : body));
}

function listen(hostname: string, port: number): Deno.TcpListener {
  const listener = Deno.listen({ hostname, port });
  void (async () => {
    for (;;) {
      // One that was reset while it waited is none any more.
      const connection = await listener.accept().catch(() => null);
      if (connection !== null) void serve(connection).catch(() => {}).finally(() => connection.close());
    }
  })();
  return listener;
}

for (const port of TCP_PORTS) listen("0.0.0.0", port);
listen("::1", 80);
for (const port of UDP_PORTS) {
  const socket = createSocket("udp4");
  socket.on("message", (bytes, from) => {
    log.datagrams.push(bytes.toString());
    socket.send(bytes, from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(port, "0.0.0.0", resolve));
}

/** Goes through the steps with something that runs a program. */
async function round(
  run: (argv: readonly string[], env: Readonly<Record<string, string>>) => Promise<string>,
  pass: (milliseconds: number) => void,
): Promise<Round> {
  table = { ...NAMES };
  const asked = names.asked.length;
  log.reached = [];
  log.datagrams = [];
  const results: Record<string, string> = {};
  for (const step of steps) {
    if ("pass" in step) pass(step.pass);
    else if ("answer" in step) table = { ...table, ...step.answer };
    else {results[step.name] = (await run(step.run.map((word) => word === "attack" ? attack : word), step.env ?? {}))
        .trim();}
  }
  return { results, asked: names.asked.slice(asked), ...log };
}

async function runBare(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  const [program, ...args] = argv;
  const output = await new Deno.Command(program!, { args, env: { ...env } }).output();
  return new TextDecoder().decode(output.stdout);
}

async function roundContained(tier: ContainedTier): Promise<Round> {
  let now = 0;
  const rules = RULES.map(parseNetworkRule);
  const resolver = createNameResolver({ hosts: "127.0.0.1 localhost", resolvConf: "nameserver 127.0.0.1" });
  // Names alone open their addresses here; what launch adds has tests of its own.
  const launch = await resolveLaunchAddresses(rules.filter(({ host }) => host === "localhost"), resolver);
  await using relay = new EgressRelay({ rules, launch: launch.addresses, resolver, now: () => now });
  await using place = new ConfinedPlace(helper);
  const program = place.file("attack", "", 0o755);
  await Deno.copyFile(attack, program);
  const keeper = await NetworkKeeper.start({
    helper,
    controlDirectory: place.control,
    ports: relay.ports,
    onConnection: (connection) => relay.relay(connection),
    onQuery: (message) => relay.answerQuery(message),
    startMs: DEFAULT_TIME_BOUNDS.confineStart,
    preambleMs: DEFAULT_TIME_BOUNDS.keeperPreamble,
  });
  try {
    return await round(async ([first, ...args], env) => {
      const path = first === attack ? program : first!;
      const end = await place.run(path, [path, ...args], { tier, workdirExec: true, records: [keeper.join], env });
      if (end.failure !== null) console.error(`${tier}: ${end.failure.stage}: ${end.failure.reason}`);
      return end.stdout;
    }, (milliseconds) => now += milliseconds);
  } finally {
    await keeper.stop();
  }
}

const bare = await round(runBare, () => {});
const contained: Record<string, Round> = {};
for (const tier of CONTAINED_TIERS) contained[tier] = await roundContained(tier);
console.log(JSON.stringify({ bare, contained }));
Deno.exit(0);
