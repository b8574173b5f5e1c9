/**
 * One stream of a contained command through the keeper and the relay against the same transfer without them, both on
 * loopback, and connections held at once.
 *
 * @module
 */
import { parseNetworkRule } from "../artifact/network_rules.ts";
import { checkoutHelper } from "../sandbox/confine_helper.ts";
import { MAX_RELAYED_CONNECTIONS } from "../sandbox/egress_relay.ts";
import { SessionNetwork } from "../sandbox/session_network.ts";
import { ConfinedPlace } from "../sandbox/testing/confined_place.ts";
import { type BenchResult, median } from "./result.ts";

const BYTES = 1 << 30;
const ROUNDS = 5;

async function build(directory: string): Promise<string> {
  const program = `${directory}/stream`;
  const source = decodeURIComponent(new URL("./stream.c", import.meta.url).pathname);
  const { success, stderr } = await new Deno.Command("cc", { args: ["-static", "-O2", "-o", program, source] })
    .output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return program;
}

/** A server process and its port. */
async function serve(program: string): Promise<{ readonly server: Deno.ChildProcess; readonly port: number }> {
  const server = new Deno.Command(program, { args: ["serve", `${BYTES}`], stdout: "piped" }).spawn();
  const reader = server.stdout.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return { server, port: Number(new TextDecoder().decode(value)) };
}

export async function run(): Promise<BenchResult> {
  const helper = await checkoutHelper();
  await using place = new ConfinedPlace(helper);
  const program = await build(place.workdir);
  const { server, port } = await serve(program);
  await using network = await SessionNetwork.open({
    helper,
    controlDirectory: place.control,
    rules: [parseNetworkRule(`127.0.0.1:${port}`)],
  });
  try {
    const bare = async (...args: string[]) => {
      const { success, stdout } = await new Deno.Command(program, { args }).output();
      if (!success) throw new Error(`${args.join(" ")} failed without the relay`);
      return Number(new TextDecoder().decode(stdout));
    };
    const relayed = async (...args: string[]) => {
      const end = await place.run(program, [program, ...args], { workdirExec: true, records: [await network.join()] });
      if (end.exitCode !== 0) throw new Error(`${args.join(" ")} failed through the relay: ${end.stderr}`);
      return Number(end.stdout);
    };
    const rates = {
      get: { bare: [] as number[], relayed: [] as number[] },
      put: { bare: [] as number[], relayed: [] as number[] },
    };
    for (let round = 0; round < ROUNDS; round++) {
      for (const direction of ["get", "put"] as const) {
        rates[direction].bare.push(await bare(direction, `${port}`, `${BYTES}`));
        rates[direction].relayed.push(await relayed(direction, `${port}`, `${BYTES}`));
      }
    }
    const held = await relayed("hold", `${port}`, `${MAX_RELAYED_CONNECTIONS}`);
    const [get, put] = [rates.get, rates.put].map(({ bare, relayed }) => ({
      bare: median(bare),
      relayed: median(relayed),
    }));
    return {
      name: `egress (${BYTES >> 20} MiB a transfer, ${ROUNDS} rounds)`,
      figures: [
        { what: "to the command, without the relay", value: get!.bare, unit: "MB/s" },
        { what: "to the command, through it", value: get!.relayed, unit: "MB/s" },
        { what: "ratio", value: get!.relayed / get!.bare, unit: "x", atLeast: 0.2 },
        { what: "from the command, without the relay", value: put!.bare, unit: "MB/s" },
        { what: "from the command, through it", value: put!.relayed, unit: "MB/s" },
        { what: "ratio", value: put!.relayed / put!.bare, unit: "x", atLeast: 0.2 },
        { what: "connections answered, all open at once", value: held, unit: "", atLeast: MAX_RELAYED_CONNECTIONS },
      ],
    };
  } finally {
    server.kill("SIGKILL");
    await server.status;
  }
}
