/**
 * Staging: from what a launch was asked for to a {@linkcode StagedSession} that never changes again. Nothing of the
 * session exists on disk before every check has passed (spec session 2, 3, manifest 19).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { bareHalf } from "../../artifact/artifact_name.ts";
import { judgeHookContract } from "../../artifact/manifest/artifact_manifest.ts";
import { judgeCapabilities, lowerCapabilities } from "../../artifact/capability_policy.ts";
import { type Configuration, readConfiguration } from "../../artifact/configuration.ts";
import { readWorkspaceEnvFile } from "../../artifact/env_file.ts";
import {
  EMPTY_LOCK,
  findPin,
  pinArtifact,
  pinnedHash,
  pinProblem,
  pinRefusal,
  readLock,
  updateLock,
} from "../../artifact/lockfile.ts";
import type {
  ArtifactEntry,
  CapabilityPolicy,
  CapsuleManifest,
  ContainmentClass,
} from "../../artifact/manifest/capsule_manifest.ts";
import {
  backgroundCommandWarning,
  manifestWarnings,
  nativeToolWarnings,
} from "../../artifact/manifest/manifest_warnings.ts";
import { murVersionNotice } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { refuseUnsupported } from "../../artifact/manifest/unsupported.ts";
import { nativePlatforms } from "../../artifact/native_platform.ts";
import { hostPlatformTag } from "../../artifact/platform.ts";
import { readOnlyInterpreters } from "../../artifact/read_only_rules.ts";
import { unannotatedSchemaWarning } from "../../artifact/read_only_tool_input.ts";
import { maxDecompressedBytes } from "../../artifact/zip_archive.ts";
import type { MurmurHome } from "../../base/murmur_home.ts";
import { MurError, type Warning } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { absolutePath, parentDirectory } from "../../base/paths.ts";
import { programPlaces } from "../../base/program.ts";
import { directoriesBelowRoot, projectRoot } from "../../artifact/project_root.ts";
import { type HostReading, readHost } from "../../sandbox/host_containment.ts";
import type { ComponentRuntime } from "../component/component_runtime.ts";
import { publicDoorWarning } from "../door/public_door_warning.ts";
import { type CredentialLookup, type CredentialSource, resolveCredential } from "../inference/credential_source.ts";
import { requireUpstreamAuth, type UpstreamHeader } from "../inference/credential_gateway.ts";
import { type FoundCredential, gatewayWarnings } from "../inference/gateway_warnings.ts";
import { openSpendLedger, type SpendLedger } from "../inference/spend_ledger.ts";
import { readRecord, recordPath } from "../agent/conversation_record.ts";
import { type PromptSource, promptSource } from "../agent/system_prompt.ts";
import { type ContainmentJudgement, judgeContainment } from "./containment_judgement.ts";
import {
  containmentFlag,
  type LaunchOptions,
  lifecycleFlags,
  refuseExclusiveFlags,
  refuseForeignLaunch,
  strongerClass,
  type Variables,
} from "./launch_options.ts";
import { type ManifestSource, openManifestSource } from "./manifest_source.ts";
import { type ResumedSession, resumeTarget } from "./resume_target.ts";
import { scopeReport } from "./scope_report.ts";
import { type ArtifactPin, requireInstalled, stageArtifact, type StagedArtifact } from "./staged_artifact.ts";
import { trustedPaths } from "./trusted_paths.ts";

/** One artifact's gateway as staging settled it. */
export interface StagedGateway {
  readonly endpoint: string;
  readonly auth: UpstreamHeader;
  /** `null`: keyless. */
  readonly credential: CredentialSource | null;
  /** Carries the inference of the agent, so its spend is metered. */
  readonly metered: boolean;
}

/** The lifecycle with flags applied. */
export type Lifecycle = CapsuleManifest["lifecycle"];

