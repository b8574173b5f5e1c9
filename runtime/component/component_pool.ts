/**
 * The host processes of one launch: which call runs in which, one warmed reserve, and who is let go (spec components
 * 3.9, "Processes").
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import type { Wall } from "../../sandbox/guard.ts";
import type { ComponentSpec } from "./component_runtime.ts";
import { ComponentProcess, type ProcessStart } from "./component_process.ts";
import type { TranslatedComponent } from "./translated_component.ts";

/** Components one process holds code of before it is let go: code is never unloaded. */
const MAX_COMPONENTS_PER_PROCESS = 16;

/** Components whose code a reserve is given ahead: those called last. */
const WARMED_COMPONENTS = 4;

/** What a process is started for. */
export type ProcessPurpose =
  /** A call that waits for it, or the first of a launch: it must answer soon. */
  | "call"
  /** A reserve for later: its code is made ready in full while nobody waits. */
  | "reserve";

/** How the pool starts and keeps processes. */
export interface PoolOptions {
  /** Starts a process whose engine allows linear memories of so many bytes. */
  readonly start: (memoryBytes: number, purpose: ProcessPurpose) => ProcessStart;
  /** The reserve to begin with; `null`: one is started. */
  readonly ahead: ComponentProcess | null;
  /** Memory bound of the reserve. */
  readonly reserveMemoryBytes: number;
  /** Idle time after which a process is let go, in milliseconds. */
  readonly idleBound: number;
  /** Time after a call until a reserve is made while there is another process for a call, in milliseconds. */
  readonly reserveDelay: number;
  /** There is no process and no call: the code of components is in nobody's use. */
  readonly asleep: () => void;
}

interface Idle {
  readonly process: ComponentProcess;
  /** Who alone may use it; `null`: every artifact that shares. */
  readonly owner: string | null;
  readonly timer: ReturnType<typeof setTimeout>;
}

/** A process lent to one call. */
export interface Lease {
  readonly process: ComponentProcess;
  /** Whether it served or waited before; it may have been killed from outside unnoticed. */
  readonly used: boolean;
  /** Gives it back for further calls; a dead one is forgotten. */
  release(): void;
}

/** Who a process belongs to: artifacts that don't share are told apart by name and code. */
function ownerOf(spec: ComponentSpec, component: TranslatedComponent): string | null {
  return spec.sharesProcess ? null : `${spec.role}:${spec.name}:${component.sha256}`;
}

/** The processes. */
export class ComponentPool {
  readonly #options: PoolOptions;
  readonly #all = new Set<ComponentProcess>();
  /** Those of instances that live as long as the session. */
  readonly #held = new Set<ComponentProcess>();
  readonly #idle: Idle[] = [];
  #reserve: { readonly process: ComponentProcess; readonly warmed: Promise<void> } | null = null;
  /** What was called last, latest first. */
  #recent: { readonly spec: Pick<ComponentSpec, "limits">; readonly component: TranslatedComponent }[] = [];
  /** Calls in flight. */
  #leased = 0;
  #quiet: ReturnType<typeof setTimeout> | undefined;
  /** A reserve is due. */
  #due: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  /**
   * Starts the reserve at once, unless it is there already.
   *
   * @throws {MurError} `E-RUN-001` when it can't be started.
   */
  constructor(options: PoolOptions) {
    this.#options = options;
    const first = options.ahead === null ? this.#start(options.reserveMemoryBytes, "call") : this.#adopt(options.ahead);
    this.#reserve = { process: first, warmed: this.#warm(first) };
  }

