/**
 * Makes the directory of a release that `install.sh` reads: the programs of every machine asked for, their manual pages,
 * the licences of what they carry, the installer with the key, `checksums.txt` and its signature.
 *
 * Usage: `deno task release [--target <os>-<arch>]… [--form …] [--key <file.pem>] [--output <dir>]`
 *
 * Default: this machine, into `dist/release/`. The key is an RSA private key (PKCS #8, PEM); without one, that of
 * `dist/release-key.pem` is used, made when it is not there. It never belongs in the repository or the release.
 *
 * @module
 */
import { parseArgs } from "node:util";
import zlib from "node:zlib";
import { sha256Hex } from "../artifact/sha256.ts";
import { murManual } from "../cli/manual.ts";
import { roostManual } from "./roost_manual.ts";
import {
  buildBinaries,
  buildFailure,
  type BuildOptions,
  builtLine,
  chosenForm,
  chosenTargets,
} from "./build_binaries.ts";
import { thirdPartyLicences } from "./licences.ts";
import { PROGRAMS } from "./program_files.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname).replace(/\/$/, "");
const DIST = `${ROOT}/dist`;

/** RSA with PKCS #1 padding: `openssl dgst -sha256 -verify` of every age takes it, and one release has one signature. */
const SIGNATURE = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };

const MANUALS: Readonly<Record<string, () => string>> = { mur: murManual, "mur-roost": roostManual };

/** A key pair to sign with. */
export interface ReleaseKey {
  readonly privateKey: CryptoKey;
  /** PEM. */
  readonly publicKey: string;
}

function pem(label: string, bytes: ArrayBuffer): string {
  const lines = new Uint8Array(bytes).toBase64().match(/.{1,64}/g)!;
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`].join("\n");
}

/** Makes a key pair; the private key as PEM. */
export async function makeReleaseKey(): Promise<string> {
  const { privateKey } = await crypto.subtle.generateKey(
    { ...SIGNATURE, modulusLength: 3072, publicExponent: Uint8Array.of(1, 0, 1) },
    true,
    ["sign", "verify"],
  );
  return pem("PRIVATE KEY", await crypto.subtle.exportKey("pkcs8", privateKey));
}

/** Reads a private key. @throws {Error} When it is none. */
export async function readReleaseKey(text: string): Promise<ReleaseKey> {
  const body = /-----BEGIN PRIVATE KEY-----([\s\S]+?)-----END PRIVATE KEY-----/.exec(text)?.[1];
  if (body === undefined) throw new Error("the signing key is no PKCS #8 private key in PEM");
  const der = Uint8Array.fromBase64(body.replace(/\s/g, ""));
  const privateKey = await crypto.subtle.importKey("pkcs8", der, SIGNATURE, true, ["sign"]);
  const { kty, n, e } = await crypto.subtle.exportKey("jwk", privateKey);
  const publicKey = await crypto.subtle.importKey("jwk", { kty: kty!, n: n!, e: e! }, SIGNATURE, true, ["verify"]);
  return { privateKey, publicKey: pem("PUBLIC KEY", await crypto.subtle.exportKey("spki", publicKey)) };
}

/** The installer with a key in it. @throws {Error} When there is no place for one. */
export function installerWithKey(script: string, publicKey: string): string {
  const [before, after, ...more] = script.split("release_key=''");
  if (after === undefined || more.length > 0) throw new Error("install.sh has no place for the key");
  return `${before}release_key='${publicKey}'${after}`;
}

/** `checksums.txt` over the files of a directory and its signature; replaces both. */
export async function signRelease(directory: string, key: ReleaseKey): Promise<void> {
  const lines: string[] = [];
  const names = (await Array.fromAsync(Deno.readDir(directory))).map(({ name }) => name)
    .filter((name) => !name.startsWith("checksums.txt")).sort();
  for (const name of names) lines.push(`${await sha256Hex(await Deno.readFile(`${directory}/${name}`))}  ${name}`);
  const checksums = new TextEncoder().encode(`${lines.join("\n")}\n`);
  await Deno.writeFile(`${directory}/checksums.txt`, checksums);
  const signature = await crypto.subtle.sign(SIGNATURE, key.privateKey, checksums);
  await Deno.writeFile(`${directory}/checksums.txt.sig`, new Uint8Array(signature));
}

/** Makes a release. */
export async function makeRelease(
  options: Omit<BuildOptions, "programs">,
  key: ReleaseKey,
  say: (line: string) => void = () => {},
): Promise<void> {
  const { output } = options;
  await Deno.remove(output, { recursive: true }).catch(() => {});
  await buildBinaries({ ...options, programs: PROGRAMS }, async (built) => {
    say(await builtLine(built));
    if (built.compressed) return;
    // Small over the wire all the same.
    const packed = zlib.gzipSync(await Deno.readFile(built.path), { level: 9 });
    await Deno.writeFile(`${built.path}.gz`, packed);
    await Deno.remove(built.path);
    say(`${built.name}.gz  ${(packed.length / 1e6).toFixed(1)} MB`);
  });
  for (const [name, manual] of Object.entries(MANUALS)) await Deno.writeTextFile(`${output}/${name}.1`, manual());
  await Deno.writeTextFile(`${output}/licences.txt`, await thirdPartyLicences(options.targets));
  const script = await Deno.readTextFile(`${ROOT}/install.sh`);
  await Deno.writeTextFile(`${output}/install.sh`, installerWithKey(script, key.publicKey), { mode: 0o755 });
  await signRelease(output, key);
}

/** The key a release is signed with: the one given, else the checkout's own. */
async function signingKey(path: string | undefined): Promise<ReleaseKey> {
  if (path !== undefined) return await readReleaseKey(await Deno.readTextFile(path));
  const own = `${DIST}/release-key.pem`;
  try {
    return await readReleaseKey(await Deno.readTextFile(own));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const made = await makeReleaseKey();
  await Deno.mkdir(DIST, { recursive: true });
  await Deno.writeTextFile(own, `${made}\n`, { mode: 0o600, createNew: true });
  console.log(`made the signing key ${own}; keep it, and keep it secret`);
  return await readReleaseKey(made);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      form: { type: "string", default: "auto" },
      target: { type: "string", multiple: true, default: [] },
      key: { type: "string" },
      output: { type: "string", default: `${DIST}/release` },
    },
  });
  const { form, target, output, key } = values;
  await makeRelease(
    { form: chosenForm(form), targets: chosenTargets(target), output },
    await signingKey(key),
    (line) => console.log(line),
  );
  console.log(`${output} is ready: MURMUR_INSTALL_FROM=${output} sh ${output}/install.sh`);
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(buildFailure(error));
    Deno.exit(1);
  }
}
