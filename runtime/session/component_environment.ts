/**
 * The environment of a session's components (spec components 3.3). Nothing is inherited: each variable is either allowed
 * by name or the runtime's own. Pure.
 *
 * @module
 */
import { strippedBy } from "../../artifact/environment_patterns.ts";
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import type { Variables } from "./launch_options.ts";

/** What the runtime tells every component of a session. */
export interface SessionFacts {
  readonly sessionId: string;
  /** `localhost:<port>`; `null` for a script capsule. */
  readonly url: string | null;
}

/** The runtime's own variables of one artifact. */
export interface ArtifactFacts {
  readonly configJson: string | null;
  /** The gateway's address for this artifact; `null` without one. */
  readonly gatewayEndpoint: string | null;
  /** Whether it is the inference driver, whose endpoint is its gateway. */
  readonly isDriver: boolean;
}

/** Variables about inference, for the components and shell commands of an agent capsule (spec manifest 11.2). */
export function inferenceVariables(manifest: CapsuleManifest, endpoint: string): Record<string, string> {
  const { inference } = manifest;
  if (inference === null) return {};
  const configJson = inference.driver?.configJson ?? null;
  return {
    MURMUR_INFERENCE_TRANSPORT: inference.transport,
    MURMUR_INFERENCE_MODEL: inference.model ?? "",
    MURMUR_INFERENCE_ENDPOINT: endpoint,
    MURMUR_INFERENCE_DRIVER: inference.driver?.artifact ?? "",
    ...(configJson === null ? {} : { MURMUR_INFERENCE_DRIVER_CONFIG: configJson }),
  };
}

/** Variables that say which capsule and session this is. */
export function identityVariables(manifest: CapsuleManifest, session: SessionFacts): Record<string, string> {
  return {
    MURMUR_CAPSULE_NAME: manifest.name,
    MURMUR_CAPSULE_VERSION: manifest.version,
    MURMUR_SESSION_ID: session.sessionId,
    ...(session.url === null ? {} : { MURMUR_CAPSULE_URL: session.url }),
  };
}

/** Variables of an artifact's own entry. */
function ownVariables({ configJson, gatewayEndpoint }: ArtifactFacts): Record<string, string> {
  return {
    ...(configJson === null ? {} : { MURMUR_ARTIFACT_CONFIG: configJson }),
    ...(gatewayEndpoint === null ? {} : { MURMUR_GATEWAY_ENDPOINT: gatewayEndpoint }),
  };
}

/** The whole environment of a hook: nothing of the host, whatever `env.allow` says. */
export function hookEnvironment(manifest: CapsuleManifest, artifact: ArtifactFacts): Record<string, string> {
  const { otelEndpoint, evalConfig } = manifest.observability;
  return {
    ...(otelEndpoint === null ? {} : { MURMUR_OTEL_ENDPOINT: otelEndpoint }),
    ...(evalConfig === null ? {} : { MURMUR_EVAL_CONFIG: JSON.stringify(evalConfig) }),
    ...ownVariables(artifact),
  };
}

/** The whole environment of one component but a hook. */
export function componentEnvironment(
  manifest: CapsuleManifest,
  host: Variables,
  session: SessionFacts,
  artifact: ArtifactFacts,
): Record<string, string> {
  const { envAllow, stripEnv } = manifest.capabilities;
  const environment: Record<string, string> = {};
  for (const name of envAllow) {
    const value = host.get(name);
    // The runtime's own names are never the host's, and what the backstop strips reaches no component.
    if (value === undefined || name.startsWith("MURMUR_") || strippedBy(name, stripEnv) !== null) continue;
    environment[name] = value;
  }
  const endpoint = artifact.isDriver ? artifact.gatewayEndpoint ?? "" : "";
  return {
    ...environment,
    ...inferenceVariables(manifest, endpoint),
    ...identityVariables(manifest, session),
    ...ownVariables(artifact),
  };
}
