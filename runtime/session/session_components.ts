/**
 * The components of one session made callable: environment, directories, requests and gateway of each, bound once
 * (spec components 3, 5).
 *
 * @module
 */
import { artifactNetworkRules, artifactPreopen, artifactStateStore } from "../../artifact/capability_policy.ts";
import type { HttpClient, HttpSend } from "../../base/http_client.ts";
import { ioError, MurError, reasonOf } from "../../base/errors.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { TrustedFiles } from "../../base/trusted_files.ts";
import type { CompiledComponent, ComponentSpec, Preopen } from "../component/component_runtime.ts";
import {
  createCredentialGateway,
  type CredentialEvent,
  type CredentialGateway,
  gatewayEndpointForGuest,
} from "../inference/credential_gateway.ts";
import { createOutgoingHttp } from "../inference/outgoing_policy.ts";
import {
  type ArtifactFacts,
  componentEnvironment,
  hookEnvironment,
  type SessionFacts,
} from "./component_environment.ts";
import type { SessionDirectories } from "./session_directories.ts";
import { driverEntry, type StagedSession } from "./stage_session.ts";
import type { StagedArtifact } from "./staged_artifact.ts";

/** Deadline of one call of a hook where `capabilities.limits.deadline_seconds` is not written (spec components 3.7). */
const HOOK_DEADLINE_SECONDS = 30;

/** What binding components needs. */
export interface ComponentBinding {
  readonly staged: StagedSession;
  /** Those to bind; default: all. */
  readonly artifacts?: readonly StagedArtifact[];
  readonly directories: Pick<SessionDirectories, "workdir" | "runtime" | "records">;
  readonly session: SessionFacts;
  /** A client with connections of its own; each artifact gets one, so that none is shared. */
  readonly newClient: () => HttpClient;
  /** Whether a metered gateway may send now. */
  readonly admission: { readonly open: boolean };
  /** Takes changes of credentials for the trace. */
  readonly onCredential: (artifact: string, isDriver: boolean, event: CredentialEvent) => void;
}

/** The components of a session. */
export interface SessionComponents {
  /** By bare artifact name. */
  readonly specs: ReadonlyMap<string, ComponentSpec>;
  readonly gateways: ReadonlyMap<string, CredentialGateway>;
  /** Lets go of the directories opened for them. */
  close(): void;
}

/**
 * Binds every staged component.
 *
 * @throws {MurError} `E-CAP-009` when a state store cannot be made 0700, `E-IO-003` when a scope cannot be made.
 */
export function bindComponents(binding: ComponentBinding): SessionComponents {
  const specs = new Map<string, ComponentSpec>();
  const gateways = new Map<string, CredentialGateway>();
  const opened: RootedDir[] = [];
  const clients: HttpClient[] = [];
  try {
    for (const artifact of binding.artifacts ?? binding.staged.artifacts) {
      if (artifact.payload.kind !== "component") continue;
      const client = binding.newClient();
      clients.push(client);
      const gateway = bindGateway(artifact, binding, client.send);
      if (gateway !== null) gateways.set(artifact.entry.bareName, gateway);
      specs.set(
        artifact.entry.bareName,
        bindOne(artifact, artifact.payload.component, gateway, client.send, binding, opened),
      );
    }
  } catch (cause) {
    for (const directory of opened) directory.close();
    for (const client of clients) client.close();
    throw cause;
  }
  return {
    specs,
    gateways,
    close() {
      for (const directory of opened) directory.close();
      for (const client of clients) client.close();
    },
  };
}

function bindGateway(
  { entry }: StagedArtifact,
  binding: ComponentBinding,
  send: HttpSend,
): CredentialGateway | null {
  const gateway = binding.staged.gateways.get(entry.bareName);
  if (gateway === undefined) return null;
  return createCredentialGateway({
    artifact: entry.bareName,
    endpoint: gateway.endpoint,
    auth: gateway.auth,
    credential: gateway.credential,
    admission: gateway.metered ? binding.admission : null,
    send,
    onEvent: (event) => binding.onCredential(entry.bareName, gateway.metered, event),
  });
}

