/**
 * The launch of an agent capsule and its life: directories, door, trace, tasks, teardown (spec session 3.5, 5, 6, 17.5).
 *
 * @module
 */
import { artifactNetworkRules, artifactPreopen, artifactStateStore } from "../../artifact/capability_policy.ts";
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { createHttpClient, type HttpClient } from "../../base/http_client.ts";
import { formatWarning, ioError, MurError, reasonOf, type Warning } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { ownStartToken } from "../../base/process_identity.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { removeRunningRecord, writeRunningRecord } from "../../base/running_record.ts";
import { TrustedFiles } from "../../base/trusted_files.ts";
import { BootstrapLog } from "../agent/bootstrap_log.ts";
import { launchTaskContext } from "../agent/context_resolution.ts";
import { ConversationRecord } from "../agent/conversation_record.ts";
import { DEFAULT_MAX_TOKENS, promptCacheKey } from "../agent/driver_protocol.ts";
import { murmurMd } from "../agent/murmur_md.ts";
import { systemPrompt, tracedPromptSource } from "../agent/system_prompt.ts";
import { LAUNCH_TASK } from "../agent/task_origin.ts";
import { TokenCounter } from "../agent/token_count.ts";
import { ToolDispatcher } from "../agent/tool_dispatch.ts";
import { installedTools, shellToolManifest, toolInventory } from "../agent/tool_inventory.ts";
import type { ContinuationSlot } from "../agent/turn_loop.ts";
import type { ComponentRuntime, ComponentSpec, Preopen } from "../component/component_runtime.ts";
import { agentCard } from "../door/agent_card.ts";
import { type Listener, openListener } from "../door/listener.ts";
import {
  createCredentialGateway,
  type CredentialGateway,
  credentialRejectedError,
  gatewayEndpointForGuest,
} from "../inference/credential_gateway.ts";
import { createOutgoingHttp } from "../inference/outgoing_policy.ts";
import { createSpendMeter } from "../inference/spend_meter.ts";
import type { SessionExitStatus } from "../trace/trace_event.ts";
import { TraceWriter } from "../trace/trace_writer.ts";
import { componentEnvironment } from "./component_environment.ts";
import { FrameLog } from "./frame_log.ts";
import { createSessionDirectories, sameWorkdir, type SessionDirectories, sessionPaths } from "./session_directories.ts";
import { SessionTools } from "./session_tools.ts";
import { driverEntry, type StagedGateway, type StagedSession, writeFirstLock } from "./stage_session.ts";
import type { StagedArtifact } from "./staged_artifact.ts";
import { runTask, type TaskOutcome } from "./task_runner.ts";

/** What a launch tells while it runs. */
export interface SessionObserver {
  /** The door serves; called once, before the first turn. */
  ready(session: SessionReady): void;
}

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
  readonly frames: FrameLog;
}

/** How a session ended. */
export interface SessionOutcome {
  readonly status: SessionExitStatus;
  /** Answer of the deciding task, or why it did not complete; `null` without one. */
  readonly text: string | null;
  /** The code to report with a status other than `ok`. */
  readonly error: MurError | null;
  readonly recordsDir: string;
}

/**
 * Runs an agent capsule to its end.
 *
 * @param stop Ends the session in order when it is aborted (spec session 17.3).
 * @throws {MurError} When the launch is refused; what was made is removed but for the records.
 */
export async function runAgentSession(
  staged: StagedSession,
  components: ComponentRuntime,
  observer: SessionObserver,
  stop: AbortSignal,
): Promise<SessionOutcome> {
  const session = new AgentSession(staged, components);
  try {
    await session.open();
    observer.ready(session.readiness());
    return await session.live(stop);
  } finally {
    await session.close();
  }
}

class AgentSession {
  readonly #staged: StagedSession;
  readonly #components: ComponentRuntime;
  readonly #frames = new FrameLog();
  readonly #continuation: ContinuationSlot = { current: null };
  readonly #client: HttpClient;
  #directories!: SessionDirectories;
  #log!: BootstrapLog;
  #trace!: TraceWriter;
  #listener!: Listener;
  #tokens!: TokenCounter;
  #tools!: SessionTools;
  #system = "";
  #specs = new Map<string, ComponentSpec>();
  #gateways = new Map<string, CredentialGateway>();
  #spend!: ReturnType<typeof createSpendMeter>;
  #opened: (() => void)[] = [];

  constructor(staged: StagedSession, components: ComponentRuntime) {
    this.#staged = staged;
    this.#components = components;
    this.#client = createHttpClient({ proxy: staged.configuration.httpProxy, bounds: staged.options.bounds });
  }

  /** Everything up to the readiness line. */
  async open(): Promise<void> {
    const staged = this.#staged;
    const { options, manifest } = staged;
    const inference = manifest.inference!;
    this.#openDirectories();
    this.#tokens = new TokenCounter({ report: (text) => this.#log.line(text) });
    this.#opened.push(() => this.#tokens.close());
    // Loading the tokenizer takes longer than the rest of the launch; the first turn needs it.
    this.#tokens.warm();
    this.#installTools();
    await writeFirstLock(staged);
    const { prompt, boundSkill } = await this.#readPrompt();
    this.#system = systemPrompt({
      capsuleName: manifest.name,
      capsuleVersion: manifest.version,
      planTool: false,
      prompt,
    });
    this.#listener = openListener({
      hostname: options.bind,
      port: manifest.network.internalPort,
      hosts: manifest.network.hosts,
      origins: manifest.network.origins,
      card: () => this.#card(),
    });
    const url = `localhost:${this.#listener.port}`;
    this.#writeMurmurMd(url);
    this.#spend = createSpendMeter({
      sessionId: staged.sessionId,
      sessionCeiling: inference.maxSessionTokens,
      machine: staged.ledger === null || staged.configuration.machineTokensPerDay === null
        ? null
        : { ceiling: staged.configuration.machineTokensPerDay, ledger: staged.ledger },
    });
    this.#openTrace();
    this.#openComponents(url);
    this.#tools = new SessionTools({
      staged,
      directories: this.#directories,
      components: this.#components,
      specs: this.#specs,
      url,
      frames: this.#frames,
      trace: () => this.#trace,
      output: (artifact, stream, line) =>
        void Deno.stderr.writeSync(new TextEncoder().encode(`[${artifact}] ${line}\n`)),
      log: this.#log,
      warn: (warning) => this.#warnLater(warning),
    });
    this.#opened.push(() => this.#tools.close());
    for (const warning of staged.containment.launchWarnings) this.#warn(warning);
    this.#startTrace(prompt, boundSkill);
    this.#writeRecord(url);
  }

  readiness(): SessionReady {
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
      frames: this.#frames,
    };
  }
}
