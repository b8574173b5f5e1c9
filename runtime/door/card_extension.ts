/**
 * The extensions of an agent card, for who writes one and who reads one: whoever only reads cards loads nothing else of the
 * door.
 *
 * @module
 */

/** Identifiers of the extensions; readers find an extension by its URI. */
export const CARD_EXTENSION = {
  door: "https://docs.murmur.nexus/reference/agent-card/#murmur-door-v1",
  capsule: "https://docs.murmur.nexus/reference/agent-card/#murmur-capsule-v1",
  stream: "https://docs.murmur.nexus/reference/streaming-protocol/#murmur-stream-v1",
} as const;
