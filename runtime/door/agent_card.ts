/**
 * The agent card of a capsule's door (spec door 4): an A2A v1.0 `AgentCard` with nothing beyond the standard's keys.
 *
 * @module
 */

/** Identifiers of the extensions; readers find an extension by its URI. */
export const CARD_EXTENSION = {
  door: "https://docs.murmur.nexus/reference/agent-card/#murmur-door-v1",
  capsule: "https://docs.murmur.nexus/reference/agent-card/#murmur-capsule-v1",
  stream: "https://docs.murmur.nexus/reference/streaming-protocol/#murmur-stream-v1",
} as const;

/** JSON-RPC methods this version's doors serve, in the order of spec door 6. */
export const SERVED_METHODS: readonly string[] = [];

/** What the card tells of one running capsule. */
export interface CardFacts {
  readonly name: string;
  readonly version: string;
  readonly sessionId: string;
  readonly port: number;
  /** Served JSON-RPC methods in the order of spec door 6; empty when the door serves none. */
  readonly methods: readonly string[];
  /** Names of the installed artifacts the model can call. */
  readonly tools: readonly string[];
  readonly shell: boolean;
  readonly network: boolean;
  readonly planes: readonly ("files" | "peer_files")[];
  readonly peerTasks: boolean;
  /** Stream frame types served, in order; empty when none. */
  readonly frames: readonly string[];
}

/** The card of a public door as a JSON value. */
export function agentCard(facts: CardFacts): Record<string, unknown> {
  const takesTasks = facts.methods.includes("SendMessage");
  return {
    name: facts.name,
    description: `Murmur capsule ${facts.name} ${facts.version}`,
    version: facts.version,
    supportedInterfaces: [{
      url: `http://localhost:${facts.port}`,
      protocolBinding: "JSONRPC",
      protocolVersion: "1.0",
    }],
    capabilities: {
      streaming: facts.methods.includes("SendStreamingMessage"),
      pushNotifications: false,
      extendedAgentCard: false,
      extensions: [
        {
          uri: CARD_EXTENSION.door,
          description: "Methods this door serves.",
          required: false,
          params: { methods: [...facts.methods], peerTasks: facts.peerTasks },
        },
        {
          uri: CARD_EXTENSION.capsule,
          description: "The running session and its grants.",
          required: false,
          params: {
            sessionId: facts.sessionId,
            tools: [...facts.tools],
            shell: facts.shell,
            network: facts.network,
            planes: [...facts.planes],
          },
        },
        {
          uri: CARD_EXTENSION.stream,
          description: "Types of the stream frames this door sends.",
          required: false,
          params: { frames: [...facts.frames] },
        },
      ],
    },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ["text/plain", "application/json"],
    defaultOutputModes: ["text/plain", "application/json"],
    skills: takesTasks
      ? [{
        id: "task",
        name: "Run a task",
        description: "Takes a message, runs it as one task and reports how it ended.",
        tags: ["task"],
      }]
      : [],
  };
}
