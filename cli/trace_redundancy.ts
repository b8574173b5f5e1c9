/**
 * Reads of what was read already and not changed since (spec trace 12.3, Redundancy).
 *
 * @module
 */
import { isEvent, type TraceLine } from "../runtime/trace/trace_reader.ts";

/** A read that told nothing new. */
export interface RedundantRead {
  readonly turn: number | null;
  readonly tool: string;
  readonly resource: string;
  /** Turn of the read before; `null` for a plan step's. */
  readonly earlierTurn: number | null;
}

const PATH_KEYS = new Set(["path", "file", "file_path", "filepath", "filename"]);

function resourceOf(resourceId: unknown, input: unknown): string | null {
  if (typeof resourceId === "string" && resourceId !== "") return resourceId;
  if (typeof input !== "object" || input === null || Array.isArray(input)) return null;
  for (const [key, value] of Object.entries(input)) {
    if (typeof value === "string" && PATH_KEYS.has(key.toLowerCase())) return value;
  }
  return null;
}

/** Redundant reads among `tool_call` lines and successful `plan_step` lines, in file order. */
export function redundantReads(lines: readonly TraceLine[]): RedundantRead[] {
  const lastRead = new Map<string, number | null>();
  const redundant: RedundantRead[] = [];
  for (const line of lines) {
    const isCall = isEvent(line, "tool_call");
    if (!isCall && !(isEvent(line, "plan_step") && line.status === "success")) continue;
    const resource = resourceOf(line.resource_id, line.input);
    if (resource === null) continue;
    if (line.state_effect !== "read") {
      lastRead.delete(resource);
      continue;
    }
    const turn = isCall ? line.turn : null;
    const tool = isCall ? line.tool_name : String(line.step_id);
    const earlierTurn = lastRead.get(resource);
    if (earlierTurn !== undefined) redundant.push({ turn, tool, resource, earlierTurn });
    lastRead.set(resource, turn);
  }
  return redundant;
}
