/**
 * The component host of a bundled `mur run`, started before the command line is even parsed: it boots on the other core
 * while everything else is loaded, read and judged (spec components 3.9, session 3.1).
 *
 * @module
 */
import { DEFAULT_LIMITS } from "../../artifact/manifest/default_limits.ts";
import { hardenProcess } from "../../base/process_hardening.ts";
import { ComponentProcess } from "./component_process.ts";
import { type HostPrograms, hostStart } from "./host_start.ts";

let ahead: ComponentProcess | null = null;

/** Starts it. What keeps it from starting is told when a component needs it. */
export function startHostAhead(programs: HostPrograms): void {
  try {
    // Before anything is read that another process of this user must not see.
    hardenProcess();
    ahead = new ComponentProcess(
      hostStart(programs, DEFAULT_LIMITS.memoryBytes, "call"),
    );
  } catch {
    // It is tried again, and then told, by the runtime of components.
  }
}

/** Hands the host over to its only user; `null` when there is none. */
export function takeHostAhead(): ComponentProcess | null {
  const process = ahead;
  ahead = null;
  return process;
}
