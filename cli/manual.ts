/**
 * The manual page of `mur`, from the command tree that `--help` and completion read.
 *
 * @module
 */
import type { Command, CommandContext, RouteMap } from "@stricli/core";
import { VERSION } from "../base/version.ts";
import { commandTree } from "./application.ts";
import { type ManualCommand, type ManualEntry, manualPage } from "./man_page.ts";

type Target = Command<CommandContext> | RouteMap<CommandContext>;
type Flags = NonNullable<Command<CommandContext>["parameters"]["flags"]>;
type Flag = Flags[string];
type Positional = Command<CommandContext>["parameters"]["positional"];

/** A flag as a reader writes it. */
function flagEntry(name: string, flag: Flag, aliases: Readonly<Record<string, string | undefined>>): ManualEntry {
  const letter = Object.entries(aliases).find(([, target]) => target === name)?.[0];
  const value = flag.kind === "boolean" || flag.kind === "counter"
    ? ""
    : flag.kind === "enum"
    ? ` ${flag.values.join("|")}`
    : ` <${flag.placeholder ?? "value"}>`;
  return { written: `${letter === undefined ? "" : `-${letter}, `}--${name}${value}`, brief: flag.brief };
}

function positionals(positional: Positional): readonly { readonly shown: string; readonly brief: string }[] {
  if (positional === undefined) return [];
  if (positional.kind === "array") {
    const { placeholder = "argument", brief } = positional.parameter;
    return [{ shown: (positional.minimum ?? 0) > 0 ? `<${placeholder}>...` : `[<${placeholder}>...]`, brief }];
  }
  return positional.parameters.map(({ placeholder = "argument", brief, optional }) => ({
    shown: optional === true ? `[<${placeholder}>]` : `<${placeholder}>`,
    brief,
  }));
}

function isRouteMap(target: Target): target is RouteMap<CommandContext> {
  return "getAllEntries" in target;
}

/** Every command below a target that is shown, in the order of `--help`. */
function commandsOf(target: Target, name: string): ManualCommand[] {
  if (isRouteMap(target)) {
    return target.getAllEntries().filter(({ hidden }) => !hidden)
      .flatMap((entry) => commandsOf(entry.target, `${name} ${entry.name.original}`));
  }
  const { flags = {}, aliases = {}, positional } = target.parameters;
  const shown = Object.entries(flags as Flags).filter(([, flag]) => !("hidden" in flag && flag.hidden === true));
  const args = positionals(positional);
  return [{
    name,
    usage: [...(shown.length > 0 ? ["[options]"] : []), ...args.map(({ shown }) => shown)].join(" "),
    description: [`${target.brief}.`, target.fullDescription ?? ""].join(" "),
    entries: [
      ...args.map(({ shown, brief }) => ({ written: shown.replace(/^\[|\]$|\.\.\./g, ""), brief })),
      ...shown.map(([flag, value]) => flagEntry(flag, value, aliases as Record<string, string | undefined>)),
    ],
  }];
}

/** The page as text. */
export function murManual(): string {
  const tree = commandTree();
  return manualPage({
    name: "mur",
    version: VERSION,
    brief: "build, install and run contained AI agents",
    description: [
      "Murmur runs AI agents and proves what they could and could not do. An agent is packed as a capsule: model driver, " +
      "tools, skills and everything it may touch, in one murmur.yaml.",
      "Results go to standard output, diagnostics to standard error. Every command answers --help.",
    ],
    commands: commandsOf(tree, "mur"),
    exitStatus: [
      { written: "0", brief: "Success." },
      { written: "1", brief: "A failure with a code, which standard error names." },
      { written: "2", brief: "Wrong usage." },
    ],
    environment: [
      { written: "HOME", brief: "Where ~/.murmur lies, and the cache." },
      { written: "MURMUR_CACHE_DIR", brief: "Where the program unpacks itself, in place of ~/.cache/murmur." },
      { written: "MURMUR_MUR_BINARY", brief: "The mur that delegated capsules are started with; default this one." },
      { written: "MURMUR_ROOST_URL", brief: "Address of mur-roost, for capsules that spawn others." },
      { written: "NO_COLOR", brief: "Set: no colours on a terminal." },
    ],
    files: [
      { written: "murmur.yaml", brief: "What a capsule is and may touch." },
      { written: "murmur.lock", brief: "The artifacts of a project, by their hashes." },
      { written: "~/.murmur", brief: "Configuration, keys, artifacts and records." },
      { written: "~/.cache/murmur", brief: "What the programs unpacked; safe to remove while none of them runs." },
    ],
    seeAlso: ["mur-roost(1)"],
  });
}