/** A launch that passed every check. Immutable; what changes later lives in the session's state. */
export interface StagedSession {
  readonly options: LaunchOptions;
  readonly sessionId: string;
  readonly source: ManifestSource;
  readonly manifest: CapsuleManifest;
  readonly policy: CapabilityPolicy;
  readonly lifecycle: Lifecycle;
  readonly configuration: Configuration;
  /** The process's variables with those of `.env` behind them. */
  readonly env: Variables;
  readonly containment: ContainmentJudgement;
  readonly artifacts: readonly StagedArtifact[];
  /** By bare artifact name. */
  readonly gateways: ReadonlyMap<string, StagedGateway>;
  readonly prompt: PromptSource;
  readonly resumed: ResumedSession | null;
  readonly ledger: SpendLedger | null;
  /** What `--explain-scope --json` answers here. */
  readonly scope: JsonObject;
  readonly workdirRoot: string;
  readonly workdir: string;
  readonly trusted: ReturnType<typeof trustedPaths>;
  /** Component of a script capsule; `null` for an agent capsule. */
  readonly scriptComponent: Uint8Array | null;
}

/** The configured proxy of the runtime's own requests. */
export function proxyOf({ configuration }: StagedSession): URL | null {
  return configuration.httpProxy === null ? null : new URL(configuration.httpProxy);
}

/** A capsule that was read and judged as far as `--explain-scope` goes. */
export interface LaunchPlan {
  readonly options: LaunchOptions;
  readonly source: ManifestSource;
  readonly manifest: CapsuleManifest;
  readonly env: Variables;
  readonly configuration: Configuration;
  /** Strongest class asked for. */
  readonly floor: ContainmentClass;
  /** One reading for the whole launch; its start takes longer than what is read meanwhile. */
  readonly host: Promise<HostReading>;
  readonly trusted: ReturnType<typeof trustedPaths>;
}

/**
 * Steps 1 to 6 of spec session 2.
 *
 * @throws {MurError} In the order of spec cli 12.
 */
export async function planLaunch(options: LaunchOptions): Promise<LaunchPlan> {
  // Asked while the manifest is read; a launch that is refused before it matters says so itself.
  const host = readHost();
  host.catch(() => {});
  refuseForeignLaunch(options);
  refuseExclusiveFlags(options);
  const { cwd, home, source: wanted } = options;
  const envFrom = wanted.kind === "manifest"
    ? parentDirectory(absolutePath(cwd, wanted.path))
    : options.storeRoot ?? cwd;
  const workspaceRoot = await projectRoot(envFrom);
  // Where an installed capsule and every other command here would look.
  const cwdRoot = cwd === envFrom ? workspaceRoot : await projectRoot(cwd);
  const env = options.useEnvFile && workspaceRoot !== null
    ? await readWorkspaceEnvFile(workspaceRoot, options.env, options.notice)
    : options.env;
  const source = await openManifestSource(wanted, {
    cwd,
    home,
    storeRoot: options.storeRoot,
    maxBytes: maxDecompressedBytes(env),
  });
  const { manifest, warnings, notices } = source.parsed;
  for (const warning of warnings) options.warn(warning);
  for (const notice of notices) options.notice(notice);
  const pinned = murVersionNotice(manifest);
  if (pinned !== null) options.notice(pinned);
  const flag = containmentFlag(options.containment);
  const configuration = await readConfiguration({ home, cwd, notice: options.notice });
  const floor = strongerClass(strongerClass(configuration.containment, manifest.capabilities.containment), flag);
  return {
    options,
    source,
    manifest,
    env,
    configuration,
    floor: floor ?? "advisory",
    host,
    trusted: trustedPaths(manifest, {
      manifest: wanted.kind === "manifest" ? absolutePath(cwd, wanted.path) : null,
      manifestDir: source.directory,
      workspaceRoot,
      storeRoot: options.storeRoot,
      cwd,
      searched: [...directoriesBelowRoot(envFrom, workspaceRoot), ...directoriesBelowRoot(cwd, cwdRoot)],
      components: manifest.inference === null ? source.components() : [],
      murmurHome: home.root,
      program: programPlaces(),
    }),
  };
}

/**
 * Judges how commands of a plan are contained and what they are granted.
 *
 * @param nativeTools Tools that run natively; empty while nothing is resolved.
 */
export async function judgePlan(
  plan: LaunchPlan,
  nativeTools: readonly string[] = [],
): Promise<ContainmentJudgement> {
  const { options, source, manifest, env, configuration } = plan;
  const workdir = options.workdir === null ? null : absolutePath(options.cwd, options.workdir);
  return await judgeContainment({
    manifest,
    floor: plan.floor,
    host: await plan.host,
    home: options.home,
    path: env.get("PATH") ?? "",
    workdir,
    workdirRoot: workdir ?? defaultWorkdirRoot(source),
    hostPaths: configuration.hostPaths,
    hostPathFile: configuration.global?.file ?? options.home.config,
    trusted: plan.trusted,
    hostReported: env.get("MURMUR_HOST_WARNINGS_REPORTED") === "1",
    nativeTools,
  });
}

