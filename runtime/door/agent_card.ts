/**
 * The agent card of a capsule's door (spec door 4): an A2A v1.0 `AgentCard` with nothing beyond the standard's keys, but for
 * what `network.a2a_compat` adds. Pure; the library is not needed for it.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { VERSION } from "../../base/version.ts";
import { CARD_EXTENSION } from "./card_extension.ts";
import { servedMethods } from "./door_methods.ts";
import { FRAME_TYPES } from "./stream_events.ts";

/** What the card tells of one running capsule. */
export interface CardFacts {
  readonly name: string;
  readonly version: string;
  readonly sessionId: string;
  readonly port: number;
  /** `lifecycle.task_acceptance` is not `none`. */
  readonly takesTasks: boolean;
  /** The door declares `network.authentication`. */
  readonly authenticated: boolean;
  readonly a2aCompat: readonly ("v0.3" | "rest")[];
  /** Names of the installed artifacts the model can call. */
  readonly tools: readonly string[];
  readonly shell: boolean;
  readonly network: boolean;
  readonly planes: readonly ("files" | "peer_files")[];
  readonly peerTasks: boolean;
}

function extension(uri: string, description: string, params: JsonObject): JsonObject {
  return { uri, description, required: false, params };
}

function extensions(facts: CardFacts, tellsCapsule: boolean): JsonObject[] {
  const frames = FRAME_TYPES.filter((type) => facts.takesTasks || type !== "error");
  return [
    extension(CARD_EXTENSION.door, "Methods this door serves.", {
      methods: servedMethods(facts),
      peerTasks: facts.peerTasks,
    }),
    ...(tellsCapsule
      ? [extension(CARD_EXTENSION.capsule, "The running session and its grants.", {
        sessionId: facts.sessionId,
        tools: facts.tools,
        shell: facts.shell,
        network: facts.network,
        planes: facts.planes,
        murVersion: VERSION,
      })]
      : []),
    extension(CARD_EXTENSION.stream, "Types of the stream frames this door sends.", { frames }),
  ];
}

/** Interfaces of the door, the first of them the standard's own. */
function interfaces({ port, a2aCompat }: CardFacts): JsonObject[] {
  const at = (protocolBinding: string, protocolVersion: string): JsonObject => ({
    url: `http://localhost:${port}`,
    protocolBinding,
    protocolVersion,
  });
  const [older, rest] = [a2aCompat.includes("v0.3"), a2aCompat.includes("rest")];
  return [
    at("JSONRPC", "1.0"),
    ...(rest ? [at("HTTP+JSON", "1.0")] : []),
    ...(older ? [at("JSONRPC", "0.3")] : []),
    ...(older && rest ? [at("HTTP+JSON", "0.3")] : []),
  ];
}

/** Members at the top of the card that a client of A2A 0.3 reads. */
function olderMembers({ port, a2aCompat, authenticated }: CardFacts): JsonObject {
  const url = `http://localhost:${port}`;
  return {
    url,
    protocolVersion: "0.3",
    preferredTransport: "JSONRPC",
    ...(a2aCompat.includes("rest") ? { additionalInterfaces: [{ url, transport: "HTTP+JSON" }] } : {}),
    supportsAuthenticatedExtendedCard: authenticated,
    ...(authenticated ? { security: [{ bearer: [] }] } : {}),
  };
}

/** How a caller of an authenticated door proves who it is. */
function bearerScheme(older: boolean): JsonObject {
  const description = "A token of this session, from `mur token`.";
  return {
    httpAuthSecurityScheme: { scheme: "Bearer", description },
    ...(older ? { type: "http", scheme: "bearer", description } : {}),
  };
}

function skill(authenticated: boolean): JsonObject {
  const alternative = (method: string): JsonObject => ({ schemes: { bearer: { list: [method] } } });
  return {
    id: "task",
    name: "Run a task",
    description: "Takes a message, runs it as one task and reports how it ended.",
    tags: ["task"],
    ...(authenticated
      ? { securityRequirements: [alternative("SendMessage"), alternative("SendStreamingMessage")] }
      : {}),
  };
}

/**
 * The card of a door: the one anybody may read, or the extended one of an authenticated door's callers, which alone tells
 * of the session and its grants there.
 */
export function agentCard(facts: CardFacts, kind: "public" | "extended"): JsonObject {
  const { authenticated, takesTasks, a2aCompat } = facts;
  const older = a2aCompat.includes("v0.3");
  return {
    name: facts.name,
    description: `Murmur capsule ${facts.name} ${facts.version}`,
    version: facts.version,
    supportedInterfaces: interfaces(facts),
    ...(older ? olderMembers(facts) : {}),
    capabilities: {
      streaming: takesTasks,
      pushNotifications: false,
      extendedAgentCard: authenticated,
      extensions: extensions(facts, !authenticated || kind === "extended"),
    },
    securitySchemes: authenticated ? { bearer: bearerScheme(older) } : {},
    securityRequirements: authenticated ? [{ schemes: { bearer: { list: [] } } }] : [],
    defaultInputModes: ["text/plain", "application/json"],
    defaultOutputModes: ["text/plain", "application/json"],
    skills: takesTasks ? [skill(authenticated)] : [],
  };
}
