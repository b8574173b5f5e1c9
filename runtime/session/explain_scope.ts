/**
 * What `mur run --explain-scope` says of a capsule: its effective grants here, the warnings a launch would print, and why
 * one would be refused (spec session 3.1, cli 12.3). Nothing is staged and nothing is made.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import {
  judgeCapabilities,
  judgeForScopeReport,
  judgeStagedRuntime,
  lowerCapabilities,
} from "../../artifact/capability_policy.ts";
import { backgroundCommandWarning, manifestWarnings } from "../../artifact/manifest/manifest_warnings.ts";
import { refuseUnsupported } from "../../artifact/manifest/unsupported.ts";
import { MurError } from "../../base/errors.ts";
import { judgeScripts } from "../../sandbox/script_reachability.ts";
import { publicDoorWarning } from "../door/public_door_warning.ts";
import { type CredentialSource, findCredential } from "../inference/credential_source.ts";
import {
  credentialLookup,
  credentialWarnings,
  effectiveLifecycle,
  grantedHostPaths,
  type LaunchPlan,
  planScope,
} from "./stage_session.ts";

/** A capsule's scope, explained. */
export interface ExplainedScope {
  /** As `session_start.effective_grants` has it. */
  readonly report: JsonObject;
  /** Why a launch would be refused by what it declares; `null` when it would not. An unmet floor is in the report. */
  readonly refusal: MurError | null;
}

/**
 * Explains the scope of a plan and prints the warnings that the manifest decides.
 *
 * @param walls Walls of the kernel around the component host.
 * @throws {MurError} `E-IO-003` for a bad lifecycle flag, `E-CAP-009`, `E-CAP-010`, `E-CAP-013`, `E-CAP-016`.
 */
export async function explainScope(plan: LaunchPlan, walls: readonly string[]): Promise<ExplainedScope> {
  const lifecycle = effectiveLifecycle(plan);
  judgeForScopeReport(plan.manifest);
  const granted = await grantedHostPaths(plan).catch(asRefusal);
  const hostPaths = granted instanceof MurError ? [] : granted;
  const refusal = await judge(plan, lifecycle) ?? (granted instanceof MurError ? granted : null);
  return { report: planScope(plan, { walls, hostPaths, nativeTools: [] }), refusal };
}

function asRefusal(cause: unknown): MurError {
  if (cause instanceof MurError) return cause;
  throw cause;
}

async function judge(plan: LaunchPlan, lifecycle: LaunchPlan["manifest"]["lifecycle"]): Promise<MurError | null> {
  const { manifest, options } = plan;
  const { afterTask } = lifecycle;
  try {
    judgeCapabilities(manifest, { afterTask, contextId: options.contextId });
    const policy = lowerCapabilities(manifest);
    const warnings = [
      ...manifestWarnings(manifest, policy, { afterTask }),
      ...credentialWarnings(plan, policy, await foundCredentials(plan)),
      publicDoorWarning(manifest, options.bind, lifecycle.taskAcceptance),
      backgroundCommandWarning(manifest, lifecycle),
    ];
    for (const warning of warnings) if (warning !== null) options.warn(warning);
    judgeStagedRuntime(manifest, plan.floor);
    judgeScripts(manifest, plan.floor, plan.env.get("PATH") ?? "");
    refuseUnsupported({ ...manifest, lifecycle });
    return null;
  } catch (cause) {
    return asRefusal(cause);
  }
}

/** The keys that are there; one that is missing refuses a launch, but not this. */
async function foundCredentials(plan: LaunchPlan): Promise<ReadonlyMap<string, CredentialSource | null>> {
  const found = new Map<string, CredentialSource | null>();
  for (const { bareName, gateway } of plan.manifest.artifacts) {
    if (gateway === null) continue;
    if (gateway.credential === null) found.set(bareName, null);
    else {
      const source = await findCredential(gateway.credential, credentialLookup(plan));
      if (source !== null) found.set(bareName, source);
    }
  }
  return found;
}
