/**
 * The command line of `mur-roost` (seed roost "Start the daemon", spec roost 2.1). Pure.
 *
 * @module
 */

/** What the operator set; `null` where the daemon chooses. */
export interface RoostArguments {
  readonly port: number;
  readonly registryPath: string | null;
  readonly spawnAllow: readonly string[];
  readonly maxDepth: number;
  readonly maxConcurrent: number;
  readonly maxLiveCapsules: number | null;
}

/** What the arguments ask for. */
export type ParsedArguments =
  | { readonly kind: "serve"; readonly arguments: RoostArguments }
  | { readonly kind: "version" }
  /** One sentence, without the program's name. */
  | { readonly kind: "refused"; readonly message: string };

/** Largest whole number that is taken as a bound. */
const MAX_BOUND = 0xffff_ffff;

function wholeNumber(text: string, largest: number): number | null {
  if (!/^\d{1,10}$/.test(text)) return null;
  const value = Number(text);
  return value <= largest ? value : null;
}

/** Reads the arguments. A flag that is given twice has its later value; `--spawn-allow` adds up. */
export function parseArguments(args: readonly string[]): ParsedArguments {
  const numbers: Record<string, number> = {};
  const spawnAllow: string[] = [];
  let registryPath: string | null = null;
  let version = false;
  // What a task runner puts between itself and the arguments.
  const given = args[0] === "--" ? args.slice(1) : args;
  for (let at = 0; at < given.length; at++) {
    const argument = given[at]!;
    if (argument === "--version") {
      version = true;
      continue;
    }
    const joined = argument.startsWith(`${SPAWN_ALLOW}=`);
    const flag = joined ? SPAWN_ALLOW : argument;
    if (!Object.hasOwn(VALUE_FLAGS, flag)) return { kind: "refused", message: `unknown argument: ${argument}` };
    const value = joined ? argument.slice(SPAWN_ALLOW.length + 1) : given[++at];
    if (value === undefined || value === "") {
      return { kind: "refused", message: `${flag} needs a value: ${VALUE_FLAGS[flag]!.takes}` };
    }
    const { largest, takes } = VALUE_FLAGS[flag]!;
    if (largest !== null) {
      const number = wholeNumber(value, largest);
      if (number === null) return { kind: "refused", message: `${flag} takes ${takes}, not '${value}'` };
      numbers[flag] = number;
    } else if (flag === SPAWN_ALLOW) {
      spawnAllow.push(value);
    } else {
      registryPath = value;
    }
  }
  if (version) return { kind: "version" };
  return {
    kind: "serve",
    arguments: {
      port: numbers["--port"] ?? 7700,
      registryPath,
      spawnAllow,
      maxDepth: numbers["--max-depth"] ?? 3,
      maxConcurrent: numbers["--max-concurrent"] ?? 4,
      maxLiveCapsules: numbers["--max-live-capsules"] ?? null,
    },
  };
}

const SPAWN_ALLOW = "--spawn-allow";

const BOUND = { largest: MAX_BOUND, takes: `a whole number up to ${MAX_BOUND}` };

/** A flag with a value. */
interface ValueFlag {
  /** `null` for one that is no number. */
  readonly largest: number | null;
  readonly takes: string;
  readonly placeholder: string;
  readonly brief: string;
}

const VALUE_FLAGS: Readonly<Record<string, ValueFlag>> = {
  "--port": {
    largest: 65_535,
    takes: "a whole number up to 65535",
    placeholder: "port",
    brief: "Port on the loopback address (default 7700)",
  },
  "--registry-path": {
    largest: null,
    takes: "a directory",
    placeholder: "dir",
    brief: "Store that capsules and what they spawn are looked up in (default ~/.murmur/artifacts)",
  },
  [SPAWN_ALLOW]: {
    largest: null,
    takes: "one <scope>/<name>",
    placeholder: "scope/name",
    brief: "A capsule that may register without an approval; given once for each name",
  },
  "--max-depth": {
    ...BOUND,
    placeholder: "n",
    brief: "Levels of delegation below a top-level capsule (default 3; 0 refuses every delegation)",
  },
  "--max-concurrent": {
    ...BOUND,
    placeholder: "n",
    brief: "Delegated children a session may have at the same time (default 4; 0 refuses every delegation)",
  },
  "--max-live-capsules": {
    ...BOUND,
    placeholder: "n",
    brief:
      "Capsules on this machine at the same time (default: eight times the cores, from 16 to 256; 0 refuses every delegation)",
  },
};

/** Every option as the manual page shows it. */
export const OPTIONS: readonly { readonly written: string; readonly brief: string }[] = [
  ...Object.entries(VALUE_FLAGS).map(([flag, { placeholder, brief }]) => ({
    written: `${flag} <${placeholder}>`,
    brief,
  })),
  { written: "--version", brief: "Print the version and exit" },
];

/** The machine ceiling of a host with so many cores (seed roost "Start the daemon"). */
export function derivedCeiling(cores: number): number {
  return Math.min(256, Math.max(16, cores * 8));
}
