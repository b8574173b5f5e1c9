/**
 * An agent session from its directories to its teardown (spec session 3.5, 5, 6, 17.5).
 *
 * @module
 */
import { ReadOnlyPaths } from "../../artifact/read_only_rules.ts";
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { createHttpClient, type HttpClient, loadHttpModules } from "../../base/http_client.ts";
import { formatError, formatWarning, MurError, reasonOf, type Warning } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { removeRunningRecord } from "../../base/running_record.ts";
import { TrustedFiles } from "../../base/trusted_files.ts";
import { VERSION } from "../../base/version.ts";
import { confineHelper } from "../../sandbox/confine_helper.ts";
import { recordedProcess, writeRunningRecord } from "../../base/write_running_record.ts";
import { BootstrapLog } from "../agent/bootstrap_log.ts";
import { a2aTaskContext, type LaunchContext, launchTaskContext } from "../agent/context_resolution.ts";
import { ConversationRecord } from "../agent/conversation_record.ts";
import { DEFAULT_MAX_TOKENS, promptCacheKey } from "../agent/driver_protocol.ts";
import type { Message } from "../agent/message.ts";
import { murmurMd } from "../agent/murmur_md.ts";
import { systemPrompt, tracedPromptSource } from "../agent/system_prompt.ts";
import { LAUNCH_TASK, LOST_COMMANDS_TASK } from "../agent/task_origin.ts";
import { TokenCounter } from "../agent/token_count.ts";
import { ToolDispatcher } from "../agent/tool_dispatch.ts";
import { describeTool, type InstalledTool, installedTools, toolInventory } from "../agent/tool_inventory.ts";
import type { ContinuationSlot, TurnLoopServices } from "../agent/turn_loop.ts";
import type { ComponentRuntime } from "../component/component_runtime.ts";
import type { HookSessionOptions, SessionHooks } from "../hook/session_hooks.ts";
import { agentCard } from "../door/agent_card.ts";
import type { PlaneRecord } from "../door/door_session.ts";
import { DoorTokens } from "../door/door_token.ts";
import { type Listener, openListener } from "../door/listener.ts";
import { type CredentialGateway, credentialRejectedError } from "../inference/credential_gateway.ts";
import { createSpendMeter, type SpendMeter } from "../inference/spend_meter.ts";
import type { CapsuleSteps } from "../plan/capsule_steps.ts";
import type { SessionExitStatus } from "../trace/trace_event.ts";
import { lostCommands, markLostCommands } from "../trace/lost_commands.ts";
import { redactPeerTokens, redactValues } from "../trace/trace_redaction.ts";
import { type SecondTraceWriter, TraceWriter } from "../trace/trace_writer.ts";
import { CommandContainment } from "./command_containment.ts";
import { ContainedCommands } from "./contained_commands.ts";
import { FrameLog } from "./frame_log.ts";
import { installTools } from "./install_tools.ts";
import { MAX_TEXT_BYTES, readOperatorText } from "./operator_file.ts";
import { protectedPathOf } from "./protected_paths.ts";
import { SessionCommands } from "./session_commands.ts";
import { bindComponents, type SessionComponents } from "./session_components.ts";
import {
  createSessionDirectories,
  makeWorkFolder,
  sameWorkdir,
  type SessionDirectories,
  sessionPaths,
} from "./session_directories.ts";
import type { SessionPlanes } from "./session_planes.ts";
import { type RuntimeTool, SessionTools } from "./session_tools.ts";
import { compactsHistory, driverEntry, proxyOf, type StagedSession, writeFirstLock } from "./stage_session.ts";
import { runTaskLoop } from "./task_loop.ts";
import { TaskRegistry, type TaskRequest } from "./task_registry.ts";
import { runTask, type TaskOutcome, type TaskServices } from "./task_runner.ts";
import type { Registration } from "../delegation/registration.ts";
import type { SessionDelegations } from "../delegation/session_delegations.ts";
import { registers, registerSession } from "./register_session.ts";

/** A session that serves. */
export interface SessionReady {
  readonly sessionId: string;
  /** `localhost:<port>`. */
  readonly url: string;
  readonly name: string;
  readonly version: string;
  readonly workdir: string;
  readonly recordsDir: string;
  /** `<driver> (<model>)`. */
  readonly driver: string;
  readonly skills: number;
}

/** An agent session that serves. */
export interface ServingSession extends SessionReady {
  /** Tokens of an authenticated door by the name of their credential; `null` at a public one. */
  readonly tokens: Readonly<Record<string, string>> | null;
  readonly frames: FrameLog;
  readonly tasks: TaskRegistry;
}

/** How a session ended. */
export interface SessionOutcome {
  readonly status: SessionExitStatus;
  /** Answer of the deciding task, or why it did not complete; `null` without one. */
  readonly text: string | null;
  /** Why the session ended otherwise than `ok`. */
  readonly error: MurError | null;
}

/** What a launch is run with. */
export interface SessionRun {
  readonly components: ComponentRuntime;
  /** Called once, when the door serves and before the first turn. */
  readonly ready: (session: ServingSession) => void;
  /** Lines of components' output and of the runtime, for stderr. */
  readonly diagnostics: (line: string) => void;
  /** Aborted: the session ends in order (spec session 17.3); with `spawner_ended` when its launcher is gone (17.4). */
  readonly stop: AbortSignal;
}

/**
 * Runs an agent capsule to its end.
 *
 * @throws {MurError} When the launch is refused or the session cannot go on; what it made is removed but for the records.
 */
export async function runAgentSession(staged: StagedSession, run: SessionRun): Promise<SessionOutcome> {
  const session = new AgentSession(staged, run);
  try {
    await session.open();
    run.ready(session.readiness());
    return await session.live();
  } catch (error) {
    await session.failed();
    throw error;
  } finally {
    await session.close();
  }
}

