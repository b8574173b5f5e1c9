/**
 * `mur run` (spec cli 12): judges the flags, starts the component host and hands over to `run_capsule.ts`. What that needs
 * is loaded while the host starts.
 *
 * @module
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { hardenProcess } from "../base/process_hardening.ts";
import type { ComponentRuntime } from "../runtime/component/component_runtime.ts";
import { takeHostAhead } from "../runtime/component/host_ahead.ts";
import { startComponents } from "../runtime/component/start_components.ts";
import { leaveFirstPlace } from "../sandbox/first_process.ts";
import type { RunFlags } from "./application.ts";
import type { CliContext } from "./context.ts";
import { UsageError } from "./usage_error.ts";

/** Runs a capsule. */
export async function run(context: CliContext, flags: RunFlags): Promise<number> {
  checkFlags(flags);
  await leaveFirstPlace();
  // Before anything is read that another process of this user must not see.
  hardenProcess();
  // The very first act: the component host warms while everything else is read and judged (spec session 3.1).
  let components: ComponentRuntime;
  try {
    components = await startComponents({
      home: context.absoluteHome(),
      bounds: context.bounds,
      ahead: takeHostAhead(),
      launch: launchKey(context, flags),
    });
  } catch (error) {
    return (await import("./run_capsule.ts")).failedRun(context, flags, error);
  }
  try {
    const { explainCapsule, runCapsule } = await import("./run_capsule.ts");
    // Its hash was made meanwhile: the host is given the code before this thread has no time for it.
    await components.foreseen;
    return await (flags["explain-scope"] ? explainCapsule : runCapsule)(context, flags, components);
  } finally {
    await components.close();
  }
}

/** Refuses combinations the parser cannot judge (spec cli 12). @throws {UsageError} */
function checkFlags(flags: RunFlags): void {
  const needs = (given: unknown, flag: string, other: unknown, otherFlag: string) => {
    if (given !== undefined && other === undefined) throw new UsageError(`${flag} needs ${otherFlag}`);
  };
  const excludes = (given: unknown, flag: string, other: unknown, otherFlag: string) => {
    if (given !== undefined && other !== undefined) throw new UsageError(`${flag} cannot be used with ${otherFlag}`);
  };
  needs(flags.capsule, "--capsule", flags["capsule-version"], "--capsule-version");
  needs(flags["capsule-version"], "--capsule-version", flags.capsule, "--capsule");
  needs(flags["capsule-sha256"], "--capsule-sha256", flags.capsule, "--capsule");
  needs(flags["store-root"], "--store-root", flags.capsule, "--capsule");
  needs(flags["resume-mode"], "--resume-mode", flags.resume, "--resume");
  needs(flags["forget-session"], "--forget-session", flags.context, "--context");
  excludes(flags.capsule, "--capsule", flags.manifest, "--manifest");
  excludes(flags.output, "--output", flags.json, "--json");
  excludes(flags["forget-session"], "--forget-session", flags.resume, "--resume");
}

/** Names the capsule of a launch, for what may be loaded ahead. */
function launchKey({ cwd }: CliContext, flags: RunFlags): string {
  const what = flags.capsule === undefined
    ? [cwd, flags.manifest ?? "murmur.yaml"]
    : [flags.capsule, flags["capsule-version"]];
  // The platform's own hash answers in a later turn of the event loop.
  return new Uint8Array(sha256(new TextEncoder().encode(JSON.stringify(what)))).toHex();
}
