/**
 * What staging installs into `runtime/tools/`: the manifest of every artifact and shell binary, native binaries and skill
 * texts (spec session 3.5).
 *
 * @module
 */
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { shellToolManifest } from "../agent/tool_inventory.ts";
import { withoutLiteralKeys } from "./manifest_copy.ts";
import type { StagedSession } from "./stage_session.ts";

/**
 * Writes the tools of a session. `runtime` is its runtime directory.
 *
 * @param provided Manifests of the tools the runtime itself provides, by name.
 */
export function installTools(
  staged: StagedSession,
  runtime: RootedDir,
  provided: ReadonlyMap<string, string> = new Map(),
): void {
  for (const { entry, manifestText, payload } of staged.artifacts) {
    const directory = `tools/${entry.bareName}`;
    runtime.mkdir(directory, { mode: 0o700 });
    write(runtime, `${directory}/murmur.yaml`, manifestText);
    if (payload.kind === "native") {
      write(runtime, `${directory}/${entry.bareName}`, new Uint8Array(payload.bytes), 0o755);
    } else if (payload.kind === "skill") {
      write(runtime, `${directory}/skill.md`, payload.text);
    }
  }
  for (const binary of staged.manifest.capabilities.shellAllow) {
    const directory = `tools/${binary}`;
    // An artifact's own manifest is never replaced.
    if (runtime.exists(`${directory}/murmur.yaml`)) continue;
    if (!runtime.exists(directory)) runtime.mkdir(directory, { mode: 0o700 });
    write(runtime, `${directory}/murmur.yaml`, shellToolManifest(binary));
  }
  for (const [name, manifest] of provided) {
    runtime.mkdir(`tools/${name}`, { mode: 0o700 });
    write(runtime, `tools/${name}/murmur.yaml`, manifest);
  }
  write(runtime, "murmur.yaml", withoutLiteralKeys(staged.manifest));
}

function write(runtime: RootedDir, path: string, content: string | Uint8Array<ArrayBuffer>, mode = 0o600): void {
  writeAtomicallyIn(runtime, path, content, { mode, durable: false });
}
