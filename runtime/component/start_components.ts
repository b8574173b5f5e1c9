/**
 * Starting the component side of a launch before anything of the capsule is known (spec session 3.1).
 *
 * @module
 */
import { DEFAULT_LIMITS } from "../../artifact/manifest/default_limits.ts";
import type { MurmurHome } from "../../base/murmur_home.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { confineHelper } from "../../sandbox/confine_helper.ts";
import type { ComponentRuntime } from "./component_runtime.ts";
import { type ComponentRuntimeOptions, createComponentRuntime } from "./create_component_runtime.ts";
import { componentHostScript } from "./host_program.ts";

/** What a launch knows of its components from the start. */
export interface ComponentStart extends Pick<ComponentRuntimeOptions, "ahead" | "launch"> {
  readonly home: Pick<MurmurHome, "compiled">;
  readonly bounds: TimeBounds;
}

/**
 * Starts the first component host, which warms while the capsule is read and judged.
 *
 * @throws {MurError} `E-RUN-001` when no host process can be started, what finding the helper throws.
 */
export async function startComponents({ home, bounds, ...known }: ComponentStart): Promise<ComponentRuntime> {
  const [helper, hostScript] = await Promise.all([confineHelper(), componentHostScript()]);
  return createComponentRuntime({
    compiledDirectory: home.compiled,
    bounds,
    limits: { ...DEFAULT_LIMITS, deadlineDeclared: false },
    confineHelper: helper,
    hostScript,
    ...known,
  });
}