  /** Ids of the processes alive now. */
  get pids(): number[] {
    return [...this.#all].map((process) => process.pid);
  }

  /** Waits until the reserve is warm, or is none. One that is due is made at once. */
  async warmed(): Promise<void> {
    if (this.#due !== undefined) this.#refill();
    await this.#reserve?.warmed;
  }

  /** Walls of the kernel around the processes; none when there is no process to ask. */
  async walls(): Promise<readonly Wall[]> {
    const [process] = this.#all;
    return process === undefined ? [] : await process.walls;
  }

  /** A component will be called soon: the reserve is given its code now, while something else is done. */
  expect(spec: Pick<ComponentSpec, "limits">, component: TranslatedComponent): void {
    this.#remember(spec, component);
    const process = this.#reserve?.process;
    const { code } = component;
    if (code !== null && process !== undefined && !process.dead && process.memoryBytes >= spec.limits.memoryBytes) {
      process.load(component, code, spec);
    }
  }

  /**
   * Takes a process for a call; it may not be ready yet. `null` when the pool is closed.
   *
   * @param fresh One that nobody used or warmed.
   * @throws {MurError} `E-RUN-001` when it can't be started.
   */
  acquire(spec: ComponentSpec, component: TranslatedComponent, fresh = false): Lease | null {
    if (this.#closed) return null;
    this.#remember(spec, component);
    const owner = ownerOf(spec, component);
    const fits = (process: ComponentProcess) => !process.dead && process.memoryBytes >= spec.limits.memoryBytes;
    if (!fresh) {
      const own = this.#idle.find((idle) =>
        idle.owner === owner && fits(idle.process) && idle.process.has(component, spec)
      );
      const shared = own ??
        (owner === null ? this.#idle.find((idle) => idle.owner === null && fits(idle.process)) : undefined);
      if (shared !== undefined) {
        this.#take(shared);
        return this.#lease(shared.process, owner, true);
      }
      const reserve = this.#reserve;
      if (reserve !== null && fits(reserve.process)) {
        this.#reserve = null;
        return this.#lease(reserve.process, owner, true);
      }
    }
    return this.#lease(this.#start(spec.limits.memoryBytes, "call"), owner, false);
  }

  /**
   * Starts a process for an instance that lives as long as the session: it is never given to a call, nor let go while
   * nobody calls. `null` when the pool is closed.
   *
   * @returns It, and what tells that its code is in place.
   * @throws {MurError} `E-RUN-001` when it can't be started.
   */
  hold(spec: ComponentSpec): { readonly process: ComponentProcess; readonly settled: () => void } | null {
    if (this.#closed) return null;
    const process = this.#start(spec.limits.memoryBytes, "call");
    this.#held.add(process);
    // Until then no code is put away.
    this.#leased++;
    let waiting = true;
    return {
      process,
      settled: () => {
        if (waiting) this.#leased--;
        waiting = false;
      },
    };
  }

  /**
   * Lets the reserve go too when no call comes for a while, and puts the code of components away: a session that sleeps
   * holds nothing for the next call.
   */
  letGoWhenIdle(): void {
    if (this.#closed || this.#leased > 0) return;
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => void this.#letGo(), this.#options.idleBound);
  }

  async #letGo(): Promise<void> {
    clearTimeout(this.#due);
    this.#due = undefined;
    this.#reserve?.process.kill();
    this.#reserve = null;
    for (const idle of this.#idle.splice(0)) {
      clearTimeout(idle.timer);
      idle.process.kill();
    }
    const gone = [...this.#all].filter((process) => !this.#held.has(process));
    await Promise.all(gone.map((process) => process.exited));
    await Promise.all(gone.map((process) => process.inputReleased()));
    // A call may have come meanwhile.
    if (this.#leased === 0 && this.#all.size === this.#held.size) this.#options.asleep();
  }

  /** Kills every process and waits until they are gone. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#quiet);
    clearTimeout(this.#due);
    for (const idle of this.#idle.splice(0)) clearTimeout(idle.timer);
    this.#reserve = null;
    const all = [...this.#all];
    for (const process of all) process.kill();
    await Promise.all(all.map((process) => process.exited));
  }

  #lease(process: ComponentProcess, owner: string | null, used: boolean): Lease {
    let released = false;
    this.#leased++;
    clearTimeout(this.#quiet);
    return {
      process,
      used,
      release: () => {
        if (released) return;
        released = true;
        this.#leased--;
        if (this.#closed) process.kill();
        else if (!process.dead) {
          if (process.loaded >= MAX_COMPONENTS_PER_PROCESS) process.kill();
          else this.#keep(process, owner);
        }
        this.#refillSoon();
        this.letGoWhenIdle();
      },
    };
  }

  #keep(process: ComponentProcess, owner: string | null): void {
    const timer = setTimeout(() => {
      const idle = this.#idle.find((other) => other.process === process);
      if (idle === undefined) return;
      this.#take(idle);
      process.kill();
    }, this.#options.idleBound);
    // The one used last is the one taken first: others get the chance to be let go.
    this.#idle.unshift({ process, owner, timer });
  }

  #take(idle: Idle): void {
    clearTimeout(idle.timer);
    this.#idle.splice(this.#idle.indexOf(idle), 1);
  }

  #start(memoryBytes: number, purpose: ProcessPurpose): ComponentProcess {
    return this.#adopt(new ComponentProcess(this.#options.start(memoryBytes, purpose)));
  }

  #adopt(process: ComponentProcess): ComponentProcess {
    this.#all.add(process);
    process.exited.then(() => {
      this.#all.delete(process);
      this.#held.delete(process);
      const idle = this.#idle.find((other) => other.process === process);
      if (idle !== undefined) this.#take(idle);
      if (this.#reserve?.process === process) this.#reserve = null;
    });
    return process;
  }

  #remember(spec: Pick<ComponentSpec, "limits">, component: TranslatedComponent): void {
    const others = this.#recent.filter((other) => other.component.sha256 !== component.sha256);
    this.#recent = [{ spec, component }, ...others].slice(0, WARMED_COMPONENTS);
  }

  /**
   * One reserve is kept. After a call took the last one it is made when that call is over; and not before what the call
   * answered was gone on with, when a process is left for the next one: starting another takes a core for a while.
   */
  #refillSoon(): void {
    if (this.#closed || this.#reserve !== null || this.#due !== undefined) return;
    if (this.#idle.length === 0) this.#refill();
    else this.#due = setTimeout(() => this.#refill(), this.#options.reserveDelay);
  }

  #refill(): void {
    clearTimeout(this.#due);
    this.#due = undefined;
    if (this.#closed || this.#reserve !== null) return;
    try {
      const process = this.#start(this.#options.reserveMemoryBytes, "reserve");
      this.#reserve = { process, warmed: this.#warm(process) };
    } catch (error) {
      // The machine has no process to spare: the next call that needs one says so.
      if (!(error instanceof MurError)) throw error;
    }
  }

  /**
   * Gives a reserve the code that is likely to be called next. It is compiled there and not run: no artifact's guest has
   * been in the process before the one that takes it.
   */
  async #warm(process: ComponentProcess): Promise<void> {
    // Nobody waits for a reserve; whoever takes it bounds the wait.
    if (!await process.ready(null)) return;
    for (const { spec, component } of this.#recent) {
      if (process.memoryBytes < spec.limits.memoryBytes) continue;
      // What can't be read again is told by the call that needs it.
      const code = await component.load();
      if (code !== null) process.load(component, code, spec);
    }
    await process.settled();
  }
}
