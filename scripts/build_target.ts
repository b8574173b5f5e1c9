/**
 * The machines programs are built for, and where what depends on the machine comes from.
 *
 * @module
 */
import type { Compiler } from "../sandbox/confine_build.ts";

/** The Deno every program carries; the README starts the same. */
export const DENO_VERSION = "2.9.6";

/** A machine, named as releases and artifacts name it. */
export type TargetName = "linux-x86_64" | "linux-aarch64" | "darwin-x86_64" | "darwin-aarch64";

/** What is to be known of a machine. */
export interface BuildTarget {
  readonly name: TargetName;
  readonly os: "linux" | "darwin";
  readonly arch: "x86_64" | "aarch64";
  /** As `deno compile --target` takes it. */
  readonly triple: string;
  /** npm packages: Deno itself, esbuild's program, the componentizer's addon with the addon's file. */
  readonly denoPackage: string;
  readonly esbuildPackage: string;
  readonly addonPackage: string;
  readonly addonFile: string;
  /** Compilers of another machine's programs on Linux; the machine's own are tried there. */
  readonly crossCompiler: string | null;
  /** Name of the machine's processor among Debian's. */
  readonly debianArch: string;
}

const ADDON = "componentize-qjs-binding";

function target(os: "linux" | "darwin", arch: "x86_64" | "aarch64"): BuildTarget {
  const node = arch === "x86_64" ? "x64" : "arm64";
  const linux = os === "linux";
  return {
    name: `${os}-${arch}`,
    os,
    arch,
    triple: `${arch}-${linux ? "unknown-linux-gnu" : "apple-darwin"}`,
    denoPackage: `@deno/${os}-${node}${linux ? "-glibc" : ""}`,
    esbuildPackage: `@esbuild/${os}-${node}`,
    addonPackage: `@andreiltd/${ADDON}-${os}-${node}${linux ? "-gnu" : ""}`,
    addonFile: `componentize-qjs.${os}-${node}${linux ? "-gnu" : ""}.node`,
    crossCompiler: linux ? `${arch}-linux-gnu-gcc` : null,
    debianArch: arch === "x86_64" ? "amd64" : "arm64",
  };
}

/** Every machine a release may be for. */
export const TARGETS: readonly BuildTarget[] = [
  target("linux", "x86_64"),
  target("linux", "aarch64"),
  target("darwin", "x86_64"),
  target("darwin", "aarch64"),
];

/** The machine this runs on. */
export function hostTarget(): BuildTarget {
  const found = TARGETS.find(({ os, arch }) => os === Deno.build.os && arch === Deno.build.arch);
  if (found === undefined) throw new Error(`programs are not built for ${Deno.build.os} on ${Deno.build.arch}`);
  return found;
}

/** Debian's package of the library that compresses programs inside, for a machine's processor. */
export function compressionPackage({ arch, debianArch }: BuildTarget): string {
  return arch === Deno.build.arch ? "libzstd-dev" : `libzstd-dev:${debianArch}`;
}

/** What building for another processor takes. */
function crossHint(target: BuildTarget): string {
  const { arch, debianArch } = target;
  const packages = [
    `gcc-${arch.replace("_", "-")}-linux-gnu`,
    `libc6-dev-${debianArch}-cross`,
    compressionPackage(target),
  ];
  return `install the Debian packages ${packages.join(", ")}; the last one needs \`dpkg --add-architecture ` +
    `${debianArch}\` and \`apt-get update\` first`;
}

/**
 * Compilers for static programs of a machine, in the order they are tried; empty when this machine has no way to make them.
 *
 * @param libraries Static libraries to link with; with some, only a compiler whose C library they were built for serves.
 */
export function compilersFor(target: BuildTarget, libraries: readonly string[] = []): readonly Compiler[] {
  if (target.os !== Deno.build.os) return [];
  // Apple links no program statically.
  if (target.os === "darwin") return [{ command: ["cc", "-arch", target.arch === "aarch64" ? "arm64" : "x86_64"] }];
  const host = target.arch === Deno.build.arch;
  const gcc = host ? "cc" : target.crossCompiler!;
  const withGlibc: Compiler = { command: [gcc, "-static"], libraries, ...host ? {} : { hint: crossHint(target) } };
  return host && libraries.length === 0 ? [{ command: ["musl-gcc", "-static"] }, withGlibc] : [withGlibc];
}
