/**
 * The checklist of `mur doctor`: every declared artifact against the stores, the lock, this host and the interfaces this
 * build serves (spec cli 11.5).
 *
 * @module
 */
import { componentNames } from "../artifact/component_names.ts";
import { findPin, type LockFile, pinnedHash, pinProblem } from "../artifact/lockfile.ts";
import { judgeHookContract } from "../artifact/manifest/artifact_manifest.ts";
import type { ArtifactEntry, CapsuleManifest } from "../artifact/manifest/capsule_manifest.ts";
import { nativePlatforms } from "../artifact/native_platform.ts";
import { openPackage, readPayload } from "../artifact/package.ts";
import { type ArtifactStore, type LoadedArtifact, unplatformedNativeWarning } from "../artifact/store.ts";
import { MurError } from "../base/errors.ts";
import {
  type InterfaceMismatch,
  judgeMurmurNames,
  parseInterfaceName,
} from "../runtime/component/served_interfaces.ts";

/** One line of the checklist. */
export interface ChecklistLine {
  readonly mark: "ok" | "error" | "warning" | "note";
  /** `name@version`. */
  readonly subject: string;
  /** Column behind the subject, empty for none. */
  readonly state: string;
  /** What is wrong, without the dash before it. */
  readonly finding: string | null;
  /** Further lines, printed indented. */
  readonly details: readonly string[];
  /** What mends it. */
  readonly fix: string | null;
}

/** What the artifacts are checked against. */
export interface ChecklistInput {
  readonly manifest: CapsuleManifest;
  /** Directory of the manifest. */
  readonly directory: string;
  /** In order: project store, global store. */
  readonly stores: readonly ArtifactStore[];
  readonly lock: LockFile | null;
  /** The host's platform tag. */
  readonly platform: string;
  readonly maxBytes: number;
}

/** Checks every declared artifact, then notes what is pinned without being declared. */
export async function artifactChecklist(input: ChecklistInput): Promise<readonly ChecklistLine[]> {
  const lines: ChecklistLine[] = [];
  for (const entry of input.manifest.artifacts) lines.push(await checkEntry(entry, input));
  const declared = new Set(input.manifest.artifacts.map((entry) => entry.bareName));
  for (const pin of input.lock?.entries ?? []) {
    if (pin.origin !== "runtime" || declared.has(pin.name)) continue;
    lines.push(line("note", `${pin.name}@${pin.version}`, {
      state: `pulled at runtime by session ${pin.session} — not declared in murmur.yaml, so mur run does not stage it`,
    }));
  }
  return lines;
}

function line(
  mark: ChecklistLine["mark"],
  subject: string,
  rest: { state?: string; finding?: string; details?: readonly string[]; fix?: string } = {},
): ChecklistLine {
  const { state = "", finding = null, details = [], fix = null } = rest;
  return { mark, subject, state, finding, details, fix };
}

async function checkEntry(entry: ArtifactEntry, input: ChecklistInput): Promise<ChecklistLine> {
  const { lock, platform } = input;
  const subject = `${entry.name}@${entry.version}`;
  if (entry.source !== null) return await checkSource(entry, subject, input.directory);
  const install = `mur install ${entry.name}@${entry.version}`;
  try {
    const loaded = await load(entry, input);
    if (loaded === null) return line("error", subject, { state: platform, finding: "missing", fix: install });
    if (lock !== null) {
      const problem = pinProblem(lock, { name: entry.bareName, version: entry.version }, platform);
      if (problem !== null) {
        const fix = `${install}; if it was installed from a file, delete murmur.lock: the next run writes it again`;
        return line("error", subject, { finding: problem.text, fix });
      }
      const pinned = pinnedHash(findPin(lock, entry.bareName)!, platform)!;
      const actual = loaded.artifact.sha256;
      if (pinned !== actual) {
        return line("error", subject, {
          finding: `artifact integrity check failed for ${subject}`,
          details: [`expected sha256 (murmur.lock): ${pinned}`, `actual sha256 (on disk):      ${actual}`],
          fix: `${install}, or remove the stale entry from murmur.lock`,
        });
      }
    }
    return await checkPayload(entry, subject, loaded, input);
  } catch (error) {
    if (!(error instanceof MurError)) throw error;
    const [finding, ...details] = error.message.split("\n");
    return line("error", subject, { finding: finding!, details, fix: install });
  }
}

