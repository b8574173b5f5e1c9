import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { checkoutHelper } from "../../sandbox/confine_helper.ts";
import type { CommandRecord, ConfineTier } from "../../sandbox/confine_records.ts";
import { elfClosure } from "../../sandbox/elf_closure.ts";
import { probeHost } from "../../sandbox/host_probe.ts";
import { ConfinedPlace } from "../../sandbox/testing/confined_place.ts";
import { buildTestProgram } from "../support/test_program.ts";

/**
 * What may stand between a command and the rest: Landlock and its scopes, the mount namespace, the composed root, the
 * filter, what keeps truncation apart (Landlock from ABI 3 on, else rules of the filter), the network and the PID
 * namespace, empty capabilities, closed descriptors.
 */
type Wall =
  | "landlock"
  | "scope"
  | "mounts"
  | "root"
  | "filter"
  | "truncation"
  | "network"
  | "pids"
  | "capabilities"
  | "descriptors";

/** When an attempt gets through without containment, so that its refusal means something. */
type Control = "open" | "root" | "may";

/** Every attempt of the attack program: when it works uncontained, and each wall that alone must stop it. */
const ATTEMPTS: Readonly<Record<string, readonly [Control, ...Wall[]]>> = {
  descriptors: ["may", "descriptors"],
  read_outside: ["open", "landlock", "root"],
  list_outside: ["open", "landlock", "root"],
  write_outside: ["open", "landlock", "mounts", "root"],
  append_outside: ["open", "landlock", "mounts", "root"],
  create_outside: ["open", "landlock", "mounts", "root"],
  mkdir_outside: ["open", "landlock", "mounts", "root"],
  truncate_reading: ["open", "landlock", "mounts", "root", "truncation"],
  truncate_neither: ["open", "mounts", "root", "truncation"],
  truncate_call: ["open", "mounts", "root", "truncation"],
  truncate_openat2: ["open", "landlock", "mounts", "root", "truncation"],
  truncate_granted: ["open", "truncation"],
  chmod_outside: ["open", "mounts", "root"],
  fchmod_outside: ["open", "mounts", "root"],
  chown_outside: ["open", "mounts", "root"],
  touch_outside: ["open", "mounts", "root"],
  xattr_outside: ["may", "mounts", "root"],
  unlink_outside: ["open", "landlock", "mounts", "root"],
  rename_outside: ["open", "landlock", "mounts", "root"],
  rename_in: ["open", "landlock", "mounts", "root"],
  rename_out: ["open", "landlock", "mounts", "root"],
  link_in: ["open", "landlock", "mounts", "root"],
  read_by_symlink: ["open", "landlock", "root"],
  read_by_dots: ["open", "landlock", "root"],
  read_by_own_root: ["open", "landlock", "root"],
  read_by_init: ["may", "landlock", "root"],
  read_by_other_root: ["open", "landlock", "root", "pids"],
  other_environment: ["open", "landlock", "root", "pids"],
  other_memory: ["open", "landlock", "root", "pids"],
  read_device: ["open", "landlock", "root"],
  read_account: ["open", "landlock", "root"],
  make_device: ["root", "landlock", "capabilities"],
  make_device_scratch: ["root", "landlock", "capabilities"],
  shared_memory_file: ["may", "landlock", "mounts", "root"],
  by_handle: ["root", "filter", "capabilities"],
  kernel_setting: ["root", "landlock", "mounts", "root"],
  kernel_trigger: ["may", "landlock", "mounts", "root"],
  kernel_object: ["may", "landlock", "mounts", "root"],
  shared_memory: ["open", "pids"],
  message_queue: ["open", "pids"],
  exec_written: ["open", "landlock", "mounts", "root"],
  exec_scratch: ["open", "landlock", "mounts", "root"],
  exec_outside: ["open", "landlock", "root"],
  exec_script: ["open", "landlock", "mounts", "root"],
  exec_fresh: ["open", "landlock", "mounts", "root"],
  exec_by_loader: ["open", "mounts", "root"],
  exec_by_descriptor: ["open", "landlock", "mounts", "root"],
  exec_by_proc: ["open", "landlock", "mounts", "root"],
  exec_memory: ["open", "filter"],
  exec_memory_marked: ["may", "filter"],
  // What seals it against execution is the kernel itself.
  exec_memory_sealed: ["may", "filter"],
  map_written: ["open", "mounts", "root"],
  protect_written: ["open", "mounts", "root"],
  signal_other: ["open", "pids", "scope"],
  trace_other: ["open", "pids", "filter"],
  trace_me: ["open", "filter"],
  read_other: ["open", "pids", "filter"],
  open_other: ["open", "pids"],
  take_descriptor: ["open", "pids", "filter"],
  compare_other: ["may", "pids", "filter"],
  enter_other: ["root", "pids", "filter"],
  limit_other: ["open", "pids"],
  nice_other: ["open", "pids"],
  pin_other: ["open", "pids"],
  unshare_user: ["open", "filter"],
  unshare_mounts: ["root", "filter", "capabilities"],
  clone_user: ["open", "filter"],
  clone3_user: ["open", "filter"],
  mount_tmpfs: ["root", "filter", "capabilities"],
  remount: ["root", "filter", "capabilities"],
  unmount: ["root", "filter", "capabilities"],
  change_root: ["root", "filter", "capabilities"],
  copy_mounts: ["root", "filter", "capabilities"],
  open_file_system: ["root", "filter", "capabilities"],
  set_mount: ["root", "filter", "capabilities"],
  io_uring: ["may", "filter"],
  bpf: ["may", "filter"],
  user_faults: ["may", "filter"],
  perf_events: ["may", "filter"],
  key_control: ["may", "filter"],
  add_key: ["may", "filter"],
  personality_of: ["open", "filter"],
  load_module: ["may", "filter", "capabilities"],
  load_kernel: ["may", "filter", "capabilities"],
  restart: ["root", "filter", "capabilities"],
  swap: ["may", "filter", "capabilities"],
  quota: ["may", "filter", "capabilities"],
  filter_more: ["may", "filter"],
  host_name: ["root", "filter", "capabilities"],
  set_clock: ["may", "filter", "capabilities"],
  kernel_log: ["may", "filter"],
  memory_policy: ["may", "filter"],
  file_events: ["may", "filter", "capabilities"],
  type_character: ["open", "filter"],
  become_root: ["root", "capabilities"],
  raise_priority: ["root", "capabilities"],
  socket_unix: ["open", "filter"],
  socket_netlink: ["open", "filter"],
  socket_packet: ["root", "filter", "capabilities"],
  socket_raw: ["root", "capabilities"],
  socket_crypto: ["may", "filter"],
  socket_virtual: ["may", "filter"],
  connect_path: ["open", "filter"],
  connect_abstract: ["open", "filter", "network", "scope"],
  connect_loopback: ["open", "network"],
  // Only the other end can tell: see the datagrams that arrived.
  send_datagram: ["may"],
  loopback_down: ["root", "capabilities"],
  rename_exchange: ["open", "landlock", "mounts", "root"],
  unnamed_outside: ["open", "landlock", "mounts", "root"],
  unnamed_linked: ["open", "landlock", "mounts", "root"],
  chown_by_path: ["open", "mounts", "root"],
  chmod_by_path: ["open", "mounts", "root"],
  access_list: ["may", "mounts", "root"],
  xattr_at: ["may", "filter", "mounts", "root"],
  descriptor_of_other: ["open", "landlock", "root", "pids"],
  folder_of_other: ["open", "landlock", "root", "pids"],
  spare_other: ["open", "landlock", "mounts", "root"],
  setuid_chmod: ["open", "filter"],
  setgid_fchmod: ["open", "filter"],
  setuid_fchmodat: ["open", "filter"],
  setuid_fchmodat2: ["open", "filter"],
  setuid_open: ["open", "filter"],
  setuid_openat2: ["open", "filter"],
  setuid_mknod: ["open", "filter"],
  setuid_unnamed: ["open", "filter"],
  file_capability: ["root", "capabilities"],
  write_terminal: ["open", "landlock", "mounts", "root"],
  use_device: ["root", "landlock", "mounts", "root"],
  kernel_messages: ["root", "landlock", "mounts", "root"],
  virtual_machine: ["may", "landlock", "mounts", "root"],
  tunnel: ["may", "landlock", "mounts", "root"],
  user_file_system: ["may", "landlock", "mounts", "root"],
  any_disk: ["may", "landlock", "mounts", "root"],
  signal_by_pidfd: ["open", "pids", "scope"],
  signal_by_pipe: ["open", "pids"],
  advise_other: ["may", "pids", "filter"],
  release_other: ["may", "pids", "filter"],
  disk_class_of_other: ["open", "pids"],
  trace_child: ["open", "filter"],
  write_child: ["open", "filter"],
  dump_core: ["open", "filter"],
  foreign_calls: ["may", "filter"],
  short_pointers: ["may", "filter"],
  mount_state: ["may", "filter"],
  mount_list: ["may", "filter"],
  move_mounts: ["root", "filter", "capabilities"],
  pick_mount: ["root", "filter", "capabilities"],
  copy_mounts_with: ["may", "filter", "capabilities"],
  unshare_time: ["root", "filter", "capabilities"],
  unshare_groups: ["root", "filter", "capabilities"],
  secret_memory: ["may", "filter"],
  io_uring_more: ["may", "filter"],
  request_key_of: ["may", "filter"],
  mark_files: ["may", "filter"],
  quota_by_descriptor: ["may", "filter"],
  hang_up: ["root", "filter", "capabilities"],
  account: ["may", "filter", "capabilities"],
  change_segments: ["may", "filter"],
  raise_capabilities: ["root", "capabilities"],
  keep_capabilities: ["root", "capabilities"],
  leave_groups: ["root", "capabilities"],
  semaphores: ["open", "pids"],
  posix_queue: ["open", "pids"],
  socket_families: ["open", "filter"],
  socket_protocols: ["may", "filter"],
  socket_raw_6: ["root", "filter", "capabilities"],
  mark_packets: ["root", "capabilities"],
  bind_low_port: ["root", "capabilities"],
  datagram_connect: ["open", "filter"],
  datagram_send: ["open", "filter"],
  datagram_send_raw: ["open", "filter"],
  datagram_bind: ["open", "filter"],
  pair_families: ["may", "filter"],
  be_another: ["root", "capabilities"],
};