/** The scope report of a plan, `walls` being those of the component host. */
export function planScope(plan: LaunchPlan, judgement: ContainmentJudgement, walls: readonly string[]): JsonObject {
  return scopeReport(plan.manifest, {
    judgement,
    stateRoot: plan.options.home.state,
    componentHost: walls,
    readOnlyAdvisoryFor: readOnlyInterpreters(plan.manifest.capabilities),
    copiedFolder: plan.options.spawned?.snapshot ?? null,
  });
}

/** Where a launch without `--workdir` makes its work folder. */
function defaultWorkdirRoot({ directory }: ManifestSource): string {
  return `${directory === "/" ? "" : directory}/workdir`;
}

/** Steps 8 to 14 of spec session 2, then staging (spec session 3). Creates nothing but cache entries. */
export async function stageSession(plan: LaunchPlan, components: ComponentRuntime): Promise<StagedSession> {
  const { options, source, manifest, env } = plan;
  const { warn } = options;
  if (options.systemPrompt !== null && manifest.inference === null) {
    throw new MurError(
      "E-IO-003",
      "--system-prompt needs an agent capsule, and this manifest has no inference: block",
      {
        hint: "leave the flag out",
      },
    );
  }
  const pins = await readPins(source, manifest);
  await requireInstalled(source.stores, manifest.artifacts);
  const scriptComponent = manifest.inference === null ? await source.readComponent() : null;
  const lifecycle = effectiveLifecycle(plan);
  const effective = { ...manifest, lifecycle };
  const credentials = await readCredentials(plan);
  judgeCapabilities(manifest, { afterTask: lifecycle.afterTask, contextId: options.contextId });
  const policy = lowerCapabilities(manifest);
  refuseUnsupported(effective);
  const declared = await judgePlan(plan);
  if (declared.refusals.length > 0) throw declared.refusals[0];
  for (const warning of manifestWarnings(manifest, policy, { afterTask: lifecycle.afterTask })) warn(warning);
  for (const warning of declared.stagingWarnings) warn(warning);
  for (const warning of credentialWarnings(plan, policy, credentials)) warn(warning);
  const publicDoor = publicDoorWarning(manifest, options.bind, lifecycle.taskAcceptance);
  if (publicDoor !== null) warn(publicDoor);
  const background = backgroundCommandWarning(manifest, lifecycle);
  if (background !== null) warn(background);
  const sessionId = newId("ses");
  const { workdirRoot, workdir } = await workFolder(plan, sessionId);
  const resumed = await resumeOf(plan, workdirRoot);
  const ledger = plan.configuration.machineTokensPerDay === null || manifest.inference === null
    ? null
    : await openSpendLedger(options.home.spend);
  const artifacts = await stageArtifacts(plan, pins, components);
  if (options.resumeMode === "compact" && !artifacts.some(compactsHistory)) throw noCompactingHook();
  const nativeTools = artifacts.filter(({ payload }) => payload.kind === "native").map(({ entry }) => entry.bareName);
  // Asked again: what artifacts hold is known only now.
  const containment = nativeTools.length > 0 ? await judgePlan(plan, nativeTools) : declared;
  if (containment.refusals.length > 0) throw containment.refusals[0];
  const gateways = stageGateways(manifest, artifacts, credentials);
  return {
    options,
    sessionId,
    source,
    manifest,
    policy,
    lifecycle,
    configuration: plan.configuration,
    env,
    containment,
    artifacts,
    gateways,
    prompt: manifest.inference === null ? { kind: "none" } : promptSource(options.systemPrompt, manifest.inference),
    resumed,
    ledger,
    scope: planScope(plan, containment, await components.walls()),
    workdirRoot,
    workdir,
    trusted: plan.trusted,
    scriptComponent,
  };
}

function noCompactingHook(): MurError {
  return new MurError("E-RUN-018", "--resume-mode compact needs a hook bound to on-compaction, and none is declared", {
    hint: "declare one, or use --resume-mode full",
  });
}

