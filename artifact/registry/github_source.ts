/**
 * The releases of a GitHub repository as a source of artifacts (spec cli 8.3).
 *
 * @module
 */
import type { HttpSend } from "../../base/http_client.ts";
import { MurError } from "../../base/errors.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { ARCHIVE_SUFFIX } from "../package.ts";
import { PLATFORM_TAGS } from "../platform.ts";
import { sha256Hex } from "../sha256.ts";
import { hashMismatch } from "../store.ts";
import { MAX_ARCHIVE_BYTES } from "../zip_archive.ts";
import type { ArtifactRequest, ArtifactSource, FoundArtifact, SourceAnswer } from "./artifact_source.ts";
import { boundedRequest, type BoundedResponse, ExchangeFailure, isSendableToken } from "./bounded_request.ts";
import { USER_AGENT } from "./user_agent.ts";

/** Where releases are asked for when `MUR_GITHUB_API_BASE` names no other place. */
export const GITHUB_API_BASE = "https://api.github.com";

/** Largest answer that is not an archive, in bytes. */
const MAX_JSON_BYTES = 4 * 1024 * 1024;

/** A download may take this many times the bound of one request, as long as bytes keep coming. */
const DOWNLOAD_FACTOR = 20;

/** What a source needs of its surroundings. */
export interface GitHubAccess {
  readonly send: HttpSend;
  /** Base URL of the API, without a trailing `/`. */
  readonly apiBase: string;
  readonly bounds: Pick<TimeBounds, "registryRequest">;
}

/** A repository, split. */
export interface Repository {
  readonly owner: string;
  readonly name: string;
}

/** One file of a release. */
export interface ReleaseAsset {
  readonly id: number;
  readonly name: string;
  /** `sha256:<hex>` where the service tells it. */
  readonly digest: string | null;
}

export interface Release {
  readonly tag: string;
  readonly assets: readonly ReleaseAsset[];
}

/** The answer to one request, judged. */
type Asked<T> = { readonly kind: "answer"; readonly value: T } | Exclude<SourceAnswer, FoundArtifact>;

/**
 * The API base of this process: `MUR_GITHUB_API_BASE`, else {@linkcode GITHUB_API_BASE}.
 *
 * @throws {MurError} `E-IO-003` when the variable is no plain http or https URL.
 */
export function githubApiBase(env: { get(name: string): string | undefined }): string {
  const text = env.get("MUR_GITHUB_API_BASE");
  if (!text) return GITHUB_API_BASE;
  const url = URL.canParse(text) ? new URL(text) : null;
  const sound = url !== null && /^https?:$/.test(url.protocol) &&
    `${url.username}${url.password}${url.search}${url.hash}` === "";
  if (!sound) throw new MurError("E-IO-003", "MUR_GITHUB_API_BASE is not a plain http or https URL");
  return url.href.replace(/\/+$/, "");
}

/** Splits `owner/repo`; `null` when it is malformed. */
export function parseRepository(text: string): Repository | null {
  const match = /^([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))\/([A-Za-z0-9._-]{1,100})$/.exec(text);
  if (match === null || match[2] === "." || match[2] === "..") return null;
  return { owner: match[1]!, name: match[2]! };
}

/** Names tried in a release, best first, when the version is known. */
function exactAssetNames(name: string, version: string, platform: string | null): string[] {
  const tagged = platform === null ? [] : [`${name}-${version}-${platform}${ARCHIVE_SUFFIX}`];
  return [...tagged, `${name}-${version}${ARCHIVE_SUFFIX}`];
}

/**
 * The asset for a request among a release's, or `undefined` (spec cli 8.3).
 *
 * Without a version a wildcard stands for it. Since `a-*` also matches the archives of another artifact `a-b`, what looks
 * like a version goes first; an archive for another platform is never taken.
 */
