/**
 * A door in this process, over the real listener, registry and log, with a test in the place of the agent.
 *
 * @module
 */
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../../base/time_bounds.ts";
import type { PlaneRecord, ServedPlanes } from "../../runtime/door/door_session.ts";
import { agentCard } from "../../runtime/door/agent_card.ts";
import type { DoorSession } from "../../runtime/door/door_session.ts";
import { DoorTokens } from "../../runtime/door/door_token.ts";
import { type Listener, openListener } from "../../runtime/door/listener.ts";
import { FrameLog } from "../../runtime/session/frame_log.ts";
import { type ResidueItem, type TaskEnd, TaskRegistry, type TaskRequest } from "../../runtime/session/task_registry.ts";
import { newId } from "../../base/ids.ts";
import { type DoorCalls, doorCalls } from "./door_session.ts";

/** What is different from a public door with a queue of four. */
export interface LocalDoorOptions {
  readonly acceptance?: "none" | "single" | "queue";
  readonly queueDepth?: number;
  /** Declared credentials; given: the door is authenticated. */
  readonly credentials?: Readonly<Record<string, readonly string[]>>;
  readonly a2aCompat?: readonly ("v0.3" | "rest")[];
  readonly acceptsPeers?: boolean;
  readonly hosts?: readonly string[];
  readonly origins?: readonly string[];
  readonly bounds?: Partial<TimeBounds>;
  readonly residue?: () => readonly ResidueItem[];
  readonly receiveCompletion?: DoorSession["receiveCompletion"];
  readonly planes?: ServedPlanes;
  readonly recordPlane?: (record: PlaneRecord) => void;
  /** The session is not ready yet. */
  readonly waits?: boolean;
}

/** An open door. */
export interface LocalDoor extends DoorCalls, AsyncDisposable {
  readonly sessionId: string;
  readonly tasks: TaskRegistry;
  readonly frames: FrameLog;
  readonly listener: Listener;
  readonly tokens: DoorTokens | null;
  /** Begins the next task. */
  begin(): Promise<TaskRequest>;
  finish(task: Pick<TaskRequest, "id">, end?: Partial<TaskEnd>): void;
}

const NEVER = new AbortController().signal;

/** Opens a door. */
export function openLocalDoor(options: LocalDoorOptions = {}): LocalDoor {
  const { acceptance = "queue", queueDepth = 4, credentials, a2aCompat = [], acceptsPeers = false } = options;
  const frames = new FrameLog();
  const tasks = new TaskRegistry({
    acceptance,
    queueDepth,
    frames,
    records: { canceledQueued: () => {}, rejected: () => {} },
    contextOf: (contextId) => ({ contextId: contextId ?? newId("ctx"), loadHistory: false }),
    residue: options.residue ?? (() => []),
  });
  const sessionId = newId("ses");
  const tokens = credentials === undefined ? null : new DoorTokens(new Map(Object.entries(credentials)));
  const takesTasks = acceptance !== "none";
  const authenticated = tokens !== null;
  const card = (kind: "public" | "extended") =>
    agentCard({
      name: "probe",
      version: "0.1.0",
      sessionId,
      port: listener.port,
      takesTasks,
      authenticated,
      a2aCompat,
      tools: ["bash"],
      shell: true,
      network: false,
      planes: [],
      peerTasks: acceptsPeers,
    }, kind);
  const listener = openListener({
    hostname: "127.0.0.1",
    port: null,
    hosts: options.hosts ?? [],
    origins: options.origins ?? [],
    session: {
      sessionId,
      capsule: "probe",
      takesTasks,
      authenticated,
      tasks,
      frames,
      conversation: "stateless",
      a2aCompat,
      acceptsPeers,
      receiveCompletion: options.receiveCompletion ?? null,
      planes: options.planes ?? null,
      containment: "advisory",
      recordPlane: options.recordPlane ?? (() => {}),
      publicCard: () => card("public"),
      extendedCard: () => card("extended"),
    },
    tokens,
    bounds: { ...DEFAULT_TIME_BOUNDS, ...options.bounds },
    report: () => {},
  });
  if (options.waits !== true) listener.serve();
  return {
    ...doorCalls(listener.port),
    sessionId,
    tasks,
    frames,
    listener,
    tokens,
    begin: async () => (await tasks.next(null, NEVER))!.request,
    finish: ({ id }, end = {}) =>
      tasks.finish(id, { state: "completed", message: "session ended", response: "42", ...end }),
    [Symbol.asyncDispose]: () => listener.close(50),
  };
}
