/**
 * The processes below one, as `/proc` shows them, and whether they are gone.
 *
 * @module
 */

/** A process, told from a later one of the same id by when it started. */
export interface SeenProcess {
  readonly pid: number;
  readonly start: string;
  readonly command: string;
}

interface Status extends SeenProcess {
  readonly parent: number;
  readonly state: string;
}

function statusOf(pid: number): Status | null {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return {
      pid,
      command: stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")")),
      state: fields[0]!,
      parent: Number(fields[1]),
      start: fields[19]!,
    };
  } catch {
    return null;
  }
}

function allProcesses(): Status[] {
  const found: Status[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    const status = /^\d+$/.test(name) ? statusOf(Number(name)) : null;
    if (status !== null) found.push(status);
  }
  return found;
}

/** Every process below one, at any depth. */
export function processesBelow(pid: number): SeenProcess[] {
  const all = allProcesses();
  const below: Status[] = [];
  for (let parents = [pid]; parents.length > 0;) {
    const children = all.filter(({ parent }) => parents.includes(parent));
    below.push(...children);
    parents = children.map((child) => child.pid);
  }
  return below;
}

/** Every process of this machine with these arguments, its program's name first. */
export function processesOf(command: readonly string[]): SeenProcess[] {
  const wanted = `${command.join("\0")}\0`;
  return allProcesses().filter(({ pid }) => {
    try {
      return Deno.readTextFileSync(`/proc/${pid}/cmdline`) === wanted;
    } catch {
      return false;
    }
  });
}

/** Those that still run. One that only waits to be reaped does not. */
export function stillRunning(processes: readonly SeenProcess[]): SeenProcess[] {
  return processes.filter(({ pid, start }) => {
    const now = statusOf(pid);
    return now !== null && now.start === start && now.state !== "Z" && now.state !== "X";
  });
}

/** Polls until a condition holds. @throws {Error} when it does not within the bound. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, boundMs = 10_000): Promise<void> {
  for (const end = Date.now() + boundMs; !(await holds());) {
    if (Date.now() > end) throw new Error(`not within ${boundMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