export function chooseAsset(assets: readonly ReleaseAsset[], request: ArtifactRequest): ReleaseAsset | undefined {
  const { name, version, platform } = request;
  const named = (wanted: string) => assets.find((asset) => asset.name === wanted);
  if (version !== null) {
    for (const wanted of exactAssetNames(name, version, platform)) {
      const asset = named(wanted);
      if (asset !== undefined) return asset;
    }
    return undefined;
  }
  const like = (end: string): ReleaseAsset | undefined => {
    const matches = assets.filter((asset) => {
      const middle = asset.name.slice(name.length + 1, -end.length);
      return asset.name.startsWith(`${name}-`) && asset.name.endsWith(end) && middle !== "" &&
        !PLATFORM_TAGS.some((tag) => middle === tag || middle.endsWith(`-${tag}`));
    });
    return matches.find((asset) => /^v?[0-9]/.test(asset.name.slice(name.length + 1))) ?? matches[0];
  };
  const tagged = platform === null ? undefined : like(`-${platform}${ARCHIVE_SUFFIX}`);
  return tagged ?? named(`${name}${ARCHIVE_SUFFIX}`) ?? like(ARCHIVE_SUFFIX);
}

/** Whether an answer says that the asker has to wait (spec cli 8.3). */
export function isRateLimit(response: BoundedResponse): boolean {
  if (response.status === 429) return true;
  if (response.status !== 403) return false;
  return response.header("x-ratelimit-remaining") === "0" || response.header("retry-after") !== null ||
    /rate limit/i.test(new TextDecoder().decode(response.body.subarray(0, 64 * 1024)));
}

/** The releases of one repository. */
export class GitHubReleases {
  readonly label: string;
  readonly #repository: Repository;
  readonly #token: string | null;
  readonly #access: GitHubAccess;

  constructor(repository: Repository, token: string | null, access: GitHubAccess) {
    this.label = `github:${repository.owner}/${repository.name}`;
    this.#repository = repository;
    this.#token = token;
    this.#access = access;
  }

  /** The release of a tag, or the latest one (`null`). */
  async release(tag: string | null): Promise<Asked<Release>> {
    const path = tag === null ? "releases/latest" : `releases/tags/${encodeURIComponent(tag)}`;
    const { registryRequest } = this.#access.bounds;
    const asked = await this.#get(path, "application/vnd.github+json", MAX_JSON_BYTES, registryRequest);
    if (asked.kind === "not-found") return { ...asked, reason: tag === null ? "no release" : `no release '${tag}'` };
    if (asked.kind !== "answer") return asked;
    const release = parseRelease(asked.value);
    return release === null
      ? { kind: "unanswered", reason: "its answer is not a release in JSON" }
      : { kind: "answer", value: release };
  }

  /** The bytes of an asset, verified where the service tells their hash. @throws {MurError} `E-REG-002`. */
  async download(asset: ReleaseAsset): Promise<SourceAnswer> {
    const total = this.#access.bounds.registryRequest * DOWNLOAD_FACTOR;
    const path = `releases/assets/${asset.id}`;
    const asked = await this.#get(path, "application/octet-stream", MAX_ARCHIVE_BYTES, total);
    if (asked.kind === "not-found") return { ...asked, reason: `asset '${asset.name}' is gone` };
    if (asked.kind !== "answer") return asked;
    const bytes = asked.value;
    const sha256 = await sha256Hex(bytes);
    const reported = asset.digest?.startsWith("sha256:") ? asset.digest.slice("sha256:".length) : sha256;
    if (reported !== sha256) throw hashMismatch(`'${asset.name}' from ${this.label}`, reported, sha256);
    return { kind: "found", bytes, sha256 };
  }