/** Attempts that are open for root in a user namespace of its own: what it is there it was before. */
const HARMLESS_AS_ROOT = new Set(["become_root"]);

/** The walls that hold nothing by themselves on the tiers where an executable work folder is wanted. */
const ALWAYS: readonly Wall[] = ["filter", "network", "pids", "capabilities", "descriptors"];

interface Layout {
  readonly what: string;
  readonly tier: ConfineTier;
  readonly mounts?: boolean;
  readonly records?: readonly CommandRecord[];
  readonly walls: readonly Wall[];
}

const LAYOUTS: readonly Layout[] = [
  { what: "sealed", tier: "sealed", walls: ["landlock", "root"] },
  { what: "full", tier: "full", walls: ["landlock", "mounts"] },
  { what: "full without mounts", tier: "full", mounts: false, walls: ["landlock", "truncation"] },
  { what: "seccomp", tier: "seccomp", walls: ["mounts", "truncation"] },
  { what: "seccomp without mounts", tier: "seccomp", mounts: false, walls: ["truncation"] },
  ...[1, 2].flatMap((atMost): Layout[] => [
    { what: `sealed, ABI ${atMost}`, tier: "sealed", records: [{ op: "abi", atMost }], walls: ["root", "truncation"] },
    { what: `full, ABI ${atMost}`, tier: "full", records: [{ op: "abi", atMost }], walls: ["mounts", "truncation"] },
    {
      what: `full without mounts, ABI ${atMost}`,
      tier: "full",
      mounts: false,
      records: [{ op: "abi", atMost }],
      walls: ["truncation"],
    },
  ]).map((layout) => ({ ...layout, walls: [...layout.walls, "landlock"] as const })),
  { what: "full, ABI 3", tier: "full", records: [{ op: "abi", atMost: 3 }], walls: ["landlock", "mounts"] },
  {
    what: "full without mounts, ABI 3",
    tier: "full",
    mounts: false,
    records: [{ op: "abi", atMost: 3 }],
    walls: ["landlock", "truncation"],
  },
  {
    what: "full without a PID namespace",
    tier: "full",
    records: [{ op: "pidns", own: false }],
    walls: ["landlock", "mounts"],
  },
];