/** Whether an artifact is a hook that shortens histories: blocking, and bound to `on-compaction` or to nothing. */
export function compactsHistory({ manifest, entry }: StagedArtifact): boolean {
  if (entry.role !== "hook" || manifest === null) return false;
  const { binding, executionMode } = judgeHookContract(manifest);
  return executionMode === "blocking" && (binding === null || binding === "on-compaction");
}

/** The lifecycle with the flags applied. @throws {MurError} `E-IO-003`. */
export function effectiveLifecycle({ manifest, options }: LaunchPlan): Lifecycle {
  const flags = lifecycleFlags(options);
  return {
    ...manifest.lifecycle,
    taskAcceptance: flags.taskAcceptance ?? manifest.lifecycle.taskAcceptance,
    afterTask: flags.afterTask ?? manifest.lifecycle.afterTask,
  };
}

/** The lock's pins for this platform; `null` when there is no lock. @throws {MurError} `E-RUN-003`, `E-RUN-043`. */
async function readPins(
  source: ManifestSource,
  manifest: CapsuleManifest,
): Promise<ReadonlyMap<string, ArtifactPin> | null> {
  if (source.lockPath === null) return null;
  const lock = await readLock(source.lockPath);
  if (lock === null) return null;
  const platform = hostPlatformTag();
  const pins = new Map<string, ArtifactPin>();
  for (const entry of manifest.artifacts) {
    if (entry.source !== null) continue;
    const declared = { name: entry.bareName, version: entry.version };
    const problem = pinProblem(lock, declared, platform);
    if (problem !== null) throw pinRefusal(problem);
    const pin = findPin(lock, entry.bareName)!;
    pins.set(entry.bareName, {
      version: pin.version,
      sha256: pinnedHash(pin, platform)!,
      pulledBy: pin.origin === "runtime" ? pin.session : null,
    });
  }
  return pins;
}

/** The default work folder is below the manifest's directory; a given one must exist. */
async function workFolder(plan: LaunchPlan, sessionId: string): Promise<{ workdirRoot: string; workdir: string }> {
  const { options, source } = plan;
  if (options.workdir === null) {
    const root = defaultWorkdirRoot(source);
    return { workdirRoot: root, workdir: `${root}/${sessionId}` };
  }
  const workdir = absolutePath(options.cwd, options.workdir);
  const isDirectory = await Deno.stat(workdir).then((info) => info.isDirectory, () => false);
  if (!isDirectory) {
    throw new MurError("E-IO-003", `the work folder ${options.workdir} is not a directory`, {
      hint: "create it, or leave --workdir out",
    });
  }
  await refuseInsideHome(options.home, workdir);
  return { workdirRoot: workdir, workdir };
}

/** Keys, conversations and stores of others lie there; only work folders that the runtime made itself do too. */
async function refuseInsideHome(home: MurmurHome, workdir: string): Promise<void> {
  const real = (path: string) => Deno.realPath(path).catch(() => path);
  const [root, given] = await Promise.all([real(home.root), real(workdir)]);
  if (given !== root && !given.startsWith(`${root}/`)) return;
  if (["records", "formations"].includes(given.slice(root.length + 1).split("/")[0]!)) return;
  throw new MurError(
    "E-IO-003",
    `the work folder ${workdir} lies in ${home.root}, where keys and other sessions' files are`,
    {
      hint: "choose another --workdir",
    },
  );
}

async function resumeOf(plan: LaunchPlan, workdirRoot: string): Promise<ResumedSession | null> {
  const { options, manifest } = plan;
  if (options.forgetSession) {
    throw new MurError("E-RUN-039", "--forget-session drops a harness session, which only transport: process has", {
      hint: `mur conversation rm removes the record of a context`,
    });
  }
  if (options.resume === null) return null;
  // What the declared ones are bound to is known once they are staged.
  if (options.resumeMode === "compact" && !manifest.artifacts.some(({ role }) => role === "hook")) {
    throw noCompactingHook();
  }
  const store = manifest.context.recordStore ?? manifest.name;
  return await resumeTarget({
    address: options.resume,
    sessions: { home: options.home, directory: workdirRoot },
    cwd: options.cwd,
    transport: manifest.inference?.transport ?? null,
    recording: manifest.context.record,
    kept: (contextId) =>
      readRecord(recordPath({ conversations: options.home.conversations, store, contextId })).entries.length > 0,
  });
}

