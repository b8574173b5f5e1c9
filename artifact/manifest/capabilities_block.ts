/**
 * The `capabilities:` block, capsule-wide and on an `artifacts[]` entry (spec manifest 8.6, 9). What is judged at staging
 * (destinations, scopes, store names) is only read here.
 *
 * @module
 */
import { bareHalf, parseArtifactName } from "../artifact_name.ts";
import { INSTALL_PATTERN_FORMS, isInstallPattern } from "../install_pattern.ts";
import { NETWORK_RULE_HINT, readNetworkRule } from "../network_rules.ts";
import {
  type ArtifactGrant,
  type ArtifactRole,
  type Capabilities,
  type ComponentLimits,
  CONTAINMENT_CLASSES,
  type ContainmentClass,
  type InterpreterRuntimeGrant,
  type ProcessLimits,
  type StagedRuntimeGrant,
} from "./capsule_manifest.ts";
import { maskedEndpoint } from "./gateway_endpoint.ts";
import { DEFAULT_LIMITS } from "./default_limits.ts";
import type { Refusals } from "./manifest_error.ts";
import type { BlockReader } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";

/** Manifest keys of `capabilities.resources` with the field each sets and its default (spec manifest 9.8). */
const RESOURCES = [
  ["max_processes", "maxProcesses", 128],
  ["max_open_files", "maxOpenFiles", 1024],
  ["max_file_size_bytes", "maxFileSizeBytes", 4_294_967_296],
  ["cpu_seconds", "cpuSeconds", 3600],
  ["memory_bytes", "memoryBytes", 2_147_483_648],
  ["cgroup_memory_bytes", "cgroupMemoryBytes", 4_294_967_296],
  ["cgroup_pids_max", "cgroupPidsMax", 256],
  ["cgroup_cpu_percent", "cgroupCpuPercent", 200],
  ["cgroup_io_bytes_per_sec", "cgroupIoBytesPerSec", 104_857_600],
  ["workdir_max_bytes", "workdirMaxBytes", 10_737_418_240],
] as const;

/** Blocks that do nothing on an entry, in table order (`W-SEC-006`, `W-SEC-008`). */
const INERT_ON_ENTRY = ["peer_fetch", "shell", "spawn", "env", "limits", "resources", "plan", "containment"] as const;

/** An integer that must be greater than zero; `fallback` when it is not written. */
function positive<F>(reader: BlockReader, key: string, refuse: Refusals, fallback: F): number | F {
  const value = reader.integer(key);
  if (value === 0) throw refuse.config("capability", reader.at(key), "must be greater than zero");
  return value ?? fallback;
}

function readPeerFetch(reader: BlockReader, refuse: Refusals): string[] | null {
  if (!reader.present("peer_fetch")) return null;
  const block = reader.child("peer_fetch");
  const allow = block.texts("allow") ?? [];
  if (allow.length === 0) throw refuse.config("capability", block.at("allow"), "must contain at least one entry");
  allow.forEach((entry, index) => {
    const rule = readNetworkRule(entry);
    if (!("problem" in rule)) return;
    throw refuse.config(
      "capability",
      `${block.at("allow")}[${index}]`,
      `'${shownValue(maskedEndpoint(entry))}': ${rule.problem}`,
      NETWORK_RULE_HINT,
    );
  });
  return allow;
}

function readShell(reader: BlockReader, refuse: Refusals): Pick<
  Capabilities,
  "shellAllow" | "stripEnv" | "baselineEnv" | "interpreterRuntime" | "stagedRuntime"