/** A device that only root can make: it stands for what the host has of them. */
async function makeDevice(path: string): Promise<void> {
  await Deno.remove(path).catch(() => {});
  if (Deno.uid() !== 0) return;
  assert.ok((await new Deno.Command("mknod", { args: [path, "c", "1", "5"] }).output()).success);
}

/** Puts into a place what the attempts reach for, as fresh as for the first. */
async function prepare(place: ConfinedPlace, program: string): Promise<void> {
  const names = ["secret", "victim", "unlinked", "renamed", "moved"];
  for (const name of [...names, ...[1, 2, 3, 4].map((i) => `truncated-${i}`)]) {
    place.file(`${place.outside}/${name}`, name, 0o600);
  }
  for (const name of ["readable", "exported", "exchanged"]) place.file(name, name);
  place.file(`${place.outside}/exchanged`, "exchanged", 0o600);
  await makeDevice(`${place.outside}/device`);
  for (const name of ["hard", "device", "fresh", "bound"]) {
    await Deno.remove(`${place.workdir}/${name}`).catch(() => {});
  }
  for (const name of ["created", "made", "linked"]) await Deno.remove(`${place.outside}/${name}`).catch(() => {});
  for (const path of [`${place.tmp}/device`, "/dev/shm/mur-attack"]) await Deno.remove(path).catch(() => {});
  for (const directory of [place.workdir, place.tmp, place.outside]) {
    await Deno.copyFile(program, `${directory}/attack`);
    await Deno.chmod(`${directory}/attack`, 0o755);
  }
  await Deno.copyFile("/bin/true", `${place.workdir}/dynamic`);
  place.file("script", "#!/bin/sh\nexit 0\n", 0o755);
  await Deno.remove(`${place.workdir}/symlink`).catch(() => {});
  await Deno.symlink(`${place.outside}/secret`, `${place.workdir}/symlink`);
}

