/**
 * Names a provider takes for tools. Theirs are letters, digits, `_` and `-`; a capsule's may hold more (`g++`, `python3.12`).
 *
 * @module
 */

/** Longest name every provider takes. */
const LONGEST = 64;

/** Names in both directions, for one request. */
export interface ToolNames {
  /** The provider's name of a tool, also of one that is not offered any more. */
  wire(name: string): string;
  /** The capsule's name behind a provider's. */
  own(wire: string): string;
}

function spelled(name: string): string {
  const text = name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, LONGEST);
  return text === "" ? "_" : text;
}

/** Settles the names of the offered tools; no two of them share one. */
export function toolNames(offered: readonly string[]): ToolNames {
  const toWire = new Map<string, string>();
  const toOwn = new Map<string, string>();
  // Names that need no change keep theirs, whatever comes before them.
  const ordered = [...offered].sort((a, b) => Number(spelled(a) !== a) - Number(spelled(b) !== b));
  for (const name of ordered) {
    if (toWire.has(name)) continue;
    const base = spelled(name);
    let wire = base;
    for (let count = 2; toOwn.has(wire); count++) {
      const suffix = `_${count}`;
      wire = base.slice(0, LONGEST - suffix.length) + suffix;
    }
    toWire.set(name, wire);
    toOwn.set(wire, name);
  }
  return {
    wire: (name) => toWire.get(name) ?? spelled(name),
    own: (wire) => toOwn.get(wire) ?? wire,
  };
}
