/**
 * Reads and changes text files.
 *
 * @module
 */
import { config } from "murmur/environment";
import { FileError, files } from "murmur/files";
import { defineTool, ToolFailure, type ToolOutcome } from "murmur/tool";
import { walkFiles } from "./file_walk.ts";
import { globPattern } from "./glob.ts";
import { applyDiff, PatchError, replaceExactly, type Replacement } from "./patch.ts";
import { formatGroups, searchText } from "./search.ts";

interface Input {
  readonly operation: string;
  readonly path?: string;
  readonly target_path?: string;
  readonly content?: string;
  readonly create_only?: boolean;
  readonly start_line?: number;
  readonly end_line?: number;
  readonly patch?: string | readonly Replacement[];
  readonly pattern?: string;
  readonly include?: string;
  readonly ignore_case?: boolean;
  readonly context_lines?: number;
  readonly max_results?: number;
  readonly recursive?: boolean;
}

const MAX_OUTPUT_BYTES = 50_000;
const MAX_SEARCHED_BYTES = 4 * 1024 * 1024;
const OUTPUT_FOLDER = "editor-output";

function maxOutput(): number {
  return config<{ max_output_bytes?: number }>()?.max_output_bytes ?? MAX_OUTPUT_BYTES;
}

function need(value: string | undefined, name: string, operation: string): string {
  if (typeof value !== "string" || value === "") throw new ToolFailure(`${operation} needs ${name}`);
  return value;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Text of a file that is one. */
function readText(path: string): string {
  const bytes = files.readBytes(path);
  if (bytes.subarray(0, 8000).includes(0)) throw new ToolFailure(`${path} is not a text file`);
  return new TextDecoder().decode(bytes);
}

/** Lines up to a number of bytes, and how many of them fit. */
function fitting(lines: readonly string[], limit: number): number {
  let bytes = 0;
  for (const [index, line] of lines.entries()) {
    bytes += byteLength(line) + 1;
    if (bytes > limit) return index;
  }
  return lines.length;
}

/** A long list: what fits is shown, all of it goes to a file. */
function listing(kind: string, lines: readonly string[], note: string): ToolOutcome {
  const fit = fitting(lines, maxOutput());
  if (fit === lines.length) return { data: [...lines, ...(note === "" ? [] : [note])].join("\n"), metadata: READ };
  files.mkdir(OUTPUT_FOLDER, { recursive: true });
  let number = 1;
  while (files.exists(`${OUTPUT_FOLDER}/${kind}-${number}.txt`)) number++;
  const path = `${OUTPUT_FOLDER}/${kind}-${number}.txt`;
  files.write(path, `${lines.join("\n")}\n`);
  return {
    data: `${lines.slice(0, fit).join("\n")}\n… ${lines.length - fit} more lines; all ${lines.length} are in ${path}`,
    dataPath: path,
    truncated: true,
    metadata: READ,
  };
}

const READ = { state_effect: "read" } as const;
const MUTATE = { state_effect: "mutate" } as const;

function read(input: Input): ToolOutcome {
  const path = need(input.path, "path", "read");
  const lines = readText(path).split("\n");
  if (lines.at(-1) === "") lines.pop();
  const start = Math.max(1, input.start_line ?? 1);
  const end = Math.min(lines.length, input.end_line ?? lines.length);
  if (lines.length === 0) return { data: `${path} is empty`, metadata: READ };
  if (start > lines.length) throw new ToolFailure(`${path} has ${lines.length} lines; there is no line ${start}`);
  if (end < start) throw new ToolFailure(`end_line ${end} is before start_line ${start}`);
  const wanted = lines.slice(start - 1, end);
  const width = String(end).length;
  const numbered = wanted.map((line, index) => `${String(start + index).padStart(width)}\t${line.replace(/\r$/, "")}`);
  const fit = Math.max(1, fitting(numbered, maxOutput()));
  const last = start + fit - 1;
  const whole = start === 1 && last === lines.length;
  const note = whole ? "" : `\n(lines ${start} to ${last} of ${lines.length} in ${path})`;
  const truncated = fit < wanted.length;
  return {
    data: `${numbered.slice(0, fit).join("\n").slice(0, 2 * maxOutput())}${note}`,
    metadata: READ,
    ...(truncated ? { truncated, dataPath: path } : {}),
  };
}

function write(input: Input): ToolOutcome {
  const path = need(input.target_path, "target_path", "write");
  if (typeof input.content !== "string") throw new ToolFailure("write needs content");
  const existed = files.exists(path);
  if (existed && input.create_only === true) throw new ToolFailure(`${path} exists already`);
  const parent = path.slice(0, Math.max(0, path.lastIndexOf("/")));
  if (parent !== "") files.mkdir(parent, { recursive: true });
  files.write(path, input.content);
  const lines = input.content === "" ? 0 : input.content.replace(/\n$/, "").split("\n").length;
  return {
    data: `${existed ? "replaced" : "created"} ${path} (${lines} lines, ${byteLength(input.content)} bytes)`,
    metadata: MUTATE,
  };
}

function patch(input: Input): ToolOutcome {
  const path = need(input.target_path, "target_path", "patch");
  const change = input.patch;
  if (change === undefined) throw new ToolFailure("patch needs patch: replacements or a unified diff");
  const before = readText(path);
  const { text, changes } = typeof change === "string" ? applyDiff(before, change) : replaceExactly(before, change);
  files.write(path, text);
  return { data: `changed ${path} in ${changes} ${changes === 1 ? "place" : "places"}`, metadata: MUTATE };
}

function list(input: Input): ToolOutcome {
  const path = input.path ?? ".";
  if (input.recursive === true) {
    const lines = [...walkFiles(path)].map(({ relative }) => relative);
    return listing("list", lines, lines.length === 0 ? `${path} holds no files` : "");
  }
  const lines = files.list(path).map(({ name, kind }) => {
    if (kind === "directory") return `${name}/`;
    if (kind !== "file") return `${name} (${kind})`;
    return `${name} (${files.stat(path === "." ? name : `${path}/${name}`).size} bytes)`;
  });
  return listing("list", lines, lines.length === 0 ? `${path} is empty` : "");
}

function glob(input: Input): ToolOutcome {
  const path = input.path ?? ".";
  const pattern = globPattern(need(input.pattern, "pattern", "glob"));
  const limit = input.max_results ?? 1000;
  const found: string[] = [];
  let more = false;
  for (const file of walkFiles(path)) {
    if (!pattern.test(file.relative)) continue;
    if (found.length === limit) {
      more = true;
      break;
    }
    found.push(file.path);
  }
  const note = found.length === 0
    ? "no file matches"
    : more
    ? `… there are more than ${limit}; narrow the pattern`
    : "";
  return listing("glob", found, note);
}

function searchPattern(text: string, ignoreCase: boolean): RegExp {
  try {
    return new RegExp(text, ignoreCase ? "i" : "");
  } catch (error) {
    throw new ToolFailure(`pattern is no regular expression: ${error instanceof Error ? error.message : error}`);
  }
}

function search(input: Input): ToolOutcome {
  const path = input.path ?? ".";
  const pattern = searchPattern(need(input.pattern, "pattern", "search"), input.ignore_case === true);
  const include = input.include === undefined ? null : globPattern(input.include);
  const limit = input.max_results ?? 200;
  const context = input.context_lines ?? 0;
  const lines: string[] = [];
  let matches = 0;
  let skipped = 0;
  for (const file of walkFiles(path)) {
    if (include !== null && !include.test(file.relative)) continue;
    if (matches >= limit) break;
    const bytes = files.readBytes(file.path, { length: MAX_SEARCHED_BYTES + 1 });
    if (bytes.length > MAX_SEARCHED_BYTES || bytes.subarray(0, 8000).includes(0)) {
      skipped++;
      continue;
    }
    const groups = searchText(new TextDecoder().decode(bytes), pattern, context, limit - matches);
    if (groups.length === 0) continue;
    matches += groups.flat().filter(({ match }) => match).length;
    if (lines.length > 0 && context > 0) lines.push("--");
    lines.push(...formatGroups(file.path, groups, context));
  }
  const notes = [
    ...(matches === 0 ? ["no line matches"] : []),
    ...(matches >= limit ? [`… stopped after ${limit} matches; narrow the search`] : []),
    ...(skipped > 0 ? [`(${skipped} binary or very large files were not searched)`] : []),
  ];
  return listing("search", lines, notes.join("\n"));
}

const OPERATIONS: Readonly<Record<string, (input: Input) => ToolOutcome>> = { read, write, patch, list, glob, search };

export default defineTool<Input>({
  run(input) {
    const operation = Object.hasOwn(OPERATIONS, input.operation) ? OPERATIONS[input.operation] : undefined;
    if (operation === undefined) {
      throw new ToolFailure(`operation must be one of ${Object.keys(OPERATIONS).join(", ")}`);
    }
    try {
      return operation(input);
    } catch (error) {
      // What the model can mend is an answer, not a fault of the tool.
      if (error instanceof FileError || error instanceof PatchError) throw new ToolFailure(error.message);
      throw error;
    }
  },
});