  async #get(
    path: string,
    accept: string,
    maxBytes: number,
    totalTimeout: number,
  ): Promise<Asked<Uint8Array<ArrayBuffer>>> {
    const { send, apiBase, bounds } = this.#access;
    const { owner, name } = this.#repository;
    if (this.#token !== null && !isSendableToken(this.#token)) {
      return { kind: "unanswered", reason: "its token holds characters that cannot be sent" };
    }
    try {
      const response = await boundedRequest(send, {
        method: "GET",
        url: new URL(`${apiBase}/repos/${owner}/${name}/${path}`),
        headers: { "user-agent": USER_AGENT, accept },
        token: this.#token,
        maxBytes,
        idleTimeout: bounds.registryRequest,
        totalTimeout,
      });
      if (response.status === 200) return { kind: "answer", value: response.body };
      if (response.status === 404) return { kind: "not-found", reason: "HTTP 404" };
      if (isRateLimit(response)) return { kind: "unanswered", reason: `rate limit (HTTP ${response.status})` };
      const refused = response.status === 401 || response.status === 403;
      const why = !refused ? "" : this.#token === null ? ", without a token" : ", the token was refused";
      return { kind: "unanswered", reason: `HTTP ${response.status}${why}` };
    } catch (error) {
      if (error instanceof ExchangeFailure) return { kind: "unanswered", reason: error.message };
      throw error;
    }
  }
}

function parseRelease(body: Uint8Array): Release | null {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
  const { tag_name, assets } = (value ?? {}) as { tag_name?: unknown; assets?: unknown };
  if (typeof tag_name !== "string" || !Array.isArray(assets)) return null;
  const read: ReleaseAsset[] = [];
  for (const asset of assets) {
    const { id, name, digest } = (asset ?? {}) as Record<string, unknown>;
    if (!Number.isSafeInteger(id) || typeof name !== "string") return null;
    read.push({ id: id as number, name, digest: typeof digest === "string" ? digest : null });
  }
  return { tag: tag_name, assets: read };
}

/** The releases of a repository as one source of the chain. */
export function githubSource(releases: GitHubReleases): ArtifactSource {
  return {
    label: releases.label,
    async fetch(request) {
      const { name, version } = request;
      const tags = version === null
        ? [null]
        : version.startsWith("v")
        ? [version, null]
        : [version, `v${version}`, null];
      const missing: string[] = [];
      for (const tag of tags) {
        const asked = await releases.release(tag);
        if (asked.kind === "unanswered") return asked;
        if (asked.kind === "not-found") {
          missing.push(asked.reason);
          continue;
        }
        const asset = chooseAsset(asked.value.assets, request);
        if (asset !== undefined) return await releases.download(asset);
        const what = `no '${name}' for ${request.platform ?? "any platform"} in release '${asked.value.tag}'`;
        if (!missing.includes(what)) missing.push(what);
      }
      return { kind: "not-found", reason: missing.join("; ") };
    },
  };
}

/** The archives of the release a `github:` reference names. @throws {MurError} `E-REG-001`, `E-REG-006`, `E-REG-002`. */
export async function releaseArchives(
  releases: GitHubReleases,
  tag: string,
): Promise<readonly { readonly asset: string; readonly artifact: FoundArtifact }[]> {
  const failed = (answer: Exclude<SourceAnswer, FoundArtifact>) =>
    new MurError(
      answer.kind === "not-found" ? "E-REG-001" : "E-REG-006",
      `cannot install release '${tag}'\n  ${releases.label} — ${answer.reason}`,
      answer.kind === "not-found"
        ? { hint: "check owner, repository and tag; a private repository needs a token" }
        : { hint: "set GITHUB_TOKEN, or try again later" },
    );
  const asked = await releases.release(tag);
  if (asked.kind !== "answer") throw failed(asked);
  const assets = asked.value.assets.filter((asset) => asset.name.endsWith(ARCHIVE_SUFFIX));
  if (assets.length === 0) {
    throw failed({ kind: "not-found", reason: `release '${tag}' has no ${ARCHIVE_SUFFIX} asset` });
  }
  const archives = [];
  for (const asset of assets) {
    const answer = await releases.download(asset);
    if (answer.kind !== "found") throw failed(answer);
    archives.push({ asset: asset.name, artifact: answer });
  }
  return archives;
}
