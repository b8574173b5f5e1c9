/**
 * A script capsule's session (spec session 20): one component that runs once; no door, no tasks, no model.
 *
 * @module
 */
import { createHttpClient } from "../../base/http_client.ts";
import { formatWarning, MurError, reasonOf } from "../../base/errors.ts";
import { removeRunningRecord } from "../../base/running_record.ts";
import { TrustedFiles } from "../../base/trusted_files.ts";
import { recordedProcess, writeRunningRecord } from "../../base/write_running_record.ts";
import {
  ComponentFailure,
  type ComponentRuntime,
  type ComponentSpec,
  type ToolInput,
  type ToolResult,
} from "../component/component_runtime.ts";
import { createOutgoingHttp } from "../inference/outgoing_policy.ts";
import { redactPeerTokens, redactValues } from "../trace/trace_redaction.ts";
import { componentEnvironment } from "./component_environment.ts";
import { installTools } from "./install_tools.ts";
import { registers, registerSession } from "./register_session.ts";
import type { SessionReady } from "./run_session.ts";
import { bindComponents } from "./session_components.ts";
import { createSessionDirectories, makeWorkFolder, sessionPaths } from "./session_directories.ts";
import { proxyOf, type StagedSession, writeFirstLock } from "./stage_session.ts";

/** What a script capsule is run with. */
export interface ScriptRun {
  readonly components: ComponentRuntime;
  readonly ready: (session: SessionReady) => void;
  readonly diagnostics: (line: string) => void;
  /** Lines the capsule itself writes. */
  readonly guestOutput: (stream: "stdout" | "stderr", line: string) => void;
}

/**
 * Runs a script capsule to its end.
 *
 * @returns `E-RUN-001` when it trapped or ran into a limit, `null` when it returned.
 * @throws {MurError} When the launch is refused.
 */
export async function runScriptSession(staged: StagedSession, run: ScriptRun): Promise<MurError | null> {
  const { manifest, options, sessionId } = staged;
  const component = await run.components.compile(staged.scriptComponent!, `capsule '${manifest.name}'`);
  using cleanup = new DisposableStack();
  const client = createHttpClient({ proxy: proxyOf(staged), bounds: options.bounds });
  cleanup.defer(() => client.close());
  const paths = sessionPaths(options.home, {
    id: sessionId,
    workdirRoot: staged.workdirRoot,
    workdir: staged.workdir,
  });
  if (options.workdir === null) makeWorkFolder(staged.workdir);
  const directories = await createSessionDirectories(options.home, paths, new TrustedFiles(staged.trusted));
  cleanup.defer(() => directories.remove());
  const bound = bindComponents({
    staged,
    directories,
    session: { sessionId, url: null },
    newClient: () => createHttpClient({ proxy: proxyOf(staged), bounds: options.bounds }),
    admission: { open: false },
    // A script capsule has no trace that credential changes could go to; a standing 401 goes to the artifact.
    onCredential: () => {},
  });
  cleanup.defer(() => bound.close());
  /** The daemon may count the session though it is at its end. */
  let mayBeCounted = false;
  const record = () => {
    recordRunning(staged, paths.records, run);
    cleanup.defer(() => {
      // One that the daemon may count stays, naming a process that is gone, until the daemon or `mur ps` has seen it.
      if (!mayBeCounted) removeRunningRecord(options.home.running, sessionId);
    });
  };
  // Its running record comes before: should it die from now on, or not learn that it is registered, the daemon sees it by that.
  const isRegistered = registers(staged);
  if (isRegistered) record();
  const registration = isRegistered ? await registerSession(staged, () => mayBeCounted = true) : null;
  let outcome: "complete" | "failed" = "failed";
  // Before the running record is removed: one that is gone is a session that died to the daemon.
  await using _retirement = {
    [Symbol.asyncDispose]: async () => {
      const uncounted = await registration?.deregister(outcome);
      mayBeCounted = uncounted === false;
    },
  };
  // A line of a component may quote what its upstream said, and that a key, or its input, and that a handle.
  const redacted = (text: string) =>
    redactPeerTokens(
      redactValues(text, [...bound.gateways.values()].flatMap((gateway) => gateway.credentialValues())),
    );
  try {
    installTools(staged, directories.runtime);
    await writeFirstLock(staged);
    if (!isRegistered) record();
    run.ready({
      sessionId,
      url: "",
      name: manifest.name,
      version: manifest.version,
      workdir: paths.workdir,
      recordsDir: paths.records,
      driver: "",
      skills: staged.artifacts.filter(({ payload }) => payload.kind === "skill").length,
    });
    const spec: ComponentSpec = {
      name: manifest.name,
      role: "capsule",
      compiled: component,
      environment: componentEnvironment(manifest, staged.env, { sessionId, url: null }, {
        configJson: null,
        gatewayEndpoint: null,
        isDriver: false,
      }),
      preopens: [{ guestPath: ".", root: directories.workdir, writable: true }],
      http: createOutgoingHttp({ rules: staged.policy.network, send: client.send, gateway: null }),
      limits: manifest.capabilities.limits,
      sharesProcess: false,
    };
    await run.components.runCapsule(spec, {
      invoke: (name, input) => invoke(staged, bound.specs, run, name, input, redacted),
      output: run.guestOutput,
      readStdin: async (maxBytes) => {
        const buffer = new Uint8Array(maxBytes);
        const read = await Deno.stdin.read(buffer);
        return read === null ? null : buffer.subarray(0, read);
      },
    });
    outcome = "complete";
    return null;
  } catch (cause) {
    if (!(cause instanceof ComponentFailure)) throw cause;
    return new MurError("E-RUN-001", cause.message, { cause });
  }
}

/** `murmur:tool-registry/invoke` (spec components 9.1); a rejection's text is the guest's `err`. */
async function invoke(
  staged: StagedSession,
  specs: ReadonlyMap<string, ComponentSpec>,
  run: ScriptRun,
  name: string,
  input: ToolInput,
  redacted: (text: string) => string,
): Promise<ToolResult> {
  const declared = staged.manifest.artifacts.some(({ bareName, role }) =>
    bareName === name && (role === "tool" || role === "driver")
  );
  const spec = specs.get(name);
  if (!declared || spec === undefined) throw new Error(`tool '${name}' is not declared in manifest allowlist`);
  return await run.components.callTool(spec, input, {
    output: (_stream, line) => run.diagnostics(`[${name}] ${redacted(line)}`),
  });
}

function recordRunning(staged: StagedSession, recordsDir: string, run: ScriptRun): void {
  const { manifest, options, sessionId, workdir } = staged;
  try {
    writeRunningRecord(options.home.running, {
      session_id: sessionId,
      url: null,
      ...recordedProcess(),
      capsule_name: manifest.name,
      capsule_version: manifest.version,
      workdir,
      records_dir: recordsDir,
      outlives_launcher: false,
      ...(options.spawned?.handle ? { spawned_by: options.spawned.handle.sessionId } : {}),
      started_at: new Date().toISOString(),
    });
  } catch (cause) {
    run.diagnostics(formatWarning({
      code: "W-SEC-023",
      source: "capsule-runtime",
      message: `the running record could not be written, so the session cannot be addressed: ${reasonOf(cause)}`,
    }));
  }
}
