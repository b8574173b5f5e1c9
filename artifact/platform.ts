/**
 * Platform tags of native payloads (spec cli 6.1).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";

/** Operating system and processor, as metadata stores them. */
export type Platform = readonly [os: string, arch: string];

/** The platforms this product knows, in the order `--all-platforms` takes them. */
export const PLATFORM_TAGS = ["linux-x86_64", "linux-aarch64", "darwin-x86_64", "darwin-aarch64"] as const;

/** `<os>-<arch>`. */
export function platformTag([os, arch]: Platform): string {
  return `${os}-${arch}`;
}

/** Tag of a host as `Deno.build` names it; `unknown` for one that is none of {@linkcode PLATFORM_TAGS}. */
export function hostPlatformTag(build: { readonly os: string; readonly arch: string } = Deno.build): string {
  const tag = `${build.os}-${build.arch}`;
  return (PLATFORM_TAGS as readonly string[]).includes(tag) ? tag : "unknown";
}

/**
 * Splits a `--platform` value at the first `-` into system and processor, both non-empty. Each becomes part of a file
 * name, so only letters, digits, `_` and `.` are allowed in the first and `-` too in the second.
 *
 * @throws {MurError} `E-IO-003`.
 */
export function parsePlatform(tag: string): Platform {
  const match = /^([A-Za-z0-9_]+)-([A-Za-z0-9_][A-Za-z0-9_.-]*)$/.exec(tag);
  if (match === null || tag.length > 40) {
    throw new MurError("E-IO-003", `invalid platform '${tag}'`, {
      hint: `write <os>-<arch>, for example ${PLATFORM_TAGS[0]}`,
    });
  }
  return [match[1]!, match[2]!];
}
