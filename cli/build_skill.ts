/**
 * `mur build --skill [<name>] [path]`: packs a folder or zip file that holds `SKILL.md` (spec cli 10.2).
 *
 * @module
 */
import { bareNameProblem, isBareName, versionProblem } from "../artifact/artifact_name.ts";
import { parseArtifactManifest } from "../artifact/manifest/artifact_manifest.ts";
import { ARCHIVE_SUFFIX } from "../artifact/package.ts";
import { readArchive } from "../artifact/store.ts";
import {
  isSafeEntryName,
  MAX_ARCHIVE_BYTES,
  maxDecompressedBytes,
  openZip,
  readZipEntry,
} from "../artifact/zip_archive.ts";
import { writeZip, type ZipInput } from "../artifact/zip_writer.ts";
import { writeAtomically } from "../base/atomic_file.ts";
import { MurError, reasonOf } from "../base/errors.ts";
import { RootedDir } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import { absolutePath } from "../base/paths.ts";
import { shownPath } from "./build.ts";
import type { CliContext } from "./context.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur build --skill`. */
export interface BuildSkillFlags {
  /** What followed `--skill`: a name, a path, or nothing. */
  readonly skill: string;
  /** Version of a generated manifest. */
  readonly version?: string;
  /** Description of a generated manifest. */
  readonly summary?: string;
  readonly output?: string;
}

const DEFAULT_VERSION = "0.1.0";

