/**
 * A name that a process shares with no other as long as its kernel runs: the number of its descriptor's inode, on kernels that
 * count those up (Linux 6.9), with the boot it is counted from.
 *
 * Who has noted it can tell that a pid is still held by the very process at a third of the cost of `/proc/<pid>/stat`, which
 * is what a daemon that starts spends its time on. That it is not the same proves nothing, since a restored process has
 * another one: then the start token decides (`process_identity.ts`).
 *
 * @module
 */
import { DescriptorRow, ROW } from "./descriptor_row.ts";
import { type Libc, POLL, POLL_RECORD_BYTES, STATX_BYTES } from "./libc.ts";

/** A process as it was noted. */
export interface NotedInstance {
  readonly pid: number;
  /** {@linkcode processInstance} of it, when there was one. */
  readonly process_instance?: string;
}

/** The file system of descriptors whose inodes are counted up. Those of older kernels all have the same one. */
const PID_FS = 0x5049_4446;

/** Word of `statx` that the inode begins with. */
const INODE_WORD = 8;

const stat = new Uint8Array(STATX_BYTES);
const words = new Uint32Array(stat.buffer);

/**
 * The instance of the process that holds a pid, also of one that has ended and was not waited for.
 *
 * @returns `null` when none holds it, or the kernel does not tell.
 */
export function processInstance(c: Libc, pid: number): string | null {
  const boot = bootId();
  if (boot === null || !isPid(pid)) return null;
  const descriptor = c.pidfdOpen(pid);
  if (descriptor < 0) return null;
  const isCounted = c.fileSystem(descriptor) === PID_FS && c.fstatInto(descriptor, stat) >= 0;
  c.close(descriptor);
  return isCounted ? `${boot}:${inode()}` : null;
}

/** Which of the noted processes surely run, in their order; of the others nothing is known. */
export function runningInstances(c: Libc, noted: readonly NotedInstance[]): readonly boolean[] {
  const run: boolean[] = new Array(noted.length).fill(false);
  const boot = noted.some(({ process_instance }) => process_instance !== undefined) ? bootId() : null;
  if (boot === null) return run;
  using held = new DescriptorRow(c);
  /** As `poll` takes them: a descriptor, what it is asked for in the lower half of the next word, the answer in the upper. */
  const records = new Uint8Array(ROW * POLL_RECORD_BYTES);
  const polled = new Int32Array(records.buffer);
  const places = new Uint32Array(ROW);
  const settle = () => {
    const { size } = held;
    const isTold = c.pollAll(records.subarray(0, size * POLL_RECORD_BYTES)) >= 0;
    // What is readable has ended.
    for (let index = 0; index < size; index++) run[places[index]!] = isTold && polled[2 * index + 1]! >> 16 === 0;
    held.close();
  };
  for (let place = 0; place < noted.length; place++) {
    const { pid, process_instance } = noted[place]!;
    if (process_instance === undefined || !isPid(pid)) continue;
    const descriptor = c.pidfdOpen(pid);
    if (descriptor < 0) continue;
    if (c.fstatInto(descriptor, stat) < 0 || process_instance !== `${boot}:${inode()}`) {
      c.close(descriptor);
      continue;
    }
    const { size } = held;
    polled[2 * size] = descriptor;
    polled[2 * size + 1] = POLL.IN;
    places[size] = place;
    held.add(descriptor);
    if (held.size === ROW) settle();
  }
  if (held.size > 0) settle();
  return run;
}

function isPid(pid: number): boolean {
  return Number.isInteger(pid) && pid > 0 && pid <= 0x7fff_ffff;
}

/** As a plain number: a `bigint` takes longer than the kernel's calls, and counting this far takes centuries. */
function inode(): number {
  return words[INODE_WORD]! + words[INODE_WORD + 1]! * 2 ** 32;
}

function bootId(): string | null {
  try {
    return Deno.readTextFileSync("/proc/sys/kernel/random/boot_id").trim();
  } catch {
    return null;
  }
}