function bindOne(
  { entry }: StagedArtifact,
  compiled: CompiledComponent,
  gateway: CredentialGateway | null,
  send: HttpSend,
  binding: ComponentBinding,
  opened: RootedDir[],
): ComponentSpec {
  const { staged, directories } = binding;
  const declared = staged.gateways.get(entry.bareName);
  const preopens: Preopen[] = [];
  const { folder, surface } = artifactPreopen(entry);
  if (folder === ".") {
    preopens.push({ guestPath: ".", root: directories.workdir, writable: true });
  } else if (folder !== null) {
    const root = openScope(directories.workdir, folder, entry.bareName);
    opened.push(root);
    preopens.push({ guestPath: ".", root, writable: true });
  } else if (surface === "records") {
    const root = directories.records.openDir("hooks", { create: true, mode: 0o700, follow: false });
    opened.push(root);
    preopens.push({ guestPath: ".", root, writable: true });
  }
  const store = artifactStateStore(entry, staged.manifest.name);
  if (store !== null) {
    const root = openStateStore(staged.options.home.state, store, staged.trusted);
    opened.push(root);
    preopens.push({ guestPath: "state", root, writable: true });
  }
  const isAgent = staged.manifest.inference !== null;
  if (isAgent && entry.role === "tool") {
    preopens.push({ guestPath: "murmur-runtime", root: directories.runtime, writable: false });
  }
  const facts: ArtifactFacts = {
    configJson: entry.configJson,
    gatewayEndpoint: declared === undefined ? null : gatewayEndpointForGuest(declared.endpoint),
    isDriver: entry === driverEntry(staged.manifest),
  };
  const { limits } = staged.manifest.capabilities;
  return {
    name: entry.bareName,
    role: entry.role === "driver" || entry.role === "hook" ? entry.role : "tool",
    compiled,
    environment: entry.role === "hook"
      ? hookEnvironment(staged.manifest, facts)
      : componentEnvironment(staged.manifest, staged.env, binding.session, facts),
    preopens,
    http: createOutgoingHttp({
      rules: artifactNetworkRules(entry, staged.policy).rules,
      send,
      gateway: gateway?.http ?? null,
    }),
    limits: entry.role === "hook" && !limits.deadlineDeclared
      ? { ...limits, deadlineSeconds: HOOK_DEADLINE_SECONDS }
      : limits,
    sharesProcess: gateway === null && store === null && entry.configJson === null,
  };
}

/** Opens `<work folder>/<scope>`, making what is missing of it. */
function openScope(workdir: RootedDir, folder: string, artifact: string): RootedDir {
  try {
    let at = "";
    for (const part of folder.split("/")) {
      at = at === "" ? part : `${at}/${part}`;
      if (!workdir.exists(at)) workdir.mkdir(at);
    }
    return workdir.openDir(folder);
  } catch (cause) {
    throw new MurError("E-IO-003", `the scope '${folder}' of '${artifact}' cannot be opened: ${reasonOf(cause)}`, {
      hint: "make it a directory in the work folder, or change capabilities.filesystem.scope",
      cause,
    });
  }
}

/** Opens `~/.murmur/state/<store>/`, 0700 whatever it was (spec session 19). */
function openStateStore(stateRoot: string, store: string, trusted: StagedSession["trusted"]): RootedDir {
  const path = `${stateRoot}/${store}`;
  try {
    for (const directory of [stateRoot, path]) {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      Deno.chmodSync(directory, 0o700);
    }
    return RootedDir.open(path, { trusted: new TrustedFiles(trusted) });
  } catch (cause) {
    throw new MurError("E-CAP-009", `the state store '${store}' cannot be made owner-only: ${reasonOf(cause)}`, {
      hint: `fix ${stateRoot}, or HOME`,
      cause: ioError(`prepare ${path}`, cause),
    });
  }
}