class AgentSession {
  readonly #staged: StagedSession;
  readonly #run: SessionRun;
  readonly #frames = new FrameLog();
  /** The first request to a model left, or needs to wait for nothing else: what is started later may hold this thread. */
  readonly #modelAsked = Promise.withResolvers<void>();
  readonly #continuation: ContinuationSlot = { current: null };
  /** What to undo, last first. */
  readonly #undo: (() => void | Promise<void>)[] = [];
  #directories!: SessionDirectories;
  #log!: BootstrapLog;
  #trace!: TraceWriter;
  #listener!: Listener;
  #tokens!: TokenCounter;
  /** `null`: the door is public. */
  #doorTokens: DoorTokens | null = null;
  #spend!: SpendMeter;
  #bound!: SessionComponents;
  /** `null`: the capsule starts no commands. */
  #contained: ContainedCommands | null = null;
  #commands!: SessionCommands;
  /** `null`: the capsule neither delegates nor was delegated. */
  #registration: Registration | null = null;
  /** The daemon may count the session though it is at its end. */
  #mayBeCounted = false;
  /** `null`: the capsule may not delegate. */
  #delegations: SessionDelegations | null = null;
  /** `null`: the manifest declares neither plane nor peer files. */
  #planes: SessionPlanes | null = null;
  /** `null`: the capsule declares no hooks. */
  #hooks: SessionHooks | null = null;
  /** Context whose history is to be compacted before its first task. */
  #toCompact: string | null;
  #installed: readonly InstalledTool[] = [];
  #dispatcher!: ToolDispatcher;
  readonly #registry: TaskRegistry;
  /** Task to begin with; `null`: none was given. */
  #taskText: string | null = null;
  #prompt: string | null = null;
  #boundSkill: string | null = null;
  #breach: MurError | null = null;
  /** The session ended in order: what runs in the background may go on. */
  #ended = false;
  /** `null` while it goes on, and when it ended otherwise. */
  #status: SessionExitStatus | null = null;
  readonly #startedAt = performance.now();
  #lastTask: TaskOutcome | null = null;
  #endReported = false;