/** Every declared gateway's key, in manifest order. @throws {MurError} `E-MAN-003`. */
async function readCredentials(plan: LaunchPlan): Promise<ReadonlyMap<string, CredentialSource | null>> {
  const found = new Map<string, CredentialSource | null>();
  for (const { bareName, gateway } of plan.manifest.artifacts) {
    if (gateway === null) continue;
    found.set(
      bareName,
      gateway.credential === null
        ? null
        : await resolveCredential(bareName, gateway.credential, credentialLookup(plan)),
    );
  }
  return found;
}

/** Where the keys of a launch are looked for. */
export function credentialLookup(plan: LaunchPlan): CredentialLookup {
  return {
    configFile: plan.options.home.config,
    env: plan.env,
    injectable: plan.manifest.control?.secrets ?? [],
    secrets: { get: () => undefined },
  };
}

/** `W-SEC-025`, `-027`, `-028`, `-030`. */
export function credentialWarnings(
  plan: LaunchPlan,
  policy: CapabilityPolicy,
  credentials: ReadonlyMap<string, CredentialSource | null>,
): readonly Warning[] {
  const found = new Map<string, FoundCredential>();
  for (const [artifact, source] of credentials) {
    if (source === null) found.set(artifact, { kind: "keyless" });
    else if (source.name === null) found.set(artifact, { kind: "manifest" });
    else if (source.kind === "config" || source.kind === "environment") {
      found.set(artifact, { kind: source.kind, name: source.name });
    }
  }
  const file = plan.options.home.config;
  return gatewayWarnings(plan.manifest, policy, found, { file, mode: modeOf(file) });
}

function modeOf(file: string): number | null {
  try {
    return Deno.statSync(file).mode;
  } catch {
    return null;
  }
}

async function stageArtifacts(
  plan: LaunchPlan,
  pins: ReadonlyMap<string, ArtifactPin> | null,
  components: ComponentRuntime,
): Promise<StagedArtifact[]> {
  const { manifest, options, source } = plan;
  requireDriverNamed(manifest);
  const staged: StagedArtifact[] = [];
  for (const entry of manifest.artifacts) {
    const pin = pins?.get(entry.bareName) ?? null;
    if (pin?.pulledBy !== null && pin !== null) refusePulledRole(plan, entry, pin.pulledBy);
    const artifact = await stageArtifact(entry, {
      stores: source.stores,
      manifestDir: source.directory,
      pins,
      components,
      maxBytes: maxDecompressedBytes(plan.env),
      warn: options.warn,
    });
    if (artifact.payload.kind === "native") {
      for (const warning of nativeToolWarnings(entry)) options.warn(warning);
      if (entry.gateway !== null) {
        throw new MurError("E-CAP-017", `artifact '${entry.name}' has gateway: and a native implementation`, {
          place: entry.place,
          hint: "remove the gateway, or use a wasm build of the tool",
        });
      }
      requireOwnPlatform(entry, artifact.payload.bytes);
    }
    if (entry.role === "driver") requireHttpDriver(artifact);
    if (entry === driverEntry(manifest) && artifact.payload.kind === "component") {
      components.expect(artifact.payload.component, manifest.capabilities.limits);
    }
    if (entry.role === "tool" && artifact.manifest !== null && manifest.capabilities.readOnly.length > 0) {
      const unannotated = unannotatedSchemaWarning(entry.bareName, artifact.manifest.inputSchema);
      if (unannotated !== null) options.warn(unannotated);
    }
    staged.push(artifact);
  }
  return staged;
}

/** An unknown format passes: only a binary that is positively another platform's is refused. @throws {MurError} `E-RUN-021`. */
function requireOwnPlatform(entry: ArtifactEntry, bytes: Uint8Array): void {
  const platforms = nativePlatforms(bytes);
  const host = hostPlatformTag();
  if (platforms.length === 0 || platforms.includes(host)) return;
  throw new MurError(
    "E-RUN-021",
    `native tool '${entry.name}' is built for ${platforms.join(", ")}, and this host is ${host}`,
    { hint: "install the artifact again on this host" },
  );
}

