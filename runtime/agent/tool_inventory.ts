/**
 * The tools a model is offered, read from `runtime/tools/` (spec components 8.1, session 8.2), and the manifests of shell
 * tools that staging puts there (session 3.5).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { stringify } from "yaml";
import { type ArtifactManifest, parseArtifactManifest } from "../../artifact/manifest/artifact_manifest.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import type { ToolDescription } from "./driver_protocol.ts";

/** Longest manifest or skill text that is read, in bytes. */
const MAX_TEXT_BYTES = 4 * 1024 * 1024;

const NO_PARAMETERS: JsonObject = { type: "object", properties: {} };

/** One entry of `runtime/tools/` whose manifest could be read. */
export interface InstalledTool {
  /** Name of its directory: how it is called. */
  readonly name: string;
  readonly manifest: ArtifactManifest;
  /** Text of `skill.md`; `null` when the entry is no skill. */
  readonly skillText: string | null;
}

/** Binaries that get the command as one `-c` text (spec components 8.7). */
const INTERPRETERS: ReadonlySet<string> = new Set(["bash", "sh", "zsh", "fish", "dash", "ksh"]);

/** The manifest of the tool that one allowed shell binary becomes. */
export function shellToolManifest(binary: string): string {
  return stringify({
    name: binary,
    version: "0.0.0",
    runtime: "tool",
    implementation: "native",
    description: INTERPRETERS.has(binary)
      ? `Runs a ${binary} script in the work folder; 'command' is its text.`
      : `Runs ${binary} in the work folder; 'command' holds its arguments, without the name ${binary}.`,
    input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
  });
}

function readText(directory: RootedDir, path: string): string | null {
  try {
    const file = directory.openFile(path, { follow: false });
    try {
      return new TextDecoder().decode(file.readAll(MAX_TEXT_BYTES));
    } finally {
      file.close();
    }
  } catch (cause) {
    if (isRootedError(cause)) return null;
    throw cause;
  }
}

/**
 * Every installed entry by name, drivers and hooks included. An entry that is no directory, or whose manifest is missing
 * or not readable, is left out.
 *
 * @param tools `runtime/tools/`.
 */
export function installedTools(tools: RootedDir): readonly InstalledTool[] {
  const names = tools.readDir().filter(({ kind }) => kind === "directory").map(({ name }) => name).sort();
  return names.flatMap((name): InstalledTool[] => {
    const text = readText(tools, `${name}/murmur.yaml`);
    if (text === null) return [];
    let manifest: ArtifactManifest;
    try {
      manifest = parseArtifactManifest(text, `tools/${name}/murmur.yaml`);
    } catch {
      return [];
    }
    return [{ name, manifest, skillText: readText(tools, `${name}/skill.md`) }];
  });
}

/** One entry as the model sees it; `null` when it is not shown to the model. */
export function describeTool(tool: InstalledTool): ToolDescription | null {
  const { manifest } = tool;
  if (manifest.role === "driver" || manifest.role === "hook") return null;
  const isSkill = manifest.role === "skill";
  const written = manifest.description?.trim() ?? "";
  const firstLine = tool.skillText?.split(/\r?\n/).map((line) => line.trim()).find((line) => line !== "");
  const description = written === "" && isSkill ? firstLine ?? "" : written;
  return {
    name: tool.name,
    parameters: isSkill ? NO_PARAMETERS : manifest.inputSchema,
    ...(description === "" ? {} : { description }),
  };
}

/**
 * The tool array of a request.
 *
 * @param boundSkill The skill bound as system prompt, which is not offered; `null` without one.
 */
export function toolInventory(installed: readonly InstalledTool[], boundSkill: string | null): ToolDescription[] {
  return installed.flatMap((tool) => {
    const described = tool.name === boundSkill ? null : describeTool(tool);
    return described === null ? [] : [described];
  });
}
