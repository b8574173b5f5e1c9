/**
 * Names of the door's methods as scopes of a credential (spec manifest 10).
 *
 * @module
 */

/** Every scope a credential may be given, `operator` holding all. */
export const DOOR_SCOPES = [
  "SendMessage",
  "SendStreamingMessage",
  "SubscribeToTask",
  "GetTask",
  "ListTasks",
  "CancelTask",
  "murmur.WatchStream",
  "murmur.StopSession",
  "resources/files",
] as const;
export type DoorScope = typeof DOOR_SCOPES[number];

const OLDER: ReadonlyMap<string, DoorScope> = new Map([
  ["stream/watch", "murmur.WatchStream"],
  ["session/stop", "murmur.StopSession"],
]);

/** The scope a written name stands for, or `null` when it is none. Method names of A2A 0.3 are none. */
export function parseDoorScope(name: string): DoorScope | null {
  return DOOR_SCOPES.find((scope) => scope === name) ?? OLDER.get(name) ?? null;
}
