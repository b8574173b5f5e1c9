/**
 * The product's version, in one place: `--version`, the agent card, the user agent and `mur_version` compare with it.
 *
 * @module
 */

/** Version of this build. Equal to `version` in `deno.json`, which a test checks. */
export const VERSION = "0.1.0";