  constructor(staged: StagedSession, run: SessionRun) {
    this.#staged = staged;
    this.#run = run;
    this.#toCompact = staged.options.resumeMode === "compact" ? staged.resumed?.contextId ?? null : null;
    this.#registry = new TaskRegistry({
      acceptance: staged.lifecycle.taskAcceptance,
      queueDepth: staged.lifecycle.queueDepth,
      frames: this.#frames,
      records: {
        canceledQueued: ({ id }) =>
          void this.#trace.second.write("task_canceled", {
            task_id: id,
            phase: "queued",
            detached_work_ids: this.#workIds(),
            delegation_ids: [],
          }),
        rejected: (task, cause, reason) => {
          if (task.source === "task_md") return;
          this.#trace.second.write("task_rejected", {
            task_id: task.id,
            context_id: task.contextId,
            source: task.source,
            cause,
            reason,
          });
        },
      },
      contextOf: (contextId) => a2aTaskContext(this.#launchContext(), contextId),
      residue: () => [...this.#commands.residue(), ...this.#delegations?.residue() ?? []],
    });
  }

  /** Everything up to the readiness line. */
  async open(): Promise<void> {
    const staged = this.#staged;
    const { manifest } = staged;
    await this.#openDirectories();
    this.#taskText = await this.#launchTask();
    this.#log = new BootstrapLog(this.#directories.records);
    this.#undo.push(() => this.#log.close());
    this.#tokens = new TokenCounter({
      startAfter: this.#modelAsked.promise,
      report: (text) => this.#log.line(text),
    });
    this.#undo.push(() => this.#tokens.close());
    installTools(staged, this.#directories.runtime, await this.#providedManifests());
    await this.#openPlanes();
    await this.#stageHooks();
    await writeFirstLock(staged);
    await this.#readPrompt();
    this.#installed = installedTools(this.#toolsDirectory());
    this.#openDoor();
    const url = `localhost:${this.#listener.port}`;
    if (registers(staged)) await this.#register(url);
    this.#writeMurmurMd(url);
    this.#spend = createSpendMeter({
      sessionId: staged.sessionId,
      sessionCeiling: manifest.inference!.maxSessionTokens,
      machine: staged.ledger === null || staged.configuration.machineTokensPerDay === null
        ? null
        : { ceiling: staged.configuration.machineTokensPerDay, ledger: staged.ledger },
    });
    // A ceiling is judged by a count, before the request; a hook may count anything.
    if (this.#spend.limited || this.#declaresHooks()) this.#modelAsked.resolve();
    this.#openTrace();
    this.#bindComponents(url);
    const hooks = this.#openHooks();
    // Told where it is waited for.
    hooks.catch(() => {});
    await this.#containCommands();
    this.#hooks = await hooks;
    await this.#openDelegations(url);
    await this.#openTools(url);
    for (const warning of staged.containment.launchWarnings) this.#warnAtLaunch(warning);
    this.#startTrace();
    this.#log.line(JSON.stringify(this.#inventory()));
    if (!registers(staged)) this.#writeRunningRecord(url);
    // Again: what waits for the slot need not wait for the rest of the teardown.
    this.#undo.push(() => this.#retire());
    sameWorkdir(this.#directories);
  }

  /** Its running record comes first: should it die from now on, or not learn that it is registered, the daemon sees it by that. */
  async #register(url: string): Promise<void> {
    this.#writeRunningRecord(url);
    this.#registration = await registerSession(this.#staged, () => this.#mayBeCounted = true);
    this.#undo.push(() => this.#retire());
  }

  async #retire(): Promise<void> {
    const uncounted = await this.#registration?.deregister(this.#status === "ok" ? "complete" : "failed");
    this.#mayBeCounted = uncounted === false;
  }

  readiness(): ServingSession {
    const { manifest, sessionId, artifacts } = this.#staged;
    const { paths } = this.#directories;
    return {
      sessionId,
      url: `localhost:${this.#listener.port}`,
      name: manifest.name,
      version: manifest.version,
      workdir: paths.workdir,
      recordsDir: paths.records,
      driver: `${driverEntry(manifest)?.bareName ?? ""} (${manifest.inference?.model ?? ""})`,
      skills: artifacts.filter(({ payload }) => payload.kind === "skill").length,
      tokens: this.#doorTokens === null ? null : {
        operator: this.#doorTokens.operator(),
        ...Object.fromEntries(this.#doorTokens.credentials()),
      },
      frames: this.#frames,
      tasks: this.#registry,
    };
  }

  /** Runs tasks until the session is over. */
  async live(): Promise<SessionOutcome> {
    this.#listener.serve();
    const { lifecycle, options } = this.#staged;
    await this.#hooks?.sessionStarted();
    const text = this.#taskText;
    if (text === null) {
      // Nothing else is to be done yet, but by a delegated child, whose task is on its way: the answer to that comes first.
      // A task loads it while its driver is busy.
      if (options.spawned?.approval) this.#listener.expectRequest();
      else void loadHttpModules();
      this.#run.components.letGoWhenIdle();
    }
    const seconds = Number(options.env.get("MURMUR_A2A_TIMEOUT_SECS") ?? "");
    const outcome = await runTaskLoop({
      registry: this.#registry,
      lifecycle,
      launchTask: text === null ? null : {
        id: newId("tsk"),
        ...launchTaskContext(this.#launchContext()),
        text,
        source: "task_md",
        standing: LAUNCH_TASK,
        door: null,
      },
      idleMs: Number.isInteger(seconds) && seconds > 0 ? seconds * 1_000 : DEFAULT_IDLE_MS,
      stop: this.#run.stop,
      run: async (task, signal) => this.#lastTask = await runTask(this.#taskServices(), task, signal),
      afterLaunch: () => this.#lostCommandsTask(),
      goOn: () => {
        // The next task brings its own text.
        if (this.#directories.runtime.exists("task.md")) this.#directories.runtime.unlink("task.md");
      },
    });
    return await this.#end(outcome);
  }

  #launchContext(): LaunchContext {
    const { lifecycle, options, resumed } = this.#staged;
    return {
      conversation: lifecycle.conversation,
      given: options.contextId,
      resumed: resumed?.contextId ?? null,
    };
  }

  /** Work ids of background commands that still run. */
  #workIds(): string[] {
    return this.#commands.residue().map(({ work_id }) => work_id);
  }

  /** Commands a resumed session left running and nobody heard of again, told to the agent once (spec session 13.4). */
  async #lostCommandsTask(): Promise<TaskRequest | null> {
    const { resumed, sessionId } = this.#staged;
    if (resumed === null) return null;
    const text = await Deno.readTextFile(resumed.tracePath);
    const commands = lostCommands(text);
    if (commands.length === 0) return null;
    const taskId = newId("tsk");
    using records = RootedDir.open(resumed.tracePath.slice(0, resumed.tracePath.lastIndexOf("/")), {
      symlinks: "refuse",
    });
    const landed = markLostCommands(records, text, commands, {
      lostSession: resumed.sessionId,
      session: sessionId,
      taskId,
      nowMs: Date.now(),
    });
    if (landed.length === 0) return null;
    return {
      id: taskId,
      contextId: resumed.contextId,
      loadHistory: true,
      text: [
        `The session ${resumed.sessionId} ended while these background commands still ran. What became of them is not known:`,
        ...landed.map(({ workId, binary, command }) => `- ${workId}: ${binary} ${command}`),
      ].join("\n"),
      source: "detached_lost",
      standing: LOST_COMMANDS_TASK,
      door: null,
    };
  }

  async #end(outcome: TaskOutcome | null): Promise<SessionOutcome> {
    const status: SessionExitStatus = outcome === null ? "ok" : sessionStatus(outcome);
    await this.#hooks?.sessionEnded(status);
    await this.#commands.abandon();
    this.#ended = true;
    this.#status = status;
    this.#hooks?.flushFaults();
    this.#trace.endSession(status);
    await this.#reportEnd((outcome ?? this.#lastTask)?.status === "ok" ? "ok" : "error");
    this.#frames.close();
    if (outcome === null || status === "ok") return { status, text: outcome?.text ?? null, error: null };
    const error = outcome.fatal ??
      new MurError("E-RUN-040", `the session ended with status ${status}: ${outcome.text}`, {
        hint: `see ${this.#directories.paths.records}/out/result.txt and mur trace show`,
      });
    return { status, text: outcome.text, error };
  }

  /** The session cannot go on; whoever delegated it is told, when there is anything to tell it from. */
  async failed(): Promise<void> {
    if (this.#directories !== undefined) await this.#reportEnd("error");
  }

  /** Reports the end of a delegated session to the one that delegated it, once (spec roost 16.2, session 17.5 step 8). */
  async #reportEnd(status: "ok" | "error"): Promise<void> {
    const { options, manifest, sessionId } = this.#staged;
    const handle = options.spawned?.handle ?? null;
    if (handle === null || this.#endReported) return;
    this.#endReported = true;
    const { reportCompletion } = await import("../delegation/completion_report.ts");
    const { paths, out, records } = this.#directories;
    await reportCompletion({
      handle,
      completion: {
        delegation_id: handle.delegationId,
        capsule_name: manifest.name,
        capsule_version: manifest.version,
        session_id: sessionId,
        status,
        ...(out.exists("result.txt") ? { result_path: `${paths.records}/out/result.txt` } : {}),
        workdir: paths.workdir,
        duration_ms: Math.round(performance.now() - this.#startedAt),
      },
      records,
      bounds: options.bounds,
      report: (text) => this.#report(text),
    });
  }

  /** Undoes everything that was opened, whatever fails on the way. */
  async close(): Promise<void> {
    for (const undo of this.#undo.reverse()) {
      try {
        await undo();
      } catch (cause) {
        this.#run.diagnostics(`cleaning up failed: ${reasonOf(cause)}`);
      }
    }
  }

  async #openDirectories(): Promise<void> {
    const staged = this.#staged;
    const { options } = staged;
    const paths = sessionPaths(options.home, {
      id: staged.sessionId,
      workdirRoot: staged.workdirRoot,
      workdir: staged.workdir,
    });
    if (options.workdir === null) makeWorkFolder(staged.workdir);
    this.#directories = await createSessionDirectories(options.home, paths, new TrustedFiles(staged.trusted));
    this.#undo.push(() => this.#directories.remove());
  }

  #toolsDirectory() {
    const tools = this.#directories.runtime.openDir("tools", { follow: false });
    this.#undo.push(() => tools.close());
    return tools;
  }

  async #readPrompt(): Promise<void> {
    const { prompt, source, artifacts } = this.#staged;
    switch (prompt.kind) {
      case "none":
        return;
      case "cli":
        this.#prompt = prompt.text === "" ? null : prompt.text;
        return;
      case "inline":
        this.#prompt = prompt.text;
        return;
      case "file":
        this.#prompt = await source.readText(prompt.path).catch((cause) => {
          throw unreadablePrompt(`inference.system_prompt_file: ${prompt.path}`, cause);
        });
        return;
      case "artifact": {
        const found = artifacts.find(({ entry }) => entry.name === prompt.name || entry.bareName === prompt.name);
        if (found?.payload.kind !== "skill") {
          throw unreadablePrompt(`inference.system_prompt_artifact: ${prompt.name}`, "it holds no skill.md");
        }
        this.#prompt = found.payload.text;
        this.#boundSkill = found.entry.bareName;
      }
    }
  }

  /** What shows files to others is loaded for who declares it. */
  async #openPlanes(): Promise<void> {
    const staged = this.#staged;
    const { exports, capabilities } = staged.manifest;
    if (exports.files === null && exports.peerFiles === null && capabilities.peerFetch === null) return;
    const { installPeerTools, SessionPlanes } = await import("./session_planes.ts");
    installPeerTools(staged.manifest, this.#directories.runtime);
    const planes = new SessionPlanes({
      staged,
      directories: this.#directories,
      generation: () => this.#registry.generation,
      card: () => this.#card("public"),
      trace: () => this.#trace.second,
      recordPlane: (record) => recordPlane(this.#trace.second, record),
    });
    this.#planes = planes;
    this.#undo.push(() => planes.close());
  }

  #card(kind: "public" | "extended") {
    const { manifest, sessionId, lifecycle } = this.#staged;
    const { exports } = manifest;
    return agentCard({
      name: manifest.name,
      version: manifest.version,
      sessionId,
      port: this.#listener.port,
      takesTasks: lifecycle.taskAcceptance !== "none",
      authenticated: manifest.network.authentication !== null,
      a2aCompat: manifest.network.a2aCompat,
      tools: this.#inventory().map(({ name }) => name),
      shell: manifest.capabilities.shellAllow.length > 0,
      network: manifest.capabilities.networkAllow.length > 0,
      planes: [
        ...(exports.files === null ? [] : ["files" as const]),
        ...(exports.peerFiles === null ? [] : ["peer_files" as const]),
      ],
      peerTasks: exports.peerTasks,
    }, kind);
  }

  #openDoor(): void {
    const { manifest, sessionId, lifecycle, options, containment } = this.#staged;
    const { authentication, internalPort, hosts, origins } = manifest.network;
    if (authentication !== null) this.#doorTokens = new DoorTokens(authentication.credentials);
    this.#listener = openListener({
      hostname: options.bind,
      port: internalPort,
      hosts,
      origins,
      session: {
        sessionId,
        capsule: manifest.name,
        takesTasks: lifecycle.taskAcceptance !== "none",
        authenticated: authentication !== null,
        tasks: this.#registry,
        frames: this.#frames,
        conversation: lifecycle.conversation,
        a2aCompat: manifest.network.a2aCompat,
        acceptsPeers: manifest.exports.peerTasks,
        receiveCompletion: manifest.capabilities.spawnAllow.length === 0
          ? null
          // One that comes before the first delegation is nobody's.
          : (delegationId) => this.#delegations?.receive(delegationId) ?? "not-awaited",
        planes: this.#planes?.endpoint ?? null,
        containment: containment.decision.achieved,
        recordPlane: (record) => recordPlane(this.#trace.second, record),
        publicCard: () => this.#card("public"),
        extendedCard: () => this.#card("extended"),
      },
      tokens: this.#doorTokens,
      bounds: options.bounds,
      report: (text) => this.#report(text),
    });
    this.#undo.push(() => this.#listener.close(options.bounds.doorDrain));
  }

  #inventory() {
    return toolInventory(this.#installed, this.#boundSkill);
  }

  #writeMurmurMd(url: string): void {
    const { manifest, sessionId } = this.#staged;
    const { paths, runtime } = this.#directories;
    const text = murmurMd({
      runtimeVersion: VERSION,
      now: new Date(),
      capsuleName: manifest.name,
      capsuleVersion: manifest.version,
      sessionId,
      url,
      model: manifest.inference?.model ?? null,
      workdir: paths.workdir,
      runtimeDir: paths.runtime,
      recordsDir: paths.records,
      contextBudget: manifest.context.maxTokens,
      compactionHook: this.#staged.artifacts.some(compactsHistory),
      copiedFolder: this.#staged.options.spawned?.snapshot ?? null,
      artifacts: this.#installed.filter((tool) => describeTool(tool) !== null).map(({ name, manifest: own }) => ({
        name,
        version: own.version,
        runtime: own.runtime,
        description: own.description,
      })),
      boundSkill: this.#boundSkill,
      shellAllow: manifest.capabilities.shellAllow,
      install: null,
    });
    try {
      writeAtomicallyIn(runtime, "MURMUR.md", text, { mode: 0o600, durable: false });
    } catch (cause) {
      this.#log.line(`MURMUR.md could not be written: ${reasonOf(cause)}`);
    }
  }

  #openTrace(): void {
    this.#trace = TraceWriter.open({
      records: this.#directories.records,
      sessionId: this.#staged.sessionId,
      capture: this.#staged.manifest.trace.capture,
      credentials: () => this.#credentialValues(),
      report: (text) => this.#log.line(text),
    });
    this.#undo.push(() => this.#trace.close());
  }

  /** Every credential value the session holds or held. */
  #credentialValues(): string[] {
    return [...this.#bound?.gateways.values() ?? []].flatMap((gateway) => gateway.credentialValues());
  }

  /** A text of a component's or an upstream's making, for people: without credential values and handles. */
  #redacted(text: string): string {
    return redactPeerTokens(redactValues(text, this.#credentialValues()));
  }

  /** A line a component wrote, for stderr. */
  #componentLine(artifact: string, line: string): void {
    this.#run.diagnostics(`[${artifact}] ${this.#redacted(line)}`);
  }

  #bindComponents(url: string): void {
    const { sessionId } = this.#staged;
    this.#bound = bindComponents({
      staged: this.#staged,
      directories: this.#directories,
      session: { sessionId, url },
      newClient: () => this.#newClient(),
      admission: this.#spend,
      onCredential: (artifact, isDriver, event) =>
        isDriver
          ? void this.#trace.second.write("inference_credential", event)
          : void this.#trace.second.write("gateway_credential", { artifact, ...event }),
    });
    this.#undo.push(() => this.#bound.close());
  }

  #newClient(): HttpClient {
    const client = createHttpClient({ proxy: proxyOf(this.#staged), bounds: this.#staged.options.bounds });
    return { ...client, send: (request) => client.send({ ...request, sent: () => this.#modelAsked.resolve() }) };
  }

  /** Takes the free trusted names and begins to make the network, before anything could start a command. */
  async #containCommands(): Promise<void> {
    const { manifest, containment: judgement, policy, options, env } = this.#staged;
    if (!judgement.commands) return;
    const { paths } = this.#directories;
    const containment = await CommandContainment.prepare({ manifest, judgement, paths, path: env.get("PATH") ?? "" });
    this.#undo.push(() => containment.close());
    for (const warning of containment.warnings) this.#warnAtLaunch(warning);
    const contained = new ContainedCommands({
      containment,
      helper: await confineHelper(),
      controlDirectory: `${paths.scratch}/ctl`,
      rules: policy.network,
      bounds: options.bounds,
      report: (text) => this.#report(text),
    });
    this.#contained = contained;
    this.#undo.push(() => contained[Symbol.asyncDispose]());
  }

  /** Tells the operator, and keeps it in the records. */
  #report(text: string): void {
    this.#run.diagnostics(text);
    this.#log.line(text);
  }

  /** Opens what hands work to other capsules; nothing of it is loaded for one that may not. */
  async #openDelegations(url: string): Promise<void> {
    if (this.#registration === null || this.#staged.manifest.capabilities.spawnAllow.length === 0) return;
    const { openDelegations } = await import("../delegation/open_delegations.ts");
    const delegations = openDelegations({
      staged: this.#staged,
      directories: this.#directories,
      url,
      registration: this.#registration,
      trace: this.#trace,
      progress: (taskId, message) => this.#registry.progress(taskId, message),
      traceparentOf: (taskId) => this.#registry.traceparent(taskId),
      report: (text) => this.#report(text),
      diagnostics: (line) => this.#run.diagnostics(line),
    });
    this.#delegations = delegations;
    this.#undo.push(() => delegations.close());
  }

  /** Manifests of the tools the runtime provides to this capsule, by name; what it does not have is not loaded. */
  async #providedManifests(): Promise<ReadonlyMap<string, string>> {
    const provided = new Map<string, string>();
    const { planSubmit, spawnAllow: allow, workdirSnapshot: snapshots } = this.#staged.manifest.capabilities;
    if (planSubmit) {
      const { planManifest, SUBMIT_PLAN } = await import("../plan/plan_manifest.ts");
      provided.set(SUBMIT_PLAN, planManifest());
    }
    if (allow.length > 0) {
      const { DELEGATE_TASK, delegateTaskManifest } = await import("../delegation/delegate_task.ts");
      provided.set(DELEGATE_TASK, delegateTaskManifest({ allow, snapshots }));
    }
    return provided;
  }

  /** The tools the runtime provides to this capsule, by name. @param tools What their calls may use. */
  async #runtimeTools(tools: () => SessionTools): Promise<ReadonlyMap<string, RuntimeTool>> {
    const provided = new Map(this.#planes?.tools ?? []);
    const { capabilities } = this.#staged.manifest;
    if (this.#delegations !== null) provided.set("delegate-task", this.#delegations.tool().run);
    if (capabilities.planSubmit) {
      const { PlanTool } = await import("../plan/plan_tool.ts");
      const plans = new PlanTool({
        facts: () => ({
          tools: new Set(this.#inventory().map(({ name }) => name)),
          shellAllow: new Set(capabilities.shellAllow),
        }),
        runtimeDir: this.#directories.runtime,
        trace: this.#trace,
        dispatcher: {
          dispatchStep: (step, scope) => this.#dispatcher.dispatchStep(step, scope),
          decideStep: (name, input, scope) => this.#dispatcher.decideStep(name, input, scope),
        },
        command: (words, line) => tools().command(words[0], words.slice(1), line),
        capsules: await this.#capsuleSteps(),
        waiting: (taskId, wait) => this.#registry.waitIn(taskId, "plan", wait),
        report: (text) => this.#report(text),
      });
      provided.set("submit-plan", plans.tool().run);
    }
    return provided;
  }

  async #capsuleSteps(): Promise<CapsuleSteps> {
    if (this.#delegations === null) {
      const { noCapsuleSteps } = await import("../plan/capsule_steps.ts");
      return noCapsuleSteps(this.#staged.options.env.get("MURMUR_ROOST_URL"));
    }
    const { openSteps } = await import("../delegation/open_delegations.ts");
    return openSteps(this.#staged, this.#delegations);
  }

  #declaresHooks(): boolean {
    return this.#staged.artifacts.some(({ entry }) => entry.role === "hook");
  }

  /** What hooks are given from their staging on. */
  #hookOptions(): HookSessionOptions {
    return {
      components: this.#run.components,
      manifest: this.#staged.manifest,
      records: this.#directories.records,
      tokens: this.#tokens,
      redact: (text) => redactValues(text, this.#credentialValues()),
      output: (hook, line) => this.#componentLine(hook, line),
    };
  }

  /** Hooks bound to `on-stage`, before anything reads what is installed (spec session 3.5). */
  async #stageHooks(): Promise<void> {
    const artifacts = this.#staged.artifacts.filter(({ entry, manifest }) =>
      entry.role === "hook" && manifest?.hook.binding === "on-stage"
    );
    if (artifacts.length === 0) return;
    this.#modelAsked.resolve();
    const { stagedHooks, stageWithHooks } = await import("../hook/session_hooks.ts");
    const bound = bindComponents({
      staged: this.#staged,
      artifacts,
      directories: this.#directories,
      session: { sessionId: this.#staged.sessionId, url: null },
      newClient: () => this.#newClient(),
      admission: { open: false },
      // There is no trace yet.
      onCredential: () => {},
    });
    // The session holds no keys yet; these hooks may hold their own.
    const redact = (text: string) =>
      redactValues(text, [...bound.gateways.values()].flatMap((gateway) => gateway.credentialValues()));
    try {
      await stageWithHooks({
        ...this.#hookOptions(),
        redact,
        output: (hook, line) => this.#run.diagnostics(`[${hook}] ${redactPeerTokens(redact(line))}`),
        hooks: stagedHooks({ artifacts }, bound.specs),
        runtimeDir: this.#directories.runtime,
      });
    } finally {
      bound.close();
    }
  }

  /** @throws {MurError} `E-RUN-001`, `E-RUN-002` for a hook that cannot be made. */
  async #openHooks(): Promise<SessionHooks | null> {
    if (!this.#declaresHooks()) return null;
    const { stagedHooks, SessionHooks } = await import("../hook/session_hooks.ts");
    const { manifest, options, source, sessionId } = this.#staged;
    const { model, compaction } = manifest.inference!;
    const hooks = await SessionHooks.open({
      ...this.#hookOptions(),
      hooks: stagedHooks(this.#staged, this.#bound.specs),
      sessionId,
      conversations: options.home.conversations,
      workdir: this.#directories.workdir,
      out: this.#directories.out,
      trace: this.#trace,
      inference: {
        model: model ?? "",
        promptCacheKey: promptCacheKey(manifest.name, manifest.version, null),
        callDriver: this.#driverCall(),
        providerStatus: () => this.#driverGateway()?.lastStatus() ?? null,
        spend: this.#spend,
      },
      compactionPrompt: compaction.systemPromptFile === null
        ? compaction.systemPrompt
        : await source.readText(compaction.systemPromptFile).catch((cause) => {
          throw unreadablePrompt(`inference.compaction.system_prompt_file: ${compaction.systemPromptFile}`, cause);
        }),
      capabilities: this.#grantedCapabilities(),
      drainBound: options.bounds.hookDrain,
      log: (text) => this.#log.line(text),
    });
    this.#undo.push(() => hooks.close());
    return hooks;
  }

  #grantedCapabilities(): readonly ("network" | "filesystem" | "shell")[] {
    const { networkAllow, scope, shellAllow } = this.#staged.manifest.capabilities;
    return [
      ...(networkAllow.length > 0 ? ["network" as const] : []),
      ...(scope !== null ? ["filesystem" as const] : []),
      ...(shellAllow.length > 0 ? ["shell" as const] : []),
    ];
  }

  async #openTools(url: string): Promise<void> {
    const staged = this.#staged;
    const { manifest } = staged;
    this.#commands = new SessionCommands({
      staged,
      directories: this.#directories,
      contained: this.#contained,
      url,
      trace: this.#trace,
      report: (text) => this.#report(text),
      breach: (error) => this.#breach ??= error,
      enqueue: (task) => this.#registry.enqueue(task),
    });
    this.#undo.push(() => this.#commands.close(this.#ended));
    const tools: SessionTools = new SessionTools({
      installed: this.#installed,
      allowlist: new Set(manifest.artifacts.filter(({ role }) => role === "tool").map(({ bareName }) => bareName)),
      shellAllow: manifest.capabilities.shellAllow,
      specs: this.#bound.specs,
      pulledSkills: new Set(
        staged.artifacts.filter(({ payload, pulledBy }) => payload.kind === "skill" && pulledBy !== null)
          .map(({ entry }) => entry.bareName),
      ),
      components: this.#run.components,
      commands: this.#commands,
      runtimeTools: await this.#runtimeTools(() => tools),
      frames: this.#frames,
      requestInput: (taskId, prompt) => {
        const seconds = staged.lifecycle.inputTimeoutSecs;
        return this.#registry.requestInput(taskId, prompt, seconds === null ? null : seconds * 1_000);
      },
      output: (artifact, _stream, line) => this.#componentLine(artifact, line),
    });
    const readOnly = manifest.capabilities.readOnly;
    this.#dispatcher = new ToolDispatcher({
      resolve: (name) => tools.resolve(name),
      protectedPath: (tool, name, input) =>
        readOnly.length === 0
          ? null
          : protectedPathOf(new ReadOnlyPaths(readOnly, this.#commands.resolvePath), tool, name, input),
      warn: (warning) => this.#warn(warning),
      hooks: this.#hooks,
      trace: this.#trace,
      frames: this.#frames,
    });
  }

  #startTrace(): void {
    const { manifest, resumed, options, scope, gateways, prompt } = this.#staged;
    const { capabilities } = manifest;
    const inference = manifest.inference!;
    const spawner = options.spawned?.handle ?? null;
    const driver = driverEntry(manifest)!.bareName;
    const gatewayRows = [...this.#bound.gateways.values()]
      .toSorted((a, b) =>
        Number(b.artifact === driver) - Number(a.artifact === driver) || (a.artifact < b.artifact ? -1 : 1)
      )
      .map(({ artifact, host, credentialSource, metered }) => ({
        artifact,
        host,
        credential_source: credentialSource,
        metered,
      }));
    this.#trace.write("session_start", {
      capsule_name: manifest.name,
      capsule_version: manifest.version,
      model: inference.model ?? "",
      max_turns: inference.maxTurns,
      max_session_tokens: inference.maxSessionTokens,
      machine_tokens_per_day: this.#staged.ledger === null ? null : this.#staged.configuration.machineTokensPerDay,
      capabilities: this.#grantedCapabilities(),
      tools_declared: this.#inventory().map(({ name }) => name),
      tool_refresh: inference.toolRefresh,
      runtime_artifacts: this.#staged.artifacts.flatMap(({ entry, pulledBy }) =>
        pulledBy === null ? [] : [{
          name: entry.bareName,
          version: entry.version,
          origin: "runtime" as const,
          session: pulledBy,
          trust: "untrusted" as const,
        }]
      ),
      containment_declared: String(scope.declared_containment),
      containment_achieved: String(scope.achieved_containment),
      userns_grant: this.#staged.containment.decision.usernsGrant,
      workdir_exec: capabilities.workdirExec,
      resumed_from: resumed?.sessionId ?? null,
      context_id: options.contextId ?? resumed?.contextId ?? null,
      ...(spawner === null ? {} : { spawned_by: spawner.sessionId, delegation_id: spawner.delegationId }),
      system_prompt_source: tracedPromptSource(prompt),
      credential_source: gateways.has(driver) ? this.#bound.gateways.get(driver)?.credentialSource ?? "none" : "none",
      gateways: gatewayRows,
      system_prompt_sha256: this.#prompt === null ? null : this.#trace.wire.systemPrompt(this.#prompt),
      effective_grants: scope,
    });
    const { stop } = this.#run;
    const spawnerEnded = () => {
      if (stop.reason !== "spawner_ended") return;
      this.#trace.write(
        "spawner_ended",
        spawner === null ? {} : { spawned_by: spawner.sessionId, delegation_id: spawner.delegationId },
      );
    };
    // Before anything that winds down because of it can write a line.
    if (stop.aborted) spawnerEnded();
    else stop.addEventListener("abort", spawnerEnded, { once: true });
  }

  #writeRunningRecord(url: string): void {
    const { manifest, options, sessionId } = this.#staged;
    const { paths } = this.#directories;
    try {
      writeRunningRecord(options.home.running, {
        session_id: sessionId,
        url,
        ...recordedProcess(),
        capsule_name: manifest.name,
        capsule_version: manifest.version,
        workdir: paths.workdir,
        records_dir: paths.records,
        outlives_launcher: !hasTerminal(),
        started_at: new Date().toISOString(),
        ...(answersToLocalhost(options.bind) ? {} : { bound_address: options.bind }),
        ...(options.spawned?.handle ? { spawned_by: options.spawned.handle.sessionId } : {}),
        ...(this.#doorTokens === null ? {} : {
          door_token: this.#doorTokens.operator(),
          credentials: Object.fromEntries(this.#doorTokens.credentials()),
        }),
      });
      this.#undo.push(() => {
        // One that the daemon may count stays, naming a process that is gone, until the daemon or `mur ps` has seen it.
        if (!this.#mayBeCounted) removeRunningRecord(options.home.running, sessionId);
      });
    } catch (cause) {
      this.#warnAtLaunch({
        code: "W-SEC-023",
        source: "capsule-runtime",
        message: `the running record could not be written, so the session cannot be addressed: ${reasonOf(cause)}`,
      });
    }
  }

  #taskServices(): TaskServices {
    const { manifest, lifecycle, options } = this.#staged;
    return {
      trace: this.#trace,
      registry: this.#registry,
      runtimeDir: this.#directories.runtime,
      out: this.#directories.out,
      frames: this.#frames,
      threaded: lifecycle.conversation === "threaded",
      maxTurns: manifest.inference!.maxTurns,
      maxReopens: lifecycle.maxTaskReopens,
      hooks: this.#hooks,
      compactOnce: (contextId) => {
        if (contextId !== this.#toCompact) return false;
        this.#toCompact = null;
        return true;
      },
      continuation: this.#continuation,
      detachedWork: () => this.#workIds(),
      handedOff: this.#delegations,
      loopFor: (task, record) => this.#loop(task, record),
      openRecord: async (contextId) =>
        manifest.context.record
          ? await ConversationRecord.open({
            location: {
              conversations: options.home.conversations,
              store: manifest.context.recordStore ?? manifest.name,
              contextId,
            },
            headerCapsule: null,
            report: (text) => this.#report(text),
          })
          : null,
      report: (text) => this.#report(text),
    };
  }

  #loop(task: TaskRequest, record: (messages: readonly Message[]) => void): TurnLoopServices {
    const { manifest, gateways } = this.#staged;
    const inference = manifest.inference!;
    const driver = driverEntry(manifest)!.bareName;
    const gateway = this.#driverGateway();
    return {
      model: inference.model ?? "",
      maxTokens: inference.maxTokens ?? DEFAULT_MAX_TOKENS,
      system: systemPrompt({
        capsuleName: manifest.name,
        capsuleVersion: manifest.version,
        planTool: manifest.capabilities.planSubmit,
        prompt: this.#prompt,
      }),
      tools: this.#inventory(),
      promptCacheKey: promptCacheKey(manifest.name, manifest.version, task.contextId),
      callDriver: this.#driverCall(),
      providerStatus: () => gateway?.lastStatus() ?? null,
      redact: (text) => this.#redacted(text),
      reportError: (error) => this.#run.diagnostics(formatError(error)),
      credentialRejection: () =>
        gateway !== null && gateway.rejected()
          ? { error: credentialRejectedError(gateway, gateways.get(driver)?.credential ?? null) }
          : null,
      dispatcher: this.#dispatcher,
      hooks: this.#hooks,
      compaction: manifest.context.maxTokens === null
        ? null
        : { window: manifest.context.maxTokens, threshold: inference.compaction.threshold },
      tokens: this.#tokens,
      spend: this.#spend,
      trace: this.#trace,
      frames: this.#frames,
      progress: (taskId, message, reopen) => this.#registry.progress(taskId, message, reopen),
      warn: (warning) => this.#warn(warning),
      workdirBreach: () => this.#breach,
      record,
    };
  }

  #driverGateway(): CredentialGateway | null {
    return this.#bound.gateways.get(driverEntry(this.#staged.manifest)!.bareName) ?? null;
  }

  /** How the driver is asked, by a turn or by a hook. */
  #driverCall(): TurnLoopServices["callDriver"] {
    const driver = driverEntry(this.#staged.manifest)!.bareName;
    const spec = this.#bound.specs.get(driver)!;
    const gateway = this.#driverGateway();
    return (request, chunks, signal) => {
      gateway?.beginCall();
      const call = this.#run.components.callTool(spec, { data: request, logPath: null }, {
        emitChunk: chunks.text,
        emitThinkingChunk: chunks.thinking,
        output: (_stream, line) => this.#componentLine(driver, line),
        signal,
        // What its first request needs loads while the driver prepares it.
        sent: () => void loadHttpModules(),
      });
      // A driver need not ask anyone.
      const answered = () => this.#modelAsked.resolve();
      call.then(answered, answered);
      return call;
    };
  }

  /** The launch task: `--task`, else `task.md`, else `input.txt` of the work folder; `null` without one. */
  async #launchTask(): Promise<string | null> {
    const { options } = this.#staged;
    if (options.task !== null) return await taskText(options.task, options.cwd);
    // A delegated child is told its task at its door; what lies in its work folder may be a copy, of an agent's making.
    if (options.spawned?.approval) return null;
    for (const name of ["task.md", "input.txt"]) {
      if (!this.#directories.workdir.exists(name)) continue;
      using file = this.#directories.workdir.openFile(name);
      return new TextDecoder().decode(file.readAll(MAX_TEXT_BYTES));
    }
    return null;
  }

  #warn(warning: Warning): void {
    this.#staged.options.warn(warning);
  }

  #warnAtLaunch(warning: Warning): void {
    this.#warn(warning);
    this.#log.line(formatWarning(warning));
  }
}

