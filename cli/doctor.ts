/**
 * `mur doctor [--bind <ADDR>]`: what would keep the project's capsule from running here, and what to do (spec cli 11.5).
 *
 * @module
 */
import { judgeCapabilities, lowerCapabilities } from "../artifact/capability_policy.ts";
import { type Configuration, readConfiguration } from "../artifact/configuration.ts";
import { readWorkspaceEnvFile, type Variables } from "../artifact/env_file.ts";
import { LOCK_NAME, type LockFile, readLock } from "../artifact/lockfile.ts";
import type { CapsuleManifest } from "../artifact/manifest/capsule_manifest.ts";
import { manifestWarnings } from "../artifact/manifest/manifest_warnings.ts";
import { murVersionNotice, readCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { refuseUnsupported } from "../artifact/manifest/unsupported.ts";
import { hostPlatformTag } from "../artifact/platform.ts";
import { type ArtifactStore, globalStore, projectStore, type StoreListing } from "../artifact/store.ts";
import { maxDecompressedBytes } from "../artifact/zip_archive.ts";
import { programPlaces } from "../base/program.ts";
import { codeLink, formatWarning, MurError, reasonOf, type WarningCode } from "../base/errors.ts";
import { type FoundCredential, gatewayWarnings } from "../runtime/inference/gateway_warnings.ts";
import { judgeMurmurNames } from "../runtime/component/served_interfaces.ts";
import { publicDoorWarning } from "../runtime/door/public_door_warning.ts";
import { strongerClass } from "../runtime/session/launch_options.ts";
import { directoriesBelowRoot, projectRoot } from "../artifact/project_root.ts";
import { sha256Hex } from "../artifact/sha256.ts";
import { type ContainmentJudgement, judgeContainment } from "../runtime/session/containment_judgement.ts";
import { notProtected, preopen, preopenLine } from "../runtime/session/scope_report.ts";
import { trustedPaths } from "../runtime/session/trusted_paths.ts";
import { APPARMOR_PROFILE, profileText } from "../sandbox/apparmor_profile.ts";
import { confineHelper, SYSTEM_HELPER } from "../sandbox/confine_helper.ts";
import { hostObstacles, TIER_NAMES } from "../sandbox/containment_class.ts";
import { type HostReading, readHost } from "../sandbox/host_containment.ts";
import { artifactChecklist, type ChecklistLine, mismatchText } from "./artifact_checklist.ts";
import type { CliContext } from "./context.ts";
import { requiredVariables, spawnClosure } from "./environment_requirements.ts";
import { inspectHome, octalMode } from "./home_modes.ts";

/** Flags of `mur doctor`. */
export interface DoctorFlags {
  /** The address `mur run --bind` would be given. */
  readonly bind?: string;
}

/** Warnings of a run that are shown ahead of it (spec containment 17). */
const SHOWN_WARNINGS: ReadonlySet<WarningCode> = new Set(
  ["009", "011", "012", "013", "019", "024", "025", "027", "028", "029", "030", "033", "034"].map((number) =>
    `W-SEC-${number}` as const
  ),
);

/** Most too wide paths that are listed below one entry of the home. */
const MAX_WIDER_SHOWN = 20;

/** How long the daemon is waited for, in milliseconds. */
const ROOST_TIMEOUT_MS = 2_000;

const MARKS: Readonly<Record<ChecklistLine["mark"], string>> = { ok: "✓", error: "✗", warning: "⚠", note: "·" };

/** One look at a project. */
interface Examination {
  readonly context: CliContext;
  readonly manifest: CapsuleManifest;
  readonly directory: string;
  readonly stores: readonly ArtifactStore[];
  readonly lock: LockFile | null;
  readonly configuration: Configuration;
  readonly env: Variables;
  readonly platform: string;
  readonly maxBytes: number;
}

/** Checks the project at or above the current directory. */
export async function doctor(context: CliContext, flags: DoctorFlags): Promise<number> {
  const directory = await projectRoot(context.cwd);
  if (directory === null) return await withoutProject(context);
  const file = `${directory}/murmur.yaml`;
  const notice = (text: string) => void context.stderr.line(text);
  const { manifest, warnings, notices } = await readCapsuleManifest(file);
  for (const warning of warnings) context.warn(warning);
  for (const each of [...notices, murVersionNotice(manifest)]) if (each !== null) notice(each);
  const lock = await readLock(`${directory}/${LOCK_NAME}`);
  const home = context.home();
  const configuration = await readConfiguration({ home, cwd: context.cwd, notice });
  const findings: ChecklistLine[] = [];
  const env = await environment(context, directory, findings);
  const examination: Examination = {
    context,
    manifest,
    directory,
    stores: [projectStore(directory), globalStore(home)],
    lock,
    configuration,
    env,
    platform: hostPlatformTag(),
    maxBytes: maxDecompressedBytes(context.env),
  };
  await reportJudgement(examination);
  await reportHome(context);
  reportGrants(examination);
  reportDoor(examination, flags.bind);
  reportWarnings(examination);
  await reportRoost(examination);
  const unmet = await reportEnvironment(examination);
  await reportRoster(context, directory);
  await reportInterfaces(examination);

  context.stdout.line(`Checking ${file} for ${examination.platform}...`);
  findings.push(...await artifactChecklist(examination));
  const failed = printChecklist(context, findings);
  return failed || unmet ? 1 : 0;
}

async function withoutProject(context: CliContext): Promise<number> {
  if (await isFile(`${context.cwd}/roster.yaml`)) {
    await reportRoster(context, context.cwd);
    return 1;
  }
  throw new MurError("E-IO-001", `no murmur.yaml at or above ${context.cwd}`, {
    hint: "run mur doctor in a project",
  });
}

async function isFile(path: string): Promise<boolean> {
  try {
    const info = await Deno.stat(path);
    // An empty file of a trusted name is a placeholder and reads as absent (spec cli 2.2).
    return info.isFile && info.size > 0;
  } catch {
    return false;
  }
}

/** The variables with those of `.env`; a file that cannot be used is a finding. */
async function environment(context: CliContext, directory: string, findings: ChecklistLine[]): Promise<Variables> {
  try {
    return await readWorkspaceEnvFile(directory, context.env, (text) => void context.stderr.line(text));
  } catch (error) {
    if (!(error instanceof MurError)) throw error;
    const finding = error.message;
    findings.push({ mark: "error", subject: ".env", state: "", finding, details: [], fix: error.hint ?? null });
    return context.env;
  }
}

function block(context: CliContext, title: string, lines: readonly string[]): void {
  context.stdout.line(title);
  for (const line of lines.length === 0 ? ["<none>"] : lines) context.stdout.line(`  ${line}`);
  context.stdout.line("");
}

/** The grant of user namespaces and the helper it is given to (spec containment 1.5). */
async function reportNamespaces({ context }: Examination, grant: string): Promise<void> {
  let helper: string;
  try {
    const path = await confineHelper();
    helper = `${path}${path === SYSTEM_HELPER ? " (root-owned, placed by mur setup)" : " (this user's own copy)"}`;
  } catch (error) {
    if (!(error instanceof MurError)) throw error;
    helper = `not available: ${error.message}`;
  }
  block(context, "AppArmor / user namespaces", [
    `helper:       ${helper}`,
    ...await profileLines(APPARMOR_PROFILE),
    `userns grant: ${grant}`,
  ]);
}

/** The installed profile held against the one of this build; a difference changes nothing else. */
export async function profileLines(path: string): Promise<string[]> {
  let installed: Uint8Array<ArrayBuffer>;
  try {
    installed = await Deno.readFile(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return [`profile:      ${path} is not installed`];
    return [`profile:      ${path} cannot be read: ${reasonOf(cause)}`];
  }
  const shipped = new TextEncoder().encode(profileText());
  const [found, own] = await Promise.all([installed, shipped].map(sha256Hex));
  if (found === own) return [`profile:      ${path} is installed`];
  return [
    `profile:      ${path} is not the one of this mur: sudo mur setup writes it`,
    `  installed:  sha256 ${found}`,
    `  shipped:    sha256 ${own}`,
  ];
}

/** How commands would be contained here, and what is in the way of more. */
function reportContainment(
  { context }: Examination,
  judgement: ContainmentJudgement,
  inProject: readonly string[],
): void {
  const { host, decision, aggregate } = judgement;
  const yes = (value: boolean) => value ? "yes" : "no";
  block(context, "Containment", [
    `host tier:        ${TIER_NAMES[decision.hostTier]} (class ${decision.host})`,
    `applied tier:     ${TIER_NAMES[decision.tier]} (class ${decision.achieved})`,
    `declared floor:   ${decision.floor}${decision.refusal === null ? "" : " — not met, mur run refuses"}`,
    `private mounts:   ${yes(decision.privateMounts)}`,
    `pid namespace:    ${yes(decision.pidNamespace)}`,
    `aggregate limits: ${aggregate.mechanism}${aggregate.reason === null ? "" : ` (${aggregate.reason})`}`,
    ...hostObstacles(host).flatMap(({ blocker, reason, remedy }) => [
      `blocker:          ${blocker}: ${reason}`,
      ...(remedy === null ? [] : [`  remedy:         ${remedy}`]),
    ]),
    ...decision.caps.flatMap(({ reason, remedy }) => [`cap:              ${reason}`, `  remedy:         ${remedy}`]),
    ...inProject.map((path) => `not guarded with --workdir at the project: ${path}`),
    ...notProtected(decision).map((line) => `not protected:    ${line}`),
  ]);
}

/** Judges the containment of the project's capsule, with a work folder of its own and with the project as one. */
async function judgeProject(
  examination: Examination,
  host: HostReading,
): Promise<{ own: ContainmentJudgement; project: ContainmentJudgement }> {
  const { context, manifest, directory, configuration, env } = examination;
  const home = context.home();
  const inputs = {
    manifest,
    floor: strongerClass(configuration.containment, manifest.capabilities.containment) ?? "advisory",
    host,
    home,
    path: env.get("PATH") ?? "",
    workdirRoot: `${directory}/workdir`,
    hostPaths: configuration.hostPaths,
    hostPathFile: configuration.global?.file ?? home.config,
    trusted: trustedPaths(manifest, {
      manifest: `${directory}/murmur.yaml`,
      manifestDir: directory,
      workspaceRoot: directory,
      storeRoot: null,
      cwd: context.cwd,
      searched: directoriesBelowRoot(context.cwd, directory),
      components: [],
      murmurHome: home.root,
      program: programPlaces(),
    }),
    hostReported: env.get("MURMUR_HOST_WARNINGS_REPORTED") === "1",
    nativeTools: [],
  };
  return {
    own: await judgeContainment({ ...inputs, workdir: null }),
    project: await judgeContainment({ ...inputs, workdir: directory }),
  };
}

/** The two blocks about containment, the warnings and the refusals of a run. */
async function reportJudgement(examination: Examination): Promise<void> {
  const { context } = examination;
  let host: HostReading;
  try {
    host = await readHost();
  } catch (error) {
    if (!(error instanceof MurError)) throw error;
    await reportNamespaces(examination, "not checked");
    block(context, "Containment", ["not checked: the helper cannot be asked"]);
    warnOfRefusal(context, error);
    return;
  }
  const { own, project } = await judgeProject(examination, host);
  await reportNamespaces(examination, own.decision.usernsGrant ?? "n/a");
  reportContainment(examination, own, project.decision.unguarded);
  const unguarded = project.launchWarnings.filter(({ code }) => code === "W-SEC-033");
  for (const warning of [...own.stagingWarnings, ...own.launchWarnings, ...unguarded]) {
    if (SHOWN_WARNINGS.has(warning.code)) context.warn(warning);
  }
  for (const refusal of own.refusals) warnOfRefusal(context, refusal);
}

/** Prints a refusal of `mur run` ahead of it; it does not change the exit status (spec cli 11.5). */
function warnOfRefusal(context: CliContext, error: MurError): void {
  const where = error.place === undefined ? "" : ` (${error.place.file}:${error.place.line})`;
  const message = `${error.message}${where}; mur run refuses this capsule`;
  context.stderr.line(`[mur doctor] warning[${error.code}]: ${message} (${codeLink(error.code)})`);
  if (error.hint !== undefined) context.stderr.line(`  hint: ${error.hint}`);
}

async function reportHome(context: CliContext): Promise<void> {
  const home = context.home();
  const lines: string[] = [];
  for (const { name, state, ownerOnly, wider } of await inspectHome(home)) {
    const shown = state.kind === "mode"
      ? octalMode(state.mode)
      : state.kind === "absent"
      ? "absent"
      : `unreadable (${state.reason})`;
    lines.push(`${name}: ${shown}${ownerOnly && state.kind === "mode" ? "   expected owner-only" : ""}`);
    for (const { path, mode, expected } of wider.slice(0, MAX_WIDER_SHOWN)) {
      lines.push(`  wider than ${octalMode(expected)}: ${path} is ${octalMode(mode)}`);
    }
    if (wider.length > MAX_WIDER_SHOWN) lines.push(`  and ${wider.length - MAX_WIDER_SHOWN} more wider than expected`);
    for (const { path, mode, expected } of wider) {
      context.warn({
        code: "W-SEC-028",
        source: "capsule-runtime",
        message: `${path} is open to others (mode ${octalMode(mode)}): chmod ${octalMode(expected)} ${path}`,
      });
    }
  }
  block(context, `Murmur home (${home.root})`, lines);
}

function reportGrants({ context, manifest }: Examination): void {
  const { capabilities } = manifest;
  const preopens = manifest.artifacts.filter(({ role }) => role !== "skill").map((entry) =>
    preopenLine(preopen(entry))
  );
  block(context, "Filesystem preopens", preopens);
  block(context, "Read-only paths", capabilities.readOnly);
  const listed = (names: readonly string[]) => names.length === 0 ? "<none>" : names.join(", ");
  block(context, "Install grant", [
    `install skill: ${listed(capabilities.installSkill)}`,
    `install tool:  ${listed(capabilities.installTool)}`,
  ]);
}

function reportDoor({ context, manifest }: Examination, bind: string | undefined): void {
  if (manifest.inference === null) return;
  const { authentication } = manifest.network;
  const credentials = [...(authentication?.credentials ?? [])].map(([name, scopes]) =>
    `${name} (${scopes.join(", ")})`
  );
  context.stdout.line(
    authentication === null
      ? "door: public (no network.authentication)"
      : `door: bearer — ${["operator", ...credentials].join(", ")}`,
  );
  const warning = bind === undefined ? null : publicDoorWarning(manifest, bind);
  if (warning !== null) context.stdout.line(formatWarning(warning));
  context.stdout.line("");
}

/** What a run would warn about or refuse, decided from the manifest and the configuration. */
function reportWarnings(examination: Examination): void {
  const { context, manifest } = examination;
  let refused = false;
  for (const judge of [judgeCapabilities, refuseUnsupported]) {
    try {
      judge(manifest);
    } catch (error) {
      if (!(error instanceof MurError)) throw error;
      refused = true;
      warnOfRefusal(context, error);
    }
  }
  if (refused) return;
  const policy = lowerCapabilities(manifest);
  // The modes below the home have their own block.
  const config = { file: context.home().config, mode: null };
  const warnings = [
    ...manifestWarnings(manifest, policy),
    ...gatewayWarnings(manifest, policy, foundCredentials(examination), config),
  ];
  for (const warning of warnings) if (SHOWN_WARNINGS.has(warning.code)) context.warn(warning);
}

/** Where each gateway's key would come from, by bare artifact name; values are not looked at. */
function foundCredentials(examination: Examination): ReadonlyMap<string, FoundCredential> {
  const { manifest, configuration, env } = examination;
  const found = new Map<string, FoundCredential>();
  for (const { bareName, gateway } of manifest.artifacts) {
    if (gateway === null) continue;
    const { credential } = gateway;
    if (credential === null) found.set(bareName, { kind: "keyless" });
    else if (credential.kind === "literal") found.set(bareName, { kind: "manifest" });
    else if (manifest.control?.secrets.includes(credential.name)) found.set(bareName, { kind: "injected" });
    else if (configuration.credentials.has(credential.name)) {
      found.set(bareName, { kind: "config", name: credential.name });
    } else if ((env.get(credential.name) ?? "").trim() !== "") {
      found.set(bareName, { kind: "environment", name: credential.name });
    }
  }
  return found;
}

/** What a capsule that may spawn others needs of the daemon; every finding would be `E-RUN-019` at run. */
async function reportRoost({ context, manifest, env }: Examination): Promise<void> {
  if (manifest.capabilities.spawnAllow.length === 0) return;
  const finding = (text: string) => void context.stderr.line(`roost: ${text} (E-RUN-019 at run)`);
  const directories = (env.get("PATH") ?? "").split(":").filter((directory) => directory !== "");
  const found = await Promise.all(directories.map((directory) => isFile(`${directory}/mur-roost`)));
  if (!found.includes(true)) finding("no mur-roost on PATH");
  const url = (env.get("MURMUR_ROOST_URL") ?? "").trim();
  if (url === "") return finding("MURMUR_ROOST_URL is not set");
  if (!URL.canParse(url)) return finding("MURMUR_ROOST_URL is not a URL");
  const { hostname, port, protocol } = new URL(url);
  try {
    const connection = await Deno.connect({
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
      signal: AbortSignal.timeout(ROOST_TIMEOUT_MS),
    });
    connection.close();
  } catch {
    finding(`nothing answers at ${hostname}${port === "" ? "" : `:${port}`}`);
  }
}

/** Prints the variables that are needed. Answers whether one is missing or a declaration will be refused. */
async function reportEnvironment(examination: Examination): Promise<boolean> {
  const { context, manifest, env } = examination;
  const closure = await spawnClosure(manifest, examination);
  const found = foundCredentials(examination);
  const references = manifest.artifacts.flatMap(({ bareName, gateway }) =>
    gateway?.credential?.kind === "reference" && !found.has(bareName) ? [gateway.credential.name] : []
  );
  const variables = requiredVariables(closure, references, env);
  const lines = variables.map(({ name, isSet, capsules }) =>
    `${isSet ? "✓" : "✗"} ${name}   ${isSet ? "set" : "unset"}   — ${capsules.join(", ")}`
  );
  if (closure.refused.length > 0) {
    lines.push("declarations mur-roost will refuse:");
    for (const { child, variable, spawner } of closure.refused) {
      lines.push(`  ${child} declares ${variable}, which ${spawner} lacks`);
    }
  }
  if (closure.uninspected.length > 0) {
    const total = closure.capsules.length - 1 + closure.uninspected.length;
    lines.push(`could not inspect ${closure.uninspected.length} of ${total} capsules in the spawn closure:`);
    for (const { name, reason } of closure.uninspected) {
      lines.push(`  ${name}: ${reason}`);
      context.warn({ code: "W-REG-002", source: null, message: `capsule ${name} could not be inspected: ${reason}` });
    }
  }
  if (closure.cycle !== null) lines.push(`spawn.allow cycle: ${closure.cycle.join(" → ")}`);
  block(context, "Environment requirements", lines);
  const unset = variables.filter((variable) => !variable.isSet);
  for (const { name } of unset) {
    context.stderr.line(`error[E-CAP-014]: ${name} is set neither in the shell nor in .env`);
  }
  for (const { child, variable, spawner } of closure.refused) {
    context.stderr.line(`error[E-CAP-015]: ${child} declares env.allow ${variable}, which ${spawner} does not hold`);
  }
  return unset.length > 0 || closure.refused.length > 0;
}

/** Formations are not admitted by this version; saying so is better than saying nothing. */
async function reportRoster(context: CliContext, directory: string): Promise<void> {
  const file = `${directory}/roster.yaml`;
  if (!await isFile(file)) return;
  block(context, "Roster", [`file: ${file}`, "not checked: this version of mur does not run formations yet"]);
}

async function reportInterfaces({ context, manifest, stores }: Examination): Promise<void> {
  const declared = new Set(manifest.artifacts.map((entry) => `${entry.bareName}@${entry.version}`));
  const lines: string[] = [];
  for (const [index, store] of stores.entries()) {
    let rows: readonly StoreListing[];
    try {
      rows = await store.list();
    } catch (error) {
      if (!(error instanceof MurError)) throw error;
      lines.push(`not checked (${index === 0 ? "project" : "global"} store): ${error.message}`);
      continue;
    }
    for (const { name, version, contracts } of rows) {
      const stale = contracts === null ? [] : judgeMurmurNames(contracts);
      if (stale.length === 0) continue;
      const text = `${name}@${version}: ${mismatchText(stale)}`;
      lines.push(text);
      if (!declared.has(`${name}@${version}`)) context.warn({ code: "W-REG-003", source: null, message: text });
    }
  }
  block(context, "Interface versions", lines.length === 0 ? ["every installed artifact matches this build"] : lines);
}

/** Prints the checklist and its summary. Answers whether there is an error in it. */
function printChecklist(context: CliContext, lines: readonly ChecklistLine[]): boolean {
  for (const { mark, subject, state, finding, details } of lines) {
    const columns = [`${MARKS[mark]}  ${subject}`, ...(state === "" ? [] : [state])];
    if (finding !== null) columns.push(`— ${finding}`);
    context.stdout.line(columns.join("   "));
    for (const detail of details) context.stdout.line(`     ${detail.trim()}`);
  }
  context.stdout.line("");
  const count = (mark: ChecklistLine["mark"]) => lines.filter((line) => line.mark === mark).length;
  const [errors, warnings] = [count("error"), count("warning")];
  if (errors === 0 && warnings === 0) {
    context.stdout.line("All checks passed.");
    return false;
  }
  const also = warnings === 0 ? "" : `, ${warnings} warning(s)`;
  context.stdout.line(`${count("ok")} check(s) passed, ${errors} error(s) found${also}.`);
  const fixes = new Set(lines.flatMap((line) => line.fix ?? []));
  if (fixes.size > 0) context.stdout.line("");
  for (const fix of fixes) context.stdout.line(`Fix: ${fix}`);
  return errors > 0;
}