> {
  const shell = reader.child("shell");
  const allow = shell.texts("allow") ?? [];
  const refusal = (field: string, reason: string) => refuse.config("capability", field, reason);
  if (reader.present("shell") && allow.length === 0) {
    throw refusal(shell.at("allow"), "must contain at least one binary");
  }
  allow.forEach((binary, index) => {
    const bare = binary !== "" && binary !== "." && binary !== ".." && !/[\s/\p{Cc}]/u.test(binary);
    if (!bare) {
      throw refusal(
        `${shell.at("allow")}[${index}]`,
        `'${shownValue(binary)}' is not the bare name of a binary: no '/', no blank, not '.' or '..'`,
      );
    }
  });

  const interpreterRuntime = shell.children("interpreter_runtime").map((grant): InterpreterRuntimeGrant => {
    const binary = grant.filled("binary");
    if (binary === null) throw refusal(grant.at("binary"), "missing required field");
    if (!allow.includes(binary)) {
      throw refusal(grant.at("binary"), `'${shownValue(binary)}' is not in capabilities.shell.allow`);
    }
    const dirs = grant.children("dirs");
    if (dirs.length === 0) throw refusal(grant.at("dirs"), "must contain at least one directory");
    return {
      binary,
      dirs: dirs.map((dir) => {
        const path = dir.filled("path");
        if (path === null) throw refusal(dir.at("path"), "missing required field");
        if (!path.startsWith("/")) throw refusal(dir.at("path"), `'${shownValue(path)}' is not an absolute path`);
        const listDir = dir.boolean("list_dir");
        if (listDir === null) throw refusal(dir.at("list_dir"), "must be set explicitly to true or false");
        return { path, listDir };
      }),
    };
  });

  const stagedRuntime = shell.children("staged_runtime").map((grant): StagedRuntimeGrant => {
    const binary = grant.filled("binary");
    if (binary === null) throw refusal(grant.at("binary"), "missing required field");
    if (!allow.includes(binary)) {
      throw refusal(grant.at("binary"), `'${shownValue(binary)}' is not in capabilities.shell.allow`);
    }
    if (interpreterRuntime.some((other) => other.binary === binary)) {
      throw refusal(
        grant.at("binary"),
        `'${shownValue(binary)}' also has an interpreter_runtime grant; declare one of them`,
      );
    }
    const sourcePath = grant.filled("source_path");
    if (sourcePath === null) throw refusal(grant.at("source_path"), "missing required field");
    if (!sourcePath.startsWith("/")) {
      throw refusal(grant.at("source_path"), `'${shownValue(sourcePath)}' is not an absolute path`);
    }
    const pin = grant.filled("pin");
    if (pin === null) throw refusal(grant.at("pin"), "missing required field");
    return { binary, sourcePath, pin };
  });

  return {
    shellAllow: allow,
    stripEnv: shell.texts("strip_env") ?? [],
    baselineEnv: shell.texts("baseline_env") ?? [],
    interpreterRuntime,
    stagedRuntime,
  };
}

function readSpawn(reader: BlockReader, refuse: Refusals): Pick<Capabilities, "spawnAllow" | "workdirSnapshot"> {
  const spawn = reader.child("spawn");
  const spawnAllow = spawn.texts("allow") ?? [];
  const workdirSnapshot = spawn.texts("workdir_snapshot") ?? [];
  const check = (list: string, name: string, index: number): void => {
    if (parseArtifactName(name)?.scope) return;
    throw refuse.config(
      "capability",
      `${spawn.at(list)}[${index}]`,
      `'${shownValue(name)}' is not a full name`,
      "a full name <scope>/<name> is needed, such as local/worker",
    );
  };
  spawnAllow.forEach((name, index) => {
    check("allow", name, index);
    const twin = spawnAllow.slice(0, index).find((other) => bareHalf(other) === bareHalf(name));
    if (twin !== undefined) {
      throw refuse.config(
        "capability",
        `${spawn.at("allow")}[${index}]`,
        `'${name}' and '${twin}' have the same bare name, and the agent tells capsules apart by it`,
      );
    }
  });
  workdirSnapshot.forEach((name, index) => {
    check("workdir_snapshot", name, index);
    if (!spawnAllow.includes(name)) {
      throw refuse.config(
        "capability",
        `${spawn.at("workdir_snapshot")}[${index}]`,
        `'${name}' is not in capabilities.spawn.allow`,
      );
    }
  });
  return { spawnAllow, workdirSnapshot };
}

function readLimits(reader: BlockReader, refuse: Refusals): ComponentLimits {
  const limits = reader.child("limits");
  return {
    memoryBytes: positive(limits, "memory_bytes", refuse, DEFAULT_LIMITS.memoryBytes),
    tableElements: positive(limits, "table_elements", refuse, DEFAULT_LIMITS.tableElements),
    instances: positive(limits, "instances", refuse, DEFAULT_LIMITS.instances),
    deadlineSeconds: positive(limits, "deadline_seconds", refuse, DEFAULT_LIMITS.deadlineSeconds),
    deadlineDeclared: limits.present("deadline_seconds"),
  };
}

function readResources(reader: BlockReader, refuse: Refusals): ProcessLimits {
  const resources = reader.child("resources");
  const values: Record<string, number> = {};
  const declared = new Set<string>();
  for (const [key, field, fallback] of RESOURCES) {
    values[field] = positive(resources, key, refuse, fallback);
    if (resources.present(key)) declared.add(key);
  }
  return { ...(values as Record<typeof RESOURCES[number][1], number>), declared };
}

/** A boolean that has to be written when its block is. `null` without the block. */
function explicit(reader: BlockReader, block: string, key: string, refuse: Refusals): boolean | null {
  if (!reader.present(block)) return null;
  const child = reader.child(block);
  const value = child.boolean(key);
  if (value === null) throw refuse.config("capability", child.at(key), "must be set explicitly to true or false");
  return value;
}

function readInstall(reader: BlockReader, refuse: Refusals): Pick<
  Capabilities,
  "installSkill" | "installTool" | "installDeclared"
