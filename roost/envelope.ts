/**
 * The spawn envelope: a capsule never holds more than the one that spawned it (seed roost "Spawn envelope", spec roost 8).
 * Pure; nothing is narrowed to fit.
 *
 * The seed names twelve axes. A manifest grants three things beside them that reach further than any of the twelve lets a
 * parent see: network of a hook's own, and directories of the host for interpreters. They are compared after the twelve,
 * by the same sentence. Not compared is what a capsule is made of: its artifacts, its prompts, its model and the gateways it
 * is reached through.
 *
 * @module
 */
import { installPatternCovers } from "../artifact/install_pattern.ts";
import { CONTAINMENT_CLASSES } from "../artifact/manifest/capsule_manifest.ts";
import { type NetworkRule, networkRuleCovers } from "../artifact/network_rules.ts";
import { workdirPathCovers } from "../artifact/workdir_path.ts";
import type { Grants, HostDirectory } from "./grants.ts";

/** What a child declares beyond its parent. */
export interface EnvelopeExcess {
  /** Manifest key. */
  readonly key: string;
  /** The declaration, as the manifest has it. */
  readonly entry: string;
}

/** An axis: its manifest key, and the first declaration of the child that its parent does not hold. */
interface Axis {
  readonly key: string;
  readonly excess: (parent: Grants, child: Grants) => string | null;
}

function firstUncovered<T>(
  parent: readonly T[],
  child: readonly T[],
  covers: (held: T, asked: T) => boolean,
): T | null {
  return child.find((asked) => !parent.some((held) => covers(held, asked))) ?? null;
}

function network(list: (grants: Grants) => readonly NetworkRule[]): Axis["excess"] {
  return (parent, child) => firstUncovered(list(parent), list(child), networkRuleCovers)?.entry ?? null;
}

function names(list: (grants: Grants) => readonly string[]): Axis["excess"] {
  return (parent, child) => firstUncovered(list(parent), list(child), (held, asked) => held === asked);
}

function flag(value: (grants: Grants) => boolean): Axis["excess"] {
  return (parent, child) => value(child) && !value(parent) ? "true" : null;
}

function patterns(list: (grants: Grants) => readonly string[]): Axis["excess"] {
  return (parent, child) => firstUncovered(list(parent), list(child), installPatternCovers);
}

/** A parent without a scope holds the whole work folder; a child without one would. */
function scope(parent: Grants, child: Grants): string | null {
  if (parent.scope === null) return null;
  if (child.scope === null) return "the whole workdir";
  return workdirPathCovers(parent.scope, child.scope) ? null : child.scope;
}

/** A floor is a requirement, not a grant: it may only rise. */
function containment(parent: Grants, child: Grants): string | null {
  const strength = (grants: Grants) => CONTAINMENT_CLASSES.indexOf(grants.containment);
  return strength(child) >= strength(parent) ? null : child.containment;
}

/** A hook reaches what its capsule may reach, and what a hook of its parent does. */
function hookNetwork(parent: Grants, child: Grants): string | null {
  const held = [...parent.network, ...parent.hookNetwork];
  return firstUncovered(held, child.hookNetwork, networkRuleCovers)?.entry ?? null;
}

/** By their texts alone: a link in one directory may lead out of it, so that none covers what lies beneath it. */
function directories(list: (grants: Grants) => readonly HostDirectory[]): Axis["excess"] {
  const covers = (held: HostDirectory, asked: HostDirectory) => held.path === asked.path && (held.list || !asked.list);
  return (parent, child) => firstUncovered(list(parent), list(child), covers)?.path ?? null;
}

/** The axes of the seed, in the order they are compared. */
export const ENVELOPE_AXES: readonly Axis[] = [
  { key: "capabilities.network.allow", excess: network((grants) => grants.network) },
  { key: "capabilities.network.unix_sockets", excess: flag((grants) => grants.unixSockets) },
  { key: "capabilities.peer_fetch.allow", excess: network((grants) => grants.peerFetch) },
  { key: "capabilities.shell.allow", excess: names((grants) => grants.shell) },
  { key: "capabilities.spawn.allow", excess: names((grants) => grants.spawn) },
  { key: "capabilities.env.allow", excess: names((grants) => grants.env) },
  { key: "capabilities.filesystem.scope", excess: scope },
  { key: "capabilities.filesystem.workdir_exec", excess: flag((grants) => grants.workdirExec) },
  { key: "capabilities.state.store", excess: names((grants) => grants.stateStores) },
  { key: "capabilities.install.skill", excess: patterns((grants) => grants.installSkill) },
  { key: "capabilities.install.tool", excess: patterns((grants) => grants.installTool) },
  { key: "capabilities.containment", excess: containment },
];

/** What a manifest grants beside them, compared after them. */
export const FURTHER_GRANTS: readonly Axis[] = [
  { key: "artifacts[].capabilities.network.allow", excess: hookNetwork },
  {
    key: "capabilities.shell.interpreter_runtime",
    excess: directories((grants) => grants.interpreterRuntime),
  },
  { key: "capabilities.shell.staged_runtime", excess: directories((grants) => grants.stagedRuntime) },
];

/** The first thing a child declares that its parent does not hold; `null` when the parent may spawn it. */
export function envelopeExcess(parent: Grants, child: Grants): EnvelopeExcess | null {
  // What a capsule declares is within itself, which is what a capsule that names itself asks.
  if (parent === child) return null;
  for (const { key, excess } of [...ENVELOPE_AXES, ...FURTHER_GRANTS]) {
    const entry = excess(parent, child);
    if (entry !== null) return { key, entry };
  }
  return null;
}
