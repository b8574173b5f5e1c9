/**
 * Spawner lifelines: a pipe by which a child learns that the process that launched it has ended, however it ended (roost
 * seed "A child ends with its parent", spec roost 13, session 17.4). The launching runtime holds the only write end and
 * never writes; the kernel closes it with the process.
 *
 * @module
 */
import { descriptorWatch } from "../../base/descriptor_watch.ts";
import { MurError } from "../../base/errors.ts";
import { ERRNO, FCNTL, FD_CLOEXEC, libc, O, POLL } from "../../base/libc.ts";
import { RootedError } from "../../base/rooted_error.ts";

/** Variable that names a child's end. */
export const LIFELINE_VARIABLE = "MURMUR_SPAWNER_LIFELINE";

/** Descriptor a child finds its end at: the first behind its standard streams. */
export const LIFELINE_DESCRIPTOR = 3;

/** The launcher's side of one lifeline. Both ends are closed by every exec of this process. */
export interface LifelineEnds {
  /** Given to the child, then closed here with {@linkcode closeChildEnd}. */
  readonly childEnd: number;
  closeChildEnd(): void;
  /** Called once the child is gone: until then, closing it is what ends the child. */
  release(): void;
}

/** Makes a lifeline for one child. @throws {MurError} `E-IO-003` when there is no descriptor left. */
export function makeLifeline(): LifelineEnds {
  const c = libc();
  const pair = c.pipe();
  if (typeof pair === "number") throw RootedError.fromResult(pair, "make", "a lifeline");
  const [childEnd, heldEnd] = pair;
  const once = (fd: number) => {
    let open = true;
    return () => {
      if (open) c.close(fd);
      open = false;
    };
  };
  return { childEnd, closeChildEnd: once(childEnd), release: once(heldEnd) };
}

/**
 * Takes the lifeline this process was launched with and keeps it from every process it starts.
 *
 * @param value Of the variable; `undefined` and blank: none.
 * @returns the descriptor, `null` without one.
 * @throws {MurError} `E-RUN-020` for anything but the read end of an open pipe, numbered 3 or above.
 */
export function takeLifeline(value: string | undefined): number | null {
  if (value === undefined || value.trim() === "") return null;
  const fd = /^[0-9]{1,9}$/.test(value) ? Number(value) : NaN;
  if (Number.isNaN(fd)) throw unusable("it is no descriptor's number");
  if (fd < LIFELINE_DESCRIPTOR) throw unusable(`it names a descriptor below ${LIFELINE_DESCRIPTOR}`);
  const c = libc();
  const stat = c.fstat(fd);
  if (typeof stat === "number") throw unusable(`descriptor ${fd} is not open`);
  // A descriptor of a mere path can't be read from, whatever its access mode says.
  const ACCESS = 3 | O.PATH;
  const flags = c.fcntl(fd, FCNTL.GETFL);
  if (stat.kind !== "fifo" || flags < 0 || (flags & ACCESS) !== O.RDONLY) {
    throw unusable(`descriptor ${fd} is not the read end of a pipe`);
  }
  if (c.fcntl(fd, FCNTL.SETFD, FD_CLOEXEC) < 0) throw unusable(`descriptor ${fd} cannot be kept from other processes`);
  return fd;
}

function unusable(why: string): MurError {
  return new MurError("E-RUN-020", `${LIFELINE_VARIABLE} names no lifeline: ${why}`, {
    hint: `unset ${LIFELINE_VARIABLE} to run the capsule on its own; only a parent's runtime sets it`,
  });
}

/**
 * Calls `ended` once, when the other end is closed: when the launching process is gone. Bytes that come are discarded.
 *
 * @returns ends the watch.
 */
export function watchLifeline(fd: number, ended: () => void): () => void {
  const c = libc();
  const watch = descriptorWatch();
  const discarded = new Uint8Array(4_096);
  let watching = true;
  const stop = () => {
    if (!watching) return;
    watching = false;
    watch.close(fd);
  };
  watch.watch(fd, POLL.IN, (events) => {
    if ((events & (POLL.IN | POLL.HUP)) !== 0) {
      const count = c.read(fd, discarded);
      if (count > 0 || count === -ERRNO.EINTR || count === -ERRNO.EAGAIN) return;
    }
    // Nothing more will come, or nothing more can be told: a child whose launcher may be gone does not stay.
    stop();
    ended();
  });
  return stop;
}
