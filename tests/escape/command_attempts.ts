/**
 * What the attack program tries (`command_attack.c`), and which walls alone must stop each attempt.
 *
 * @module
 */

/**
 * What may stand between a command and the rest: Landlock and its scopes, the mount namespace, the composed root, the
 * filter, what keeps truncation apart (Landlock from ABI 3 on, else rules of the filter), the network and the PID
 * namespace, empty capabilities, closed descriptors.
 */
export type Wall =
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
export const ATTEMPTS: Readonly<Record<string, readonly [Control, ...Wall[]]>> = {
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
  lease_readable: ["open", "filter"],
  lease_alone: ["open", "filter"],
  // The same for a directory, where the kernel has it.
  lease_directory: ["open", "filter"],
  room_beyond_size: ["open", "filter"],
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

/** Reads what the program printed: each attempt and what came of it. */
export function answersOf(output: string): Map<string, string> {
  return new Map(output.trim().split("\n").map((line) => line.split(" ") as [string, string]));
}

/** Attempts that got through although a wall of the layout must stop them. */
export function leaks(answers: Map<string, string>, walls: ReadonlySet<Wall>, uid = Deno.uid()): string[] {
  const found: string[] = [];
  for (const [name, [, ...stoppedBy]] of Object.entries(ATTEMPTS)) {
    const answer = answers.get(name);
    if (answer === undefined) found.push(`${name} was not tried`);
    if (answer !== "open" || (HARMLESS_AS_ROOT.has(name) && uid === 0)) continue;
    // The work folder is granted: emptying what is in it is no leak where Landlock says who may write.
    if (name === "truncate_granted") continue;
    if (stoppedBy.some((wall) => walls.has(wall))) found.push(name);
  }
  return found;
}