/** Writes the line of a request to a plane. */
function recordPlane(trace: SecondTraceWriter, { type, body }: PlaneRecord): void {
  trace.write(type, body);
}

/** Whether `localhost` reaches a door bound to this address: it is tried as 127.0.0.1 first. */
function answersToLocalhost(bind: string): boolean {
  return ["127.0.0.1", "localhost", "0.0.0.0", "::"].includes(bind);
}

/** Wait for a first task without `MURMUR_A2A_TIMEOUT_SECS` (spec session 6.4). */
const DEFAULT_IDLE_MS = 30_000;

/** A `--task` value: the content of an existing file, else the text itself. @throws {MurError} `E-IO-002`, `E-IO-003`. */
async function taskText(value: string, cwd: string): Promise<string> {
  // A long text is no path, and asking the file system about it would fail with a name too long.
  if (value.length > 4_096 || value.includes("\0") || value.includes("\n")) return value;
  const path = value.startsWith("/") ? value : `${cwd}/${value}`;
  const isFile = await Deno.stat(path).then((info) => info.isFile, () => false);
  return isFile ? await readOperatorText(path) : value;
}

function unreadablePrompt(what: string, cause: unknown): MurError {
  return new MurError("E-RUN-009", `${what} cannot be read: ${reasonOf(cause)}`, {
    hint: "correct the path, or make the file readable",
    cause,
  });
}

/** The launch's status by its deciding task (spec session 18). */
function sessionStatus({ status }: TaskOutcome): SessionExitStatus {
  switch (status) {
    case "ok":
    case "failed":
    case "max_turns_reached":
    case "spend_ceiling_reached":
    case "canceled":
      return status;
    default:
      return "failed";
  }
}

/** Whether this process has a controlling terminal, whatever its streams are. */
function hasTerminal(): boolean {
  try {
    Deno.openSync("/dev/tty", { read: true }).close();
    return true;
  } catch {
    return false;
  }
}
