/**
 * `mur token`: the tokens that open a running capsule's door (spec cli 13.6).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { CliContext } from "./context.ts";
import { findRunningSession } from "./running_session.ts";

/** Runs the command. @throws {MurError} `E-RUN-022`, `E-RUN-028`, `E-IO-003`. */
export async function token(context: CliContext, address: string, credential?: string): Promise<number> {
  const { id, record } = await findRunningSession(address, context);
  if (record.door_token === undefined) {
    throw new MurError("E-IO-003", `the door of ${id} is public and has no tokens`, {
      hint: "network.authentication in murmur.yaml gives a door tokens",
    });
  }
  const tokens: [string, string][] = [["operator", record.door_token]];
  for (const [name, value] of Object.entries(record.credentials ?? {})) tokens.push([name, value]);
  if (credential === undefined) {
    for (const [name, value] of tokens) context.stdout.line(`${name} ${value}`);
    return 0;
  }
  const found = tokens.find(([name]) => name === credential);
  if (found === undefined) {
    throw new MurError("E-IO-003", `the door of ${id} has no credential '${credential}'`, {
      hint: `it has ${tokens.map(([name]) => name).join(", ")}`,
    });
  }
  context.stdout.line(found[1]);
  return 0;
}