/** Everything an attack reaches for beside files: a process with what it holds, listeners, and what arrived at them. */
class Targets implements AsyncDisposable {
  readonly #tcp = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #udp = createSocket("udp4");
  readonly #sockets: Deno.UnixListener[];
  readonly #other: Deno.ChildProcess;
  readonly #said: Promise<string>;
  readonly #key: string;
  readonly abstractName = `mur-attack-${crypto.randomUUID()}`;
  #terminal = "";
  datagrams = 0;

  private constructor(place: ConfinedPlace, program: string, key: string, terminal: PromiseWithResolvers<string>) {
    this.#key = key;
    this.#sockets = [Deno.listen({ transport: "unix", path: `${place.outside}/socket` })];
    this.#udp.on("message", () => this.datagrams++);
    const other = new Deno.Command(program, {
      args: ["be-target", place.outside, key],
      cwd: place.outside,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#other = other;
    this.#said = (async () => {
      let text = "";
      for await (const chunk of other.stdout.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        if (text.includes("\n")) terminal.resolve(text.slice(0, text.indexOf("\n")));
      }
      terminal.reject(new Error("there is no target"));
      return text.slice(text.indexOf("\n") + 1);
    })();
  }

  static async open(place: ConfinedPlace, program: string): Promise<Targets> {
    for (const name of ["socket", "datagrams"]) await Deno.remove(`${place.outside}/${name}`).catch(() => {});
    const terminal = Promise.withResolvers<string>();
    const key = String(crypto.getRandomValues(new Uint16Array(1))[0]! + 1);
    const targets = new Targets(place, program, key, terminal);
    targets.#terminal = await terminal.promise;
    await new Promise<void>((resolve) => targets.#udp.bind(0, "127.0.0.1", resolve));
    // Deno takes a leading NUL as the abstract name it is.
    targets.#sockets.push(Deno.listen({ transport: "unix", path: `\0${targets.abstractName}` }));
    return targets;
  }

  arguments(place: ConfinedPlace, scratch: string, loader: string): string[] {
    const ports = [this.#tcp.addr.port, this.#udp.address().port];
    return [
      ...[place.outside, place.workdir, scratch, this.#other.pid, ...ports, this.abstractName, loader, this.#key],
      this.#terminal,
    ].map(String);
  }

  /** Ends the process; what it was sent, a line each. */
  async end(): Promise<string[]> {
    await this.#other.stdin.close().catch(() => {});
    const said = await this.#said;
    await this.#other.status;
    return said.split(/\r?\n/).filter((line) => line !== "").sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    this.#tcp.close();
    this.#udp.close();
    for (const socket of this.#sockets) socket.close();
  }
}

function answersOf(output: string): Map<string, string> {
  return new Map(output.trim().split("\n").map((line) => line.split(" ") as [string, string]));
}

/** Attempts that got through although a wall of the layout must stop them. */
function leaks(answers: Map<string, string>, walls: ReadonlySet<Wall>): string[] {
  const found: string[] = [];
  for (const [name, [, ...stoppedBy]] of Object.entries(ATTEMPTS)) {
    const answer = answers.get(name);
    if (answer === undefined) found.push(`${name} was not tried`);
    if (answer !== "open" || (HARMLESS_AS_ROOT.has(name) && Deno.uid() === 0)) continue;
    // The work folder is granted: emptying what is in it is no leak where Landlock says who may write.
    if (name === "truncate_granted") continue;
    if (stoppedBy.some((wall) => walls.has(wall))) found.push(name);
  }
  return found;
}

/** The program that loads `/bin/true` and its libraries. */
function loaderOf(): string {
  const loader = elfClosure(Deno.realPathSync("/bin/true")).find((path) => /\/ld-[^/]*$/.test(path));
  assert.ok(loader !== undefined, "/bin/true has no loader");
  return loader;
}

async function attackAll(helper: string, what: string, layouts: readonly Layout[], t: Deno.TestContext) {
  const directory = await Deno.makeTempDir();
  await using place = new ConfinedPlace(helper);
  try {
    const program = await buildTestProgram("command_attack", directory);
    const loader = loaderOf();
    const { landlockAbi } = await probeHost(helper);
    for (const layout of layouts) {
      await t.step(`${layout.what}${what}`, async () => {
        await prepare(place, program);
        await using targets = await Targets.open(place, program);
        const scratch = layout.tier === "sealed" ? "/tmp" : place.tmp;
        const argv = ["attack", ...targets.arguments(place, scratch, loader)];
        // It lies where programs may run, and may be read where they are.
        const rule: CommandRecord[] = layout.tier === "seccomp"
          ? []
          : [{ op: "rule", rights: "RX", presence: "req", path: program }];
        const root: CommandRecord[] = [];
        const end = layout.tier === "sealed"
          ? await runInRoot(place, program, argv, [...rule, ...layout.records ?? []])
          : await place.run(program, argv, {
            tier: layout.tier,
            records: [...rule, ...root, ...layout.records ?? []],
            ...(layout.mounts === undefined ? {} : { mounts: layout.mounts }),
          });
        assert.deepEqual(end.failure, null);
        assert.equal(end.exitCode, 0, end.stderr);
        const without = layout.records?.some((record) => record.op === "pidns") ? "pids" : null;
        const walls = new Set([...ALWAYS, ...layout.walls].filter((wall) => wall !== without));
        // Signals and abstract sockets are scoped from ABI 6 on.
        const old = layout.records?.some((record) => record.op === "abi") || landlockAbi < 6;
        if (walls.has("landlock") && !old) walls.add("scope");
        assert.deepEqual(leaks(answersOf(end.stdout), walls), []);
        assert.equal(targets.datagrams, 0);
        // What a socket of the host takes, the list of calls alone keeps away; a terminal, where no file is in reach.
        const typed = walls.has("landlock") || walls.has("mounts") || walls.has("root") ? [] : ["typed"];
        assert.deepEqual(await targets.end(), typed);
        if (walls.has("mounts") || walls.has("root")) {
          assert.equal(await Deno.readTextFile(`${place.outside}/victim`), "victim");
          for (const i of [1, 2, 3, 4]) {
            assert.equal(await Deno.readTextFile(`${place.outside}/truncated-${i}`), `truncated-${i}`);
          }
        }
      });
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
    await Deno.remove("/dev/shm/mur-attack").catch(() => {});
  }
}

/** In a composed root the program has to be bound as well, before the seal. */
async function runInRoot(place: ConfinedPlace, program: string, argv: string[], extra: readonly CommandRecord[]) {
  const records = place.records(program, argv, { tier: "sealed" });
  const seal = records.findIndex((record) => record.op === "seal");
  const bind: CommandRecord[] = [
    { op: "mkfile", path: "/attack" },
    { op: "bind", access: "ro", presence: "req", source: program, target: "/attack" },
  ];
  const changed = records.toSpliced(seal, 0, ...bind).map((record) =>
    record.op === "exec" ? { ...record, path: "/attack" } : record
  );
  return await place.runRecords([...changed, ...extra]);
}

Deno.test("without containment the attempts get through", async () => {
  const directory = await Deno.makeTempDir();
  await using place = new ConfinedPlace(await checkoutHelper());
  try {
    const program = await buildTestProgram("command_attack", directory);
    await prepare(place, program);
    await using targets = await Targets.open(place, program);
    const { stdout, success } = await new Deno.Command(program, {
      args: targets.arguments(place, place.tmp, loaderOf()),
      stdin: "null",
    }).output();
    assert.ok(success);
    const answers = answersOf(new TextDecoder().decode(stdout));
    assert.deepEqual([...answers.keys()].sort(), Object.keys(ATTEMPTS).sort());
    const stopped = Object.entries(ATTEMPTS)
      .filter(([, [control]]) => control === "open" || (control === "root" && Deno.uid() === 0))
      .filter(([name]) => answers.get(name) !== "open")
      .map(([name]) => `${name}: ${answers.get(name)}`);
    assert.deepEqual(stopped, []);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(targets.datagrams, 1);
    assert.deepEqual(await targets.end(), ["by-name", "by-raw", "typed"]);
  } finally {
    await Deno.remove(directory, { recursive: true });
    await Deno.remove("/dev/shm/mur-attack").catch(() => {});
  }
});

Deno.test("no attempt gets through a wall that must stop it", async (t) => {
  await attackAll(await checkoutHelper(), "", LAYOUTS, t);
});

Deno.test("the walls are the same for uid 0 without CAP_SYS_ADMIN, as containers have it", async (t) => {
  if (Deno.uid() !== 0) return console.log("this is no root: nothing to take away");
  const directory = await Deno.makeTempDir();
  try {
    const inContainer = async (what: string, capabilities: string) => {
      const wrapper = `${directory}/${what}`;
      await Deno.writeTextFile(
        wrapper,
        `#!/bin/sh\nexec setpriv --inh-caps=-all --bounding-set=${capabilities} ${await checkoutHelper()} "$@"\n`,
        { mode: 0o755 },
      );
      return wrapper;
    };
    const helper = await inContainer("container", "-sys_admin,-net_admin,-sys_ptrace,-sys_module,-sys_rawio");
    const probe = await probeHost(helper);
    assert.equal(probe.network, "ok");
    await attackAll(helper, ", no CAP_SYS_ADMIN", LAYOUTS.slice(0, 4), t);
    // Root's own number can be mapped only by who holds this one.
    const bare = await inContainer("bare", "-sys_admin,-setfcap");
    const refused = await probeHost(bare);
    assert.equal(refused.network, "map-denied");
    assert.equal(refused.sealed, "map-denied");
    assert.equal(refused.privateMounts, "map-denied");
    assert.equal(refused.pidNamespace, false);
    await using place = new ConfinedPlace(bare);
    const end = await place.sh("echo ran");
    assert.equal(end.failure?.stage, "netns");
    assert.match(end.failure.reason, /^id maps: /);
    assert.equal(end.stdout, "");
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