async function load(entry: ArtifactEntry, input: ChecklistInput): Promise<LoadedArtifact | null> {
  for (const store of input.stores) {
    const loaded = await store.load(entry.bareName, entry.version, input.platform);
    if (loaded !== null) return loaded;
  }
  return null;
}

async function checkSource(entry: ArtifactEntry, subject: string, directory: string): Promise<ChecklistLine> {
  const path = entry.source!.startsWith("/") ? entry.source! : `${directory}/${entry.source}`;
  const state = "local source";
  try {
    const info = await Deno.stat(path);
    const found = !info.isDirectory ||
      (await Array.fromAsync(Deno.readDir(path))).some(({ name }) => name.toLowerCase() === "skill.md");
    if (found) return line("ok", subject, { state });
    return line("error", subject, { state, finding: `skill source directory '${path}' contains no skill.md` });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return line("error", subject, { state, finding: `skill source path not found: ${path}` });
  }
}

async function checkPayload(
  entry: ArtifactEntry,
  subject: string,
  { artifact, bytes }: LoadedArtifact,
  input: ChecklistInput,
): Promise<ChecklistLine> {
  const { lock, platform } = input;
  const install = `mur install ${entry.name}@${entry.version}`;
  const opened = await openPackage(bytes, artifact.path, input.maxBytes);
  if (entry.role === "hook") {
    try {
      judgeHookContract(opened.manifest);
    } catch (error) {
      if (!(error instanceof MurError)) throw error;
      return line("error", subject, {
        finding: error.message,
        fix: `install a release of ${subject} with a valid contract`,
      });
    }
  }
  const payload = await readPayload(opened);
  let state = "platform-independent";
  if (opened.manifest.packaging === "native") {
    const built = nativePlatforms(payload!);
    if (built.length > 0 && !built.includes(platform)) {
      const finding = `native binary is built for ${built.join(", ")}, this host is ${platform}`;
      return line("error", subject, { finding, fix: `install a build of ${subject} for ${platform}` });
    }
    state = built.length > 0 ? platform : "platform unverified";
  }
  if (opened.manifest.packaging === "wasm") {
    const names = componentNames(payload!);
    const stale = names === null ? [] : judgeMurmurNames(names);
    if (stale.length > 0) {
      return line("error", subject, {
        finding: mismatchText(stale),
        fix: `install a release of ${subject} for this mur`,
      });
    }
  }
  const pin = lock === null ? undefined : findPin(lock, entry.bareName);
  if (pin?.origin === "runtime") {
    const role = operatorOnlyRole(entry, input.manifest);
    if (role !== null) {
      const finding = `murmur.lock pins '${entry.name}' from a runtime pull by session ${pin.session}; ` +
        `murmur.yaml declares it with ${role}`;
      return line("error", subject, { finding, fix: `${install} adopts it` });
    }
    return line("warning", subject, { state, finding: `pulled at runtime by session ${pin.session}` });
  }
  const unplatformed = unplatformedNativeWarning({
    ...artifact,
    metadata: { ...artifact.metadata, kind: opened.manifest.packaging },
  });
  if (unplatformed !== null) {
    const finding = "native artifact with no recorded platform (warning[W-REG-001])";
    return line("warning", subject, { state, finding, fix: install });
  }
  return line("ok", subject, { state });
}

/** The first use of an artifact that only an operator's pin may have (`E-RUN-043`), or `null`. */
export function operatorOnlyRole(entry: ArtifactEntry, manifest: CapsuleManifest): string | null {
  if (entry.role === "hook") return "runtime: hook";
  if (entry.role === "driver") return "runtime: driver";
  if (entry.gateway !== null) return "gateway:";
  const prompt = manifest.inference?.systemPromptArtifact ?? null;
  return prompt === entry.name || prompt === entry.bareName ? "inference.system_prompt_artifact" : null;
}

/** What a component was built against and what is served instead; the first mismatch and how many more there are. */
export function mismatchText(mismatches: readonly InterfaceMismatch[]): string {
  const [first, ...more] = mismatches;
  const { package: name } = parseInterfaceName(first!.name);
  const served = first!.served === null ? `no version of ${name}` : `${name}@${first!.served}`;
  return `built against ${first!.name}, this mur serves ${served}${more.length === 0 ? "" : ` (+${more.length} more)`}`;
}
