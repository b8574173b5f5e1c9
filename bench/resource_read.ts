/**
 * Reads over the operator plane of a real session, a connection each, beside a bare `Deno.serve` handler that opens, hashes
 * and returns the same file, and nginx (one worker) that returns it without hashing; then what 64 readers of a large file at
 * once cost in memory.
 *
 * Needs a C compiler, and nginx (Debian package nginx-light) for its figures; without it they are left out, and that is said.
 *
 * @module
 */
import { type BarePeer, startBarePeer } from "./bare_peer.ts";
import { compiledClient } from "./compiled_client.ts";
import { PLANE_BUDGET_BYTES } from "../runtime/door/plane_endpoint.ts";
import { type BenchSession, startBenchSession } from "./door_session.ts";
import { type BenchResult, type Figure, median } from "./result.ts";

const ROUNDS = 5;
const ROUND_MS = 2_000;
const LANES = 16;
const SMALL_BYTES = 4_096;
const LARGE_BYTES = 10 << 20;
/** Large reads at once, and how many times over. */
const CROWD = 64;
const CROWD_MS = 6_000;

/** The peer does what a reader of files in Deno does by its idioms. */
const BARE = `const root = Deno.args[0];
const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
  const path = new URL(request.url).pathname.slice("/resources/files/".length);
  using file = await Deno.open(root + "/" + path);
  const { size } = await file.stat();
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size;) at += await file.read(bytes.subarray(at));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
  return new Response(bytes, { headers: { "content-type": "application/octet-stream", etag: '"sha256:' + hash + '"', connection: "close" } });
});
console.log(server.addr.port);`;

/** `null` where nginx is not installed. */
async function startNginx(directory: string, root: string): Promise<Omit<BarePeer, "pid"> | null> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) =>
    `${name}_temp_path ${directory}/${name};`
  );
  await Deno.writeTextFile(
    `${directory}/nginx.conf`,
    `daemon off; worker_processes 1; ${Deno.uid() === 0 ? "user root;" : ""} pid ${directory}/nginx.pid;
events { worker_connections 1024; }
http { access_log off; keepalive_timeout 0; sendfile on; ${temporary.join(" ")}
  server { listen 127.0.0.1:${port}; location /resources/files/ { alias ${root}/; default_type application/octet-stream; } } }`,
  );
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command("nginx", {
      args: ["-c", `${directory}/nginx.conf`, "-e", `${directory}/error.log`],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
  } catch {
    return null;
  }
  for (let left = 100;; left--) {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      break;
    } catch {
      if (left === 0) {
        throw new Error(await Deno.readTextFile(`${directory}/error.log`).catch(() => "nginx did not start"));
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
    },
  };
}

/** Highest resident memory of a session while work goes on, in MB. */
async function peakOf(session: BenchSession, work: Promise<unknown>): Promise<number> {
  let peak = session.residentMb();
  let over = false;
  work.finally(() => over = true);
  while (!over) {
    peak = Math.max(peak, session.residentMb());
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await work;
  return peak;
}

export async function run(): Promise<BenchResult> {
  const directory = await Deno.makeTempDir({ prefix: "mur-bench-read-" });
  try {
    await using session = await startBenchSession(
      { turns: [{ text: "done" }] },
      `exports: { files: { root: out, mode: read-only, max_bytes: 16Mi } }\n`,
    );
    const root = `${session.workdir}/out`;
    await Deno.mkdir(root);
    const bytes = new Uint8Array(LARGE_BYTES);
    for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
    await Deno.writeFile(`${root}/small`, bytes.subarray(0, SMALL_BYTES));
    await Deno.writeFile(`${root}/large`, bytes);
    const client = await compiledClient("connection_load", directory);
    const load = async (port: number, name: string, least: number, lanes: number, ms: number) => {
      const { success, stdout, stderr } = await new Deno.Command(client, {
        args: [port, `/resources/files/${name}`, lanes, ms, least].map(String),
      }).output();
      if (!success) throw new Error(`${name} from ${port}: ${new TextDecoder().decode(stderr)}`);
      return Number(new TextDecoder().decode(stdout));
    };
    // First of all, while the session has done nothing that needed memory.
    const before = session.residentMb();
    const peak = await peakOf(session, load(session.port, "large", LARGE_BYTES, CROWD, CROWD_MS));
    const figures: Figure[] = [
      { what: `memory before ${CROWD} readers of 10 MiB at once`, value: before, unit: "MB" },
      {
        what: `what they add at most (room for ${PLANE_BUDGET_BYTES >> 20} MiB of files)`,
        value: peak - before,
        unit: "MB",
        atMost: 160,
      },
    ];
    await using bare = await startBarePeer(BARE, [root]);
    await using nginx = await startNginx(directory, root);
    if (nginx === null) console.error("resource-read: nginx is not installed, its figures are left out");
    for (const [name, size, budget] of [["small", SMALL_BYTES, 0.7], ["large", LARGE_BYTES, 0.5]] as const) {
      const rounds: { readonly own: number; readonly bare: number; readonly nginx: number }[] = [];
      // One round to warm up, then turn by turn, so that what else the machine does hits all of them.
      for (let round = 0; round <= ROUNDS; round++) {
        const of = (port: number) => load(port, name, size, name === "small" ? LANES : 4, ROUND_MS);
        const figures = {
          own: await of(session.port),
          bare: await of(bare.port),
          nginx: nginx === null ? NaN : await of(nginx.port),
        };
        if (round > 0) rounds.push(figures);
      }
      const what = name === "small" ? "4 KiB" : "10 MiB";
      const of = (figure: (round: typeof rounds[number]) => number) => median(rounds.map(figure));
      figures.push(
        { what: `${what} reads a second`, value: of(({ own }) => own), unit: "/s" },
        { what: `bare Deno.serve that opens, hashes, returns it`, value: of((round) => round.bare), unit: "/s" },
        {
          what: `${what}: as fast as the bare handler`,
          value: of((round) => round.own / round.bare),
          unit: "x",
          atLeast: budget,
        },
      );
      if (nginx !== null) {
        figures.push({
          what: `${what}: as fast as nginx, which does not hash`,
          value: of((round) => round.own / round.nginx),
          unit: "x",
          ...(name === "small" ? { atLeast: 0.25 } : {}),
        });
      }
    }
    return { name: "resource reads (a connection each)", figures };
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