function requireDriverNamed(manifest: CapsuleManifest): void {
  if (manifest.inference === null) return;
  if (manifest.inference.driver === null) {
    const place = manifest.place("inference");
    throw new MurError("E-RUN-005", "inference.driver.artifact names no driver", {
      hint: "name the driver's entry of artifacts: in inference.driver.artifact",
      ...(place === undefined ? {} : { place }),
    });
  }
  if (driverEntry(manifest) === null) {
    throw new MurError(
      "E-RUN-006",
      `the driver '${manifest.inference.driver.artifact}' is not declared in artifacts:`,
      { hint: "add an artifacts: entry with runtime: driver" },
    );
  }
}

/** Entry of the inference driver; `null` without one. */
export function driverEntry(manifest: CapsuleManifest): ArtifactEntry | null {
  const named = manifest.inference?.driver?.artifact;
  if (named === undefined) return null;
  return manifest.artifacts.find(({ name }) => name === named) ??
    manifest.artifacts.find(({ bareName, role }) => role === "driver" && bareName === bareHalf(named)) ?? null;
}

const PROCESS_DRIVER = "murmur:driver/process";
const TOOL_RUN = "murmur:tool/run@0.1.0";

function requireHttpDriver({ entry, payload }: StagedArtifact): void {
  if (payload.kind !== "component") return;
  const { exports } = payload.component;
  const process = exports.find((name) => name.startsWith(PROCESS_DRIVER));
  if (process !== undefined) {
    throw new MurError(
      "E-RUN-030",
      `driver '${entry.name}' exports ${process}, which inference.transport: http cannot use`,
      { hint: "use a driver for transport: http" },
    );
  }
  if (exports.includes(TOOL_RUN)) return;
  const found = exports.filter((name) => name.startsWith("murmur:")).join(", ") || "no murmur: interface";
  throw new MurError("E-RUN-029", `driver '${entry.name}' exports ${found}; this version of mur serves ${TOOL_RUN}`, {
    hint: "install a release of the driver built for it, or rebuild it",
  });
}

/** First role that a pin written by a running capsule may not have (spec cli 9). @throws {MurError} `E-RUN-043`. */
function refusePulledRole({ manifest, options }: LaunchPlan, entry: ArtifactEntry, session: string): void {
  // Another prompt was given: the skill is a skill again.
  const prompt = options.systemPrompt === null ? manifest.inference?.systemPromptArtifact ?? null : null;
  const role = entry.role === "hook"
    ? "runtime: hook"
    : entry.role === "driver"
    ? "runtime: driver"
    : entry.gateway !== null
    ? "gateway:"
    : prompt !== null && (prompt === entry.name || prompt === entry.bareName)
    ? "inference.system_prompt_artifact"
    : null;
  if (role === null) return;
  throw new MurError(
    "E-RUN-043",
    `murmur.lock pins '${entry.bareName}' from a runtime pull by session ${session}; murmur.yaml declares it with ${role}`,
    { hint: `mur install ${entry.bareName}@${entry.version} adopts it, or drop the role`, place: entry.place },
  );
}

function stageGateways(
  manifest: CapsuleManifest,
  artifacts: readonly StagedArtifact[],
  credentials: ReadonlyMap<string, CredentialSource | null>,
): ReadonlyMap<string, StagedGateway> {
  const driver = driverEntry(manifest);
  const gateways = new Map<string, StagedGateway>();
  for (const { entry, manifest: own } of artifacts) {
    if (entry.gateway === null || own === null) continue;
    const label = `${entry.bareName}@${entry.version}`;
    const auth = requireUpstreamAuth(label, own.upstreamAuth, own.hasInferenceAuth);
    gateways.set(entry.bareName, {
      endpoint: entry.gateway.endpoint,
      auth,
      credential: credentials.get(entry.bareName) ?? null,
      metered: entry === driver,
    });
  }
  return gateways;
}

/** Writes `murmur.lock` when there is none, one entry per registry artifact in manifest order (spec cli 9). */
export async function writeFirstLock(staged: StagedSession): Promise<void> {
  const { lockPath } = staged.source;
  if (lockPath === null) return;
  await updateLock(lockPath, (existing) => {
    if (existing !== null) return null;
    let lock = EMPTY_LOCK;
    for (const { entry, archive } of staged.artifacts) {
      if (archive === null) continue;
      lock = pinArtifact(lock, {
        name: entry.bareName,
        version: entry.version,
        platform: archive.platform,
        sha256: archive.sha256,
      }, { origin: "operator" });
    }
    return lock;
  });
}
