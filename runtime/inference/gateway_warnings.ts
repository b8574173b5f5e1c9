/**
 * Findings about gateways and their keys that stop nothing (spec manifest 8.5, diagnostics `W-SEC-025`, `-027`, `-028`,
 * `-030`). Pure, for `mur run` and `--explain-scope` print the same ones.
 *
 * @module
 */
import type { ArtifactEntry, CapabilityPolicy, CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import { type NetworkRule, parseNetworkRule } from "../../artifact/network_rules.ts";
import type { Warning } from "../../base/errors.ts";

/** Where the key of one gateway was found. */
export type FoundCredential =
  | { readonly kind: "config" | "environment"; readonly name: string }
  | { readonly kind: "manifest" | "injected" | "keyless" };

/** Bare names of the drivers whose gateways are metered: the configured `http` driver and the alternates. */
export function meteredDrivers(manifest: CapsuleManifest): ReadonlySet<string> {
  const { inference } = manifest;
  if (inference === null || inference.transport !== "http") return new Set();
  const named = [inference.driver?.artifact, ...inference.alternates.map((choice) => choice.artifact)];
  return new Set(
    manifest.artifacts.filter((entry) =>
      entry.role === "driver" && (named.includes(entry.name) || named.includes(entry.bareName))
    )
      .map((entry) => entry.bareName),
  );
}

function finding(code: Warning["code"], message: string): Warning {
  return { code, source: "capsule-runtime", message };
}

function namingRules(entries: readonly NetworkRule[], endpoint: string): readonly NetworkRule[] {
  const host = new URL(endpoint).hostname;
  return entries.filter((rule) => rule.host === host);
}

/** `W-SEC-025`: what `network.allow` lets through directly although a gateway leads there. */
function directRoutes(gateways: readonly ArtifactEntry[], policy: CapabilityPolicy): readonly Warning[] {
  return gateways.flatMap((entry) => {
    const endpoint = entry.gateway!.endpoint;
    const host = new URL(endpoint).host;
    const text = (where: string, rule: NetworkRule) =>
      finding(
        "W-SEC-025",
        `${where} '${rule.entry}' names ${host}, the gateway endpoint of '${entry.bareName}': components reach it ` +
          "without the gateway as well. Remove the entry unless it is needed directly",
      );
    const own = (entry.grant?.networkAllow ?? []).map(parseNetworkRule);
    return [
      ...namingRules(policy.network, endpoint).map((rule) => text("capabilities.network.allow", rule)),
      ...namingRules(own, endpoint).map((rule) =>
        text(`capabilities.network.allow of artifact '${entry.bareName}'`, rule)
      ),
    ];
  });
}

/**
 * All findings, in the order of their codes and of the manifest.
 *
 * @param found By bare name; an artifact whose key was found nowhere is absent.
 * @param configMode Permission bits of the global configuration file, `null` when there is none.
 */
export function gatewayWarnings(
  manifest: CapsuleManifest,
  policy: CapabilityPolicy,
  found: ReadonlyMap<string, FoundCredential>,
  config: { readonly file: string; readonly mode: number | null },
): readonly Warning[] {
  const gateways = manifest.artifacts.filter((entry) => entry.gateway !== null);
  const metered = meteredDrivers(manifest);
  const warnings: Warning[] = [...directRoutes(gateways, policy)];
  for (const entry of gateways) {
    const credential = found.get(entry.bareName);
    if (credential?.kind === "environment") {
      warnings.push(finding(
        "W-SEC-027",
        `gateway.api_key of '${entry.bareName}' comes from the environment variable ${credential.name}: it is read only ` +
          `at launch, so a replaced key needs a restart. Keep it with: mur config set -g credentials.${credential.name} -`,
      ));
    } else if (credential?.kind === "manifest") {
      warnings.push(finding(
        "W-SEC-027",
        `gateway.api_key of '${entry.bareName}' is written into the manifest: it is read only at launch, and whoever reads ` +
          "the manifest has it. Keep it with: mur config set -g credentials.NAME -, and write ${NAME}",
      ));
    }
  }
  const fromConfig = gateways.some((entry) => found.get(entry.bareName)?.kind === "config");
  if (fromConfig && config.mode !== null && (config.mode & 0o077) !== 0) {
    warnings.push(finding(
      "W-SEC-028",
      `${config.file}, which a key was read from, is open to others (mode ${
        octal(config.mode)
      }): chmod 600 ${config.file}`,
    ));
  }
  for (const entry of gateways) {
    if (metered.has(entry.bareName)) continue;
    warnings.push(finding(
      "W-SEC-030",
      `artifact '${entry.bareName}' has a gateway that no spend ceiling meters: what it spends is bounded only upstream`,
    ));
  }
  return warnings;
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, "0");
}
