/**
 * `on-stage`: hooks describe shell commands before the session begins (spec components 10.9, session 3.5). Each runs in an
 * instance of its own that ends with the call; what goes wrong is logged and survived.
 *
 * @module
 */
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { MurError, reasonOf } from "../../base/errors.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import type { CallContext, ComponentRuntime } from "../component/component_runtime.ts";
import { HookDispatcher } from "./hook_dispatcher.ts";
import type { HookFaults } from "./hook_faults.ts";
import type { ToolManifest } from "./hook_output.ts";
import { isBoundTo, SessionHook, type StagedHook } from "./session_hook.ts";

/** What staging hooks are told and where their answers go. */
export interface StageHooksOptions {
  readonly components: ComponentRuntime;
  /** In manifest order; those bound to `on-stage` are called. */
  readonly hooks: readonly StagedHook[];
  readonly shellAllow: readonly string[];
  /** The session's runtime directory. */
  readonly runtimeDir: RootedDir;
  readonly faults: HookFaults;
  readonly contextOf: (hook: StagedHook) => CallContext;
}

/** Runs them all, one after the other. */
export async function runStageHooks(options: StageHooksOptions): Promise<void> {
  for (const staged of options.hooks) {
    if (!isBoundTo(staged.contract, "on-stage")) continue;
    await runOne(staged, options);
  }
}

async function runOne(staged: StagedHook, options: StageHooksOptions): Promise<void> {
  const { components, faults, runtimeDir, shellAllow, contextOf } = options;
  const { name } = staged.spec;
  let hook: SessionHook;
  try {
    hook = await SessionHook.open(components, staged, contextOf(staged), ["on-stage"]);
  } catch (cause) {
    if (!(cause instanceof MurError)) throw cause;
    return faults.log(name, `hook '${name}' on-stage: ${cause.message}`);
  }
  const dispatcher = new HookDispatcher([hook], faults);
  const { answers } = await dispatcher.dispatch("on-stage", { shellAllow });
  dispatcher.close();
  for (const { output } of answers) {
    if (output.tag !== "write-manifests") continue;
    for (const manifest of output.val) writeManifest(manifest, name, runtimeDir, faults);
  }
}

function writeManifest(
  { binaryName, content }: ToolManifest,
  hook: string,
  runtimeDir: RootedDir,
  faults: HookFaults,
): void {
  const refused = (why: string) =>
    faults.log(
      hook,
      `hook '${hook}' on-stage: write-manifests: the manifest of '${binaryName}' is not written: ${why}`,
    );
  if (binaryName === "" || binaryName.startsWith(".") || /[/\0]/.test(binaryName)) {
    return refused("the name is not one path segment");
  }
  try {
    using tools = runtimeDir.openDir("tools", { follow: false });
    if (!tools.exists(binaryName)) tools.mkdir(binaryName);
    using folder = tools.openDir(binaryName, { follow: false });
    writeAtomicallyIn(folder, "murmur.yaml", content, { mode: 0o600, durable: false });
  } catch (cause) {
    refused(reasonOf(cause));
  }
}
