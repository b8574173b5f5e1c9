/**
 * `filesystem.read_only` at dispatch: whether a call is positively a write to a covered path (spec manifest 9.3).
 *
 * The rules see what a call says, not what a program then does; what they cannot see is listed there and reported as
 * `W-SEC-017` and `W-SEC-018`. The judgement is pure: where a path leads is asked of a {@linkcode PathResolver}.
 *
 * @module
 */
import type { Capabilities } from "./manifest/capsule_manifest.ts";
import { normalWorkdirPath, workdirPathCovers, workdirPathProblem } from "./workdir_path.ts";

/**
 * Where a path leads: workdir-relative in normal form (`.` is the work folder), absolute and relative paths and symbolic
 * links resolved, also when the last components do not exist; `null` when it lies outside. Relative paths are relative to
 * the work folder.
 */
export type PathResolver = (path: string) => string | null;

/** Why a call does not run. */
export interface ReadOnlyRefusal {
  /** The covered path, resolved and workdir-relative. */
  readonly path: string;
  /** The entry of `read_only`, as it is written. */
  readonly rule: string;
  /** What made the call a write, e.g. `redirect >>`, `rm`, `key dest`. */
  readonly signal: string;
  /** Sentence for the model and the trace. */
  readonly reason: string;
}

/** Binaries that write files of their own accord, so that against them the rules are advisory (`W-SEC-017`). */
const INTERPRETERS = [
  "bash",
  "sh",
  "zsh",
  "fish",
  "dash",
  "ksh",
  "python",
  "python3",
  "perl",
  "ruby",
  "node",
  "deno",
  "bun",
  "php",
  "awk",
  "gawk",
  "mawk",
  "lua",
  "tclsh",
  "Rscript",
];

/** Interpreters of `shell.allow` beside a non-empty `read_only`, each once in the order allowed; else none. */
export function readOnlyInterpreters(capabilities: Capabilities): string[] {
  if (capabilities.readOnly.length === 0) return [];
  return [...new Set(capabilities.shellAllow)].filter((binary) => INTERPRETERS.includes(binary));
}

function parentOf(path: string): { readonly parent: string; readonly name: string } | null {
  const trimmed = path.replace(/\/+$/, "");
  const slash = trimmed.lastIndexOf("/");
  const name = trimmed.slice(slash + 1);
  if (name === "" || name === "." || name === "..") return null;
  return { parent: slash < 0 ? "." : trimmed.slice(0, slash) || "/", name };
}

function join(folder: string, name: string): string {
  return folder === "." ? name : `${folder}/${name}`;
}

/** What is covered, for the calls of one moment: entries are resolved when it is made. */
export class ReadOnlyPaths {
  readonly #entries: readonly { readonly rule: string; readonly paths: readonly string[] }[];

  /** @param entries `capabilities.readOnly`, judged. */
  constructor(entries: readonly string[], readonly resolve: PathResolver) {
    this.#entries = entries.filter((entry) => workdirPathProblem(entry) === null).map((rule) => {
      const written = normalWorkdirPath(rule);
      const resolved = resolve(written);
      return { rule, paths: resolved === null || resolved === written ? [written] : [written, resolved] };
    });
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Every form of a covered folder, for matching patterns against. */
  folders(): readonly { readonly rule: string; readonly path: string }[] {
    return this.#entries.flatMap(({ rule, paths }) => paths.map((path) => ({ rule, path })));
  }

  /**
   * The rule that covers a path, with the path as it was resolved. A link is judged both as the link and as what it
   * leads to: the one is replaced, the other written.
   *
   * @param removes Whether the call takes the path away with everything below: then it is also enough that the path
   * holds a covered one.
   */
  find(path: string, removes = false): { readonly rule: string; readonly path: string } | null {
    const forms = new Set<string>();
    const target = this.resolve(path);
    if (target !== null) forms.add(target);
    const split = parentOf(path);
    const parent = split === null ? null : this.resolve(split.parent);
    if (split !== null && parent !== null) forms.add(join(parent, split.name));
    for (const { rule, paths } of this.#entries) {
      for (const form of forms) {
        for (const covered of paths) {
          if (workdirPathCovers(covered, form)) return { rule, path: form };
          if (removes && workdirPathCovers(form, covered)) return { rule, path: covered };
        }
      }
    }
    return null;
  }

  /** The refusal for a path that is covered. */
  refusal(found: { readonly rule: string; readonly path: string }, signal: string): ReadOnlyRefusal {
    return {
      ...found,
      signal,
      reason:
        `'${found.path}' is read-only: capabilities.filesystem.read_only has '${found.rule}', and this call would ` +
        `write there (${signal})`,
    };
  }

  /** Judges one path. */
  judge(path: string, signal: string, removes = false): ReadOnlyRefusal | null {
    if (path === "") return null;
    const found = this.find(path, removes);
    return found === null ? null : this.refusal(found, signal);
  }
}
