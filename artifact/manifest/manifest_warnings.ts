/**
 * Findings about grants that the manifest alone decides (spec diagnostics 9, containment 17). Pure; `mur run`,
 * `--explain-scope` and `mur doctor` print the same ones. Findings about gateways and their keys are made where keys are
 * looked up, those about `read_only` schemas where schemas are known.
 *
 * @module
 */
import type { Warning, WarningCode } from "../../base/errors.ts";
import { artifactNetworkRules } from "../capability_policy.ts";
import { looksLikeCredential, strippedBy } from "../environment_patterns.ts";
import { readOnlyInterpreters } from "../read_only_rules.ts";
import type { ArtifactEntry, CapabilityPolicy, CapsuleManifest } from "./capsule_manifest.ts";
import { shownValue } from "./shown_value.ts";

function finding(code: WarningCode, message: string): Warning {
  return { code, source: "capsule-runtime", message };
}

/** What staging knows besides the manifest. */
export interface ManifestWarningOptions {
  /** `after_task` with flags applied; default: the manifest's. */
  readonly afterTask?: "exit" | "sleep";
}

/** `W-SEC-009`, one per grant. */
function interpreterGrants(manifest: CapsuleManifest): Warning[] {
  return manifest.capabilities.interpreterRuntime.map(({ binary, dirs }) => {
    const listed = dirs.map(({ path, listDir }) => `${shownValue(path)} (${listDir ? "list_dir" : "no-list"})`);
    return finding(
      "W-SEC-009",
      `capabilities.shell.interpreter_runtime grants '${binary}' host directories outside the work folder ` +
        `[${listed.join(", ")}]: the capsule depends on where this host keeps them and which versions it has; ` +
        "staged_runtime is the durable form",
    );
  });
}

/** `W-SEC-024`, at most one. */
function credentialNames(manifest: CapsuleManifest, sleeps: boolean): Warning[] {
  const { envAllow, stripEnv } = manifest.capabilities;
  const names = [...new Set(envAllow)].filter((name) =>
    strippedBy(name, stripEnv) === null && looksLikeCredential(name)
  );
  if (names.length === 0) return [];
  const lasting = sleeps
    ? "; with after_task: sleep every later task of this capsule, whoever sent it, can read them too"
    : "";
  return [finding(
    "W-SEC-024",
    `capabilities.env.allow passes what looks like credentials to components: ${
      names.map((name) => `'${shownValue(name)}'`).join(", ")
    }${lasting}`,
  )];
}

/** `W-SEC-006`, `W-SEC-007` and `W-SEC-008` of one entry. */
function entryFindings(entry: ArtifactEntry, policy: CapabilityPolicy): Warning[] {
  if (entry.grant === null) return [];
  const inert = entry.grant.inert.map((block) => `capabilities.${block}`).join(", ");
  const findings: Warning[] = [];
  if (entry.role === "hook") {
    if (inert !== "") {
      findings.push(
        finding("W-SEC-006", `hook '${entry.name}' declares ${inert}, which the runtime does not apply per hook`),
      );
    }
    return findings;
  }
  const { dropped } = artifactNetworkRules(entry, policy);
  if (dropped.length > 0) {
    findings.push(finding(
      "W-SEC-007",
      `artifact '${entry.name}' declares capabilities.network.allow entries the capsule-wide list does not allow ` +
        `(${dropped.map((entry) => shownValue(entry)).join(", ")}): they are dropped, since an entry can only narrow`,
    ));
  }
  if (inert !== "") {
    findings.push(finding(
      "W-SEC-008",
      `artifact '${entry.name}' declares ${inert}, which narrowing by artifact does not apply`,
    ));
  }
  return findings;
}

/**
 * Everything the manifest alone decides, in the order of staging: capsule-wide findings, then each entry's. The manifest
 * has passed `judgeCapabilities`.
 */
export function manifestWarnings(
  manifest: CapsuleManifest,
  policy: CapabilityPolicy,
  options: ManifestWarningOptions = {},
): Warning[] {
  const { capabilities } = manifest;
  const warnings = interpreterGrants(manifest);
  if (capabilities.workdirExec) {
    warnings.push(finding(
      "W-SEC-011",
      "capabilities.filesystem.workdir_exec is true: what the capsule writes into its work folder can run whatever " +
        "capabilities.shell.allow says, so its containment class is 'advisory' on every host",
    ));
  }
  if (capabilities.stateDeclared) {
    warnings.push(finding(
      "W-SEC-014",
      "capabilities.state at the top level opens nothing: declare it on the artifacts: entry that needs a store",
    ));
  }
  if (capabilities.conversationDeclared) {
    warnings.push(finding(
      "W-SEC-016",
      "capabilities.conversation at the top level grants nothing: declare it on the artifacts: entry of the hook",
    ));
  }
  for (const binary of readOnlyInterpreters(capabilities)) {
    warnings.push(finding(
      "W-SEC-017",
      `capabilities.shell.allow has '${binary}' beside capabilities.filesystem.read_only: what it writes itself is not seen, ` +
        "so against it the read-only paths are advisory",
    ));
  }
  warnings.push(...credentialNames(manifest, (options.afterTask ?? manifest.lifecycle.afterTask) === "sleep"));
  for (const entry of manifest.artifacts) warnings.push(...entryFindings(entry, policy));
  return warnings;
}

/** What is said about the entry of a tool once it turns out to be native: `W-SEC-008`, `W-SEC-015`. */
export function nativeToolWarnings(entry: ArtifactEntry): Warning[] {
  const warnings: Warning[] = [];
  if (entry.grant !== null) {
    warnings.push(finding(
      "W-SEC-008",
      `artifact '${entry.name}' declares capabilities and is a native tool: narrowing applies to components only, so the ` +
        "grant is not enforced",
    ));
  }
  if (entry.configJson !== null) {
    warnings.push(
      finding("W-SEC-015", `artifact '${entry.name}' declares config and is a native tool, which is not given one`),
    );
  }
  return warnings;
}

/**
 * `W-SEC-022`, for the launch: a command that moves to the background has nowhere to report to once its task is over.
 * `null` when it cannot happen.
 */
export function backgroundCommandWarning(
  manifest: CapsuleManifest,
  lifecycle: { readonly taskAcceptance: string; readonly afterTask: string } = manifest.lifecycle,
): Warning | null {
  if (manifest.capabilities.shellAllow.length === 0) return null;
  if (lifecycle.taskAcceptance === "queue" && lifecycle.afterTask === "sleep") return null;
  return finding(
    "W-SEC-022",
    "capabilities.shell.allow is not empty and the capsule ends with its task: the outcome of a command that moved to the " +
      "background has nowhere to go; use task_acceptance: queue with after_task: sleep",
  );
}
