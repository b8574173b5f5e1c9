/**
 * How a component host is started here (spec components 3.9): the program, its walls, its limits.
 *
 * @module
 */
import { programStart } from "../../base/program.ts";
import { componentHostArguments } from "../../sandbox/component_host_guard.ts";
import type { ProcessPurpose } from "./component_pool.ts";
import type { ProcessStart } from "./component_process.ts";
import { PAGE_BYTES } from "./core_module.ts";

/** The widest memory a 32-bit linear memory has. */
const MAX_PAGES = 65_536;

/** What a host is made of. */
export interface HostPrograms {
  /** Path of `mur-confine`, `null` where there is none. */
  readonly confineHelper: string | null;
  /** The host program as a script (`host_program.ts`). */
  readonly hostScript?: string | null;
}

/** The start of one host process. */
export function hostStart(
  { confineHelper, hostScript }: HostPrograms,
  memoryBytes: number,
  purpose: ProcessPurpose,
): ProcessStart {
  const pages = Math.min(MAX_PAGES, Math.max(1, Math.ceil(memoryBytes / PAGE_BYTES)));
  const start = programStart("component-host", {
    checkoutEntry: new URL("./host/main.ts", import.meta.url),
    script: hostScript ?? null,
    v8Flags: [
      `--wasm-max-mem-pages=${pages}`,
      // A call that waits is better served by code compiled as it is reached.
      ...(purpose === "reserve" ? ["--no-wasm-lazy-compilation"] : []),
    ],
  });
  const own = { env: start.env, preamble: start.preamble, memoryBytes: pages * PAGE_BYTES };
  if (confineHelper === null) return { ...own, command: start.command, args: start.args };
  return { ...own, command: confineHelper, args: componentHostArguments(start) };
}
