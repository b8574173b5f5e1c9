/**
 * `~/.murmur` and the directories below it (spec cli 2.1, session 4.1). Pure path arithmetic; nothing is created here.
 *
 * @module
 */
import { readVariable } from "./environment_variable.ts";
import { MurError } from "./errors.ts";

/** Paths under one home directory. */
export interface MurmurHome {
  /** `~/.murmur`. */
  readonly root: string;
  readonly config: string;
  readonly artifacts: string;
  readonly compiled: string;
  readonly running: string;
  readonly records: string;
  readonly sessions: string;
  readonly conversations: string;
  readonly state: string;
  readonly spend: string;
}

/** The paths for a home directory given as an absolute path. */
export function murmurHomeAt(home: string): MurmurHome {
  const root = `${home.replace(/\/+$/, "")}/.murmur`;
  return {
    root,
    config: `${root}/config.yaml`,
    artifacts: `${root}/artifacts`,
    compiled: `${root}/compiled`,
    running: `${root}/running`,
    records: `${root}/records`,
    sessions: `${root}/sessions`,
    conversations: `${root}/conversations`,
    state: `${root}/state`,
    spend: `${root}/spend`,
  };
}

/**
 * The home of this process: `$HOME`, else `$USERPROFILE`.
 *
 * @param cwd Against which a relative home is taken; without it a relative home is refused, as a record or state
 * directory needs (spec cli 2.1).
 * @throws {MurError} `E-IO-001` when neither is set, `E-IO-003` when it is relative and must not be, or not UTF-8.
 */
export function murmurHome(
  env: { get(name: string): string | undefined } = { get: readVariable },
  cwd?: string,
): MurmurHome {
  const home = env.get("HOME") || env.get("USERPROFILE");
  if (!home) {
    throw new MurError("E-IO-001", "the home directory cannot be determined: HOME is not set", {
      hint: "set HOME to the absolute path of a directory you own",
    });
  }
  if (home.startsWith("/")) return murmurHomeAt(home);
  if (cwd === undefined) {
    throw new MurError("E-IO-003", `HOME is '${home}', which is not an absolute path`, {
      hint: "set HOME to the absolute path of a directory you own",
    });
  }
  return murmurHomeAt(`${cwd.replace(/\/+$/, "")}/${home}`);
}

/** The records group of a directory: its absolute path without the leading `/`, below `records/` (spec session 4.3). */
export function recordsGroup(home: MurmurHome, directory: string): string {
  const trimmed = directory.replace(/^\/+/, "").replace(/\/+$/, "");
  return trimmed === "" ? home.records : `${home.records}/${trimmed}`;
}
