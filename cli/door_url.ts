/**
 * `--url <host:port>`: a door named by where it is, with the token of `MURMUR_DOOR_TOKEN` (spec cli 13).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { CliContext } from "./context.ts";
import { DoorClient, isTokenText, parseHostAndPort } from "../base/door_client.ts";

const TOKEN_VARIABLE = "MURMUR_DOOR_TOKEN";

/** A client of that door. @throws {MurError} `E-IO-003` for an address or a token that is none. */
export function doorAtUrl(url: string, context: Pick<CliContext, "env" | "bounds">): DoorClient {
  const place = parseHostAndPort(url.replace(/^http:\/\//i, "").replace(/\/$/, ""));
  if (place === null) {
    throw new MurError("E-IO-003", `'${url}' is not the address of a door`, {
      hint: "a door is named as host:port, e.g. localhost:41873; it speaks plain HTTP",
    });
  }
  // Blank counts as unset.
  const token = context.env.get(TOKEN_VARIABLE)?.trim() || null;
  if (token !== null && !isTokenText(token)) {
    throw new MurError("E-IO-003", `${TOKEN_VARIABLE} holds characters that no token has`, {
      hint: "mur token prints the tokens of a session on the machine it runs on",
    });
  }
  return new DoorClient({ ...place, token }, context.bounds);
}
