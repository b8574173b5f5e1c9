/**
 * The manual page of `mur-roost`, from the table its arguments are read by.
 *
 * @module
 */
import { VERSION } from "../base/version.ts";
import { manualPage } from "../cli/man_page.ts";
import { OPTIONS } from "../roost/arguments.ts";

/** The page as text. */
export function roostManual(): string {
  return manualPage({
    name: "mur-roost",
    version: VERSION,
    brief: "decide which Murmur capsule may spawn which",
    description: [
      "The referee of the capsules on this machine: a capsule that delegates asks it first, and it approves what both " +
      "capsules' manifests and its own bounds allow. It listens on the loopback address only, and runs until a signal " +
      "ends it.",
    ],
    commands: [{ name: "mur-roost", usage: "[options]", description: "", entries: OPTIONS }],
    exitStatus: [
      { written: "0", brief: "Ended by SIGTERM or SIGINT, or --version." },
      { written: "1", brief: "It did not start; standard error says why." },
    ],
    environment: [
      { written: "HOME", brief: "Where ~/.murmur lies, and the cache." },
      { written: "MURMUR_CACHE_DIR", brief: "Where the program unpacks itself, in place of ~/.cache/murmur." },
    ],
    files: [
      { written: "~/.murmur/running", brief: "Records of the running capsules, which it counts." },
      { written: "~/.murmur/artifacts", brief: "The store it looks capsules up in." },
    ],
    seeAlso: ["mur(1)"],
  });
}