/** Packs a skill into the current directory. */
export async function buildSkill(context: CliContext, flags: BuildSkillFlags, path = "."): Promise<number> {
  if (flags.output !== undefined) throw new UsageError("--output does not go with --skill");
  const valueIsPath = /[/\\]|^\./.test(flags.skill);
  if (valueIsPath && path !== ".") throw new UsageError("--skill names a path, and another one follows");
  const source = absolutePath(context.cwd, valueIsPath ? flags.skill : path);
  const givenName = valueIsPath || flags.skill === "" ? null : flags.skill;

  const maxBytes = maxDecompressedBytes(context.env);
  const files = source.endsWith(".zip") ? await filesOfZip(source, maxBytes) : filesOfFolder(source);
  const text = skillText(files, source);
  const given = files.find((file) => file.name === "murmur.yaml");
  const manifest = given === undefined
    ? generateManifest(givenName ?? inferName(source), givenName !== null, flags)
    : useManifest(context, given, source, givenName, flags);
  const rest = files.filter((file) => file !== text && file !== given).toSorted((a, b) => compare(a.name, b.name));
  const archive = await writeZip([
    { name: "murmur.yaml", bytes: manifest.bytes },
    { name: "skill.md", bytes: text.bytes },
    ...rest,
  ]);
  if (!isBareName(manifest.name)) {
    context.stderr.line(
      `warning: '${manifest.name}' is no artifact name, so nothing can install it; give one with --skill <name>`,
    );
  }
  const problem = versionProblem(manifest.version);
  if (problem !== null) {
    throw new MurError("E-IO-003", `'${manifest.version}' cannot be part of a file name: ${problem}`);
  }
  const output = `${context.cwd}/${manifest.name}-${manifest.version}${ARCHIVE_SUFFIX}`;
  writeAtomically(output, archive);
  context.stdout.line(`Built artifact: ${shownPath(context.cwd, output)}`);
  return 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * The name a skill gets from where it lies: last path component without `.zip`, lower case, anything else `_`, runs of it
 * collapsed, trimmed.
 */
export function inferName(path: string): string {
  const last = path.split("/").at(-1)!.replace(/\.zip$/i, "").toLowerCase();
  const name = last.replace(/[^a-z0-9-]/gu, "_").replace(/_+/g, "_").replace(/^[_-]+|[_-]+$/g, "");
  return name === "" ? "skill" : name;
}

/** Whether a file at the root of a skill is packed: no hidden one and no archive made by an earlier build. */
function isTaken(name: string): boolean {
  return isSafeEntryName(name) && !name.includes("/") && !name.startsWith(".") && !name.endsWith(ARCHIVE_SUFFIX);
}

function filesOfFolder(directory: string): ZipInput[] {
  try {
    using root = RootedDir.open(directory, { symlinks: "refuse" });
    return root.readDir().filter(({ kind, name }) => kind === "file" && isTaken(name)).map(({ name }) => {
      using file = root.openFile(name);
      return { name, bytes: file.readAll(MAX_ARCHIVE_BYTES) };
    });
  } catch (error) {
    const missing = isRootedError(error, "no-entry", "not-directory");
    throw new MurError(
      missing ? "E-IO-001" : error instanceof MurError ? error.code : "E-IO-003",
      missing ? `no skill folder at ${directory}` : `cannot read ${directory}: ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

async function filesOfZip(path: string, maxBytes: number): Promise<ZipInput[]> {
  const bytes = await readArchive(path);
  if (bytes === null) throw new MurError("E-IO-001", `no skill archive at ${path}`);
  const archive = openZip(bytes, path);
  const files: ZipInput[] = [];
  let total = 0;
  for (const entry of archive.entries.values()) {
    if (!isTaken(entry.name)) continue;
    const bound = Math.min(maxBytes, MAX_ARCHIVE_BYTES - total);
    const content = await readZipEntry(archive, entry, bound, bound === maxBytes);
    total += content.length;
    files.push({ name: entry.name, bytes: content });
  }
  return files;
}

function skillText(files: readonly ZipInput[], source: string): ZipInput {
  const texts = files.filter((file) => file.name.toLowerCase() === "skill.md");
  if (texts.length === 0) throw new MurError("E-IO-001", `no SKILL.md at the root of ${source}`);
  if (texts.length > 1) {
    const names = texts.map((file) => `'${file.name}'`).join(" and ");
    throw new MurError("E-BLD-002", `two files would be packed as 'skill.md': ${names}`, { hint: "keep one of them" });
  }
  return texts[0]!;
}

interface SkillManifest {
  readonly name: string;
  readonly version: string;
  readonly bytes: Uint8Array;
}

function generateManifest(name: string, isGiven: boolean, flags: BuildSkillFlags): SkillManifest {
  const problem = isGiven ? bareNameProblem(name) : null;
  if (problem !== null) throw new MurError("E-BLD-001", `invalid artifact name '${name}': ${problem}`);
  const version = flags.version ?? DEFAULT_VERSION;
  if (version.trim() === "") throw new MurError("E-IO-003", "--version is blank");
  const lines = [`name: ${JSON.stringify(name)}`, `version: ${JSON.stringify(version)}`, "runtime: skill"];
  if (flags.summary !== undefined) lines.push(`description: ${JSON.stringify(flags.summary)}`);
  const bytes = new TextEncoder().encode(`${lines.join("\n")}\n`);
  // What is packed must be readable again.
  parseArtifactManifest(bytes, "murmur.yaml");
  return { name, version, bytes };
}

function useManifest(
  context: CliContext,
  file: ZipInput,
  source: string,
  givenName: string | null,
  flags: BuildSkillFlags,
): SkillManifest {
  const manifest = parseArtifactManifest(file.bytes, `${source}/murmur.yaml`);
  if (manifest.runtime !== "skill") {
    const place = manifest.place("runtime");
    throw new MurError("E-MAN-003", `murmur.yaml: field 'runtime' is '${manifest.runtime}', a skill says 'skill'`, {
      ...(place === undefined ? {} : { place }),
    });
  }
  const problem = bareNameProblem(manifest.name);
  if (problem !== null) throw new MurError("E-BLD-001", `invalid artifact name '${manifest.name}': ${problem}`);
  const ignored = [
    ...(givenName === null || givenName === manifest.name ? [] : ["the name"]),
    ...(flags.version === undefined ? [] : ["--version"]),
    ...(flags.summary === undefined ? [] : ["--summary"]),
  ];
  if (ignored.length > 0) {
    context.stderr.line(`warning: ${ignored.join(" and ")} not used: the skill's own murmur.yaml is packed unchanged`);
  }
  return { name: manifest.name, version: manifest.version, bytes: file.bytes };
}