> {
  const install = reader.child("install");
  const lists = { skill: install.texts("skill") ?? [], tool: install.texts("tool") ?? [] };
  if (reader.present("install") && lists.skill.length + lists.tool.length === 0) {
    throw refuse.config("capability", install.path, "must list at least one pattern under 'skill' or 'tool'");
  }
  for (const [key, patterns] of Object.entries(lists)) {
    for (const pattern of patterns) {
      if (isInstallPattern(pattern)) continue;
      throw refuse.config(
        "capability",
        install.at(key),
        `'${shownValue(pattern)}' is not a pattern; write ${INSTALL_PATTERN_FORMS}`,
      );
    }
  }
  return { installSkill: lists.skill, installTool: lists.tool, installDeclared: reader.present("install") };
}

/** Reads the block in the order its checks are made (spec manifest 19, rule 5); `task_io` is judged by the callers. */
export function readCapabilities(reader: BlockReader, refuse: Refusals, onEntry: boolean): Capabilities {
  const network = reader.child("network");
  const peerFetch = readPeerFetch(reader, refuse);
  const filesystem = reader.child("filesystem");
  if (!onEntry && filesystem.present("records")) {
    throw refuse.config("capability", filesystem.at("records"), "only the entry of a hook may declare it");
  }
  const shell = readShell(reader, refuse);
  const spawn = readSpawn(reader, refuse);
  const limits = readLimits(reader, refuse);
  const resources = readResources(reader, refuse);
  const conversation = onEntry ? null : explicit(reader, "conversation", "read", refuse);
  const plan = explicit(reader, "plan", "submit", refuse);
  const install = readInstall(reader, refuse);
  const word = reader.filled("containment")?.trim() ?? null;
  if (word !== null && !CONTAINMENT_CLASSES.some((each) => each === word)) {
    const reason = `must be one of: ${CONTAINMENT_CLASSES.join(", ")}; got '${shownValue(word)}'`;
    throw refuse.config("capability", reader.at("containment"), reason);
  }
  return {
    networkAllow: network.texts("allow") ?? [],
    unixSockets: network.boolean("unix_sockets") ?? false,
    peerFetch,
    scope: filesystem.filled("scope"),
    workdirExec: filesystem.boolean("workdir_exec") ?? false,
    readOnly: (filesystem.texts("read_only") ?? []).filter((entry) => entry.trim() !== ""),
    ...shell,
    ...spawn,
    envAllow: reader.child("env").texts("allow") ?? [],
    limits,
    resources,
    stateDeclared: reader.present("state"),
    conversationDeclared: conversation !== null,
    planSubmit: plan ?? false,
    ...install,
    containment: word as ContainmentClass | null,
  };
}

/** Reads the block of an `artifacts[]` entry (spec manifest 8.6, 19 rule 3). */
export function readGrant(reader: BlockReader, role: ArtifactRole, index: number, refuse: Refusals): ArtifactGrant {
  const refusal = (field: string, reason: string) => refuse.config("capability", field, reason);
  if (reader.present("install")) {
    throw refusal(reader.at("install"), "it is capsule-wide only; declare it under the top-level capabilities");
  }
  if (role === "skill") {
    throw refuse.artifact(index, "a skill runs nothing, so it takes no 'capabilities'", "capabilities");
  }
  for (const block of ["task_io", "conversation"]) {
    if (role !== "hook" && reader.present(block)) throw refusal(reader.at(block), "only a hook may declare it");
  }
  const taskIoRead = explicit(reader, "task_io", "read", refuse) ?? false;
  const conversationRead = explicit(reader, "conversation", "read", refuse) ?? false;
  const filesystem = reader.child("filesystem");
  if (filesystem.present("records")) {
    if (role !== "hook") throw refusal(filesystem.at("records"), "only a hook may declare it");
    if (filesystem.boolean("records") && filesystem.filled("scope") !== null) {
      throw refusal(filesystem.at("records"), "it mounts the records as '.', so 'scope' cannot stand beside it");
    }
  }
  readCapabilities(reader, refuse, true);
  const network = reader.child("network");
  const inert: string[] = INERT_ON_ENTRY.filter((block) => reader.present(block));
  // Keys that look like a restriction and are none: said like the blocks, so that nobody relies on them.
  if (network.present("unix_sockets")) inert.push("network.unix_sockets");
  for (const key of ["workdir_exec", "read_only"]) if (filesystem.present(key)) inert.push(`filesystem.${key}`);
  return {
    networkAllow: network.texts("allow"),
    scope: filesystem.filled("scope"),
    records: filesystem.boolean("records") ?? false,
    state: reader.present("state") ? { store: reader.child("state").text("store")?.trim() ?? null } : null,
    taskIoRead,
    conversationRead,
    inert,
  };
}
