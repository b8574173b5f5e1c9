/**
 * A remote registry over its HTTP API (spec cli 8.4).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import type { HttpSend } from "../../base/http_client.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { type ArtifactMetadata, metadataFromJson } from "../artifact_metadata.ts";
import { platformTag } from "../platform.ts";
import { isSha256Hex, sha256Hex } from "../sha256.ts";
import { hashMismatch } from "../store.ts";
import { MAX_ARCHIVE_BYTES } from "../zip_archive.ts";
import type { ArtifactRequest, ArtifactSource, SourceAnswer } from "./artifact_source.ts";
import { boundedRequest, type BoundedResponse, ExchangeFailure, isSendableToken } from "./bounded_request.ts";
import { USER_AGENT } from "./user_agent.ts";

/** Largest answer that is not an archive, in bytes. */
const MAX_JSON_BYTES = 16 * 1024 * 1024;

/** Longest error text of the server that is shown, in characters. */
const MAX_SHOWN_ERROR = 300;

export interface RemoteRegistryOptions {
  /** Base URL without a trailing `/`. */
  readonly url: string;
  /** `NEXUS_API_KEY`. */
  readonly apiKey: string | undefined;
  readonly send: HttpSend;
  readonly bounds: Pick<TimeBounds, "registryRequest">;
}

/** A remote registry. */
export class RemoteRegistry implements ArtifactSource {
  readonly label: string;
  readonly #options: RemoteRegistryOptions;
  readonly #apiKey: string;

  /** @throws {MurError} `E-IO-003` for a URL that is no registry's, or without a usable `NEXUS_API_KEY`. */
  constructor(options: RemoteRegistryOptions) {
    const url = parseRegistryUrl(options.url);
    this.label = url;
    this.#options = { ...options, url };
    if (!options.apiKey) {
      throw new MurError("E-IO-003", `the registry ${url} needs a key, and NEXUS_API_KEY is not set`, {
        hint: "export NEXUS_API_KEY, or use --registry local",
      });
    }
    if (!isSendableToken(options.apiKey)) {
      throw new MurError("E-IO-003", "NEXUS_API_KEY holds characters that cannot be sent in a header");
    }
    this.#apiKey = options.apiKey;
  }

  async fetch(request: ArtifactRequest): Promise<SourceAnswer> {
    const { name, version, platform } = request;
    if (version === null) return { kind: "not-found", reason: "it answers for exact versions only" };
    const query = platform === null ? "" : `?platform=${encodeURIComponent(platform)}`;
    const path = `/${encodeURIComponent(name)}/${encodeURIComponent(version)}${query}`;
    const response = await this.#request("GET", path, MAX_ARCHIVE_BYTES);
    if (response.status === 404) return { kind: "not-found", reason: "HTTP 404" };
    if (response.status !== 200) throw this.#unexpected(response);
    const reported = response.header("x-murmur-sha256");
    if (reported === null || !isSha256Hex(reported)) {
      throw new MurError(
        "E-IO-003",
        `the registry ${this.label} sent no hash in x-murmur-sha256 with ${name}@${version}`,
      );
    }
    const sha256 = await sha256Hex(response.body);
    if (sha256 !== reported) throw hashMismatch(`${name}@${version} from ${this.label}`, reported, sha256);
    return { kind: "found", bytes: response.body, sha256 };
  }

  /**
   * Publishes an archive.
   *
   * @throws {MurError} `E-REG-003`, `E-REG-004`, `E-REG-002` when the registry reports another hash, `E-IO-003`.
   */
  async publish(metadata: ArtifactMetadata, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const { name, version, kind, platforms } = metadata;
    const query = new URLSearchParams({ name, version, runtime: kind });
    for (const platform of platforms) query.append("platform", platformTag(platform));
    const response = await this.#request("POST", `?${query}`, MAX_JSON_BYTES, bytes);
    if (response.status === 201) {
      const { sha256 } = (this.#json(response) ?? {}) as { sha256?: unknown };
      const own = await sha256Hex(bytes);
      if (typeof sha256 === "string" && sha256 !== own) {
        throw hashMismatch(`${name}@${version} as ${this.label} stored it`, own, sha256);
      }
      return;
    }
    const text = this.#errorText(response);
    if (response.status === 409) {
      throw new MurError("E-REG-003", `${name}@${version} is already published at ${this.label}`, {
        hint: "a published version never changes; publish a new one",
      });
    }
    if (response.status === 422 && /^reserved artifact version '.*' is not allowed$/.test(text)) {
      throw new MurError("E-REG-004", text, { hint: "publish an exact version" });
    }
    throw this.#unexpected(response);
  }

  /** The metadata of everything the registry holds. @throws {MurError} `E-IO-003`. */
  async list(): Promise<readonly ArtifactMetadata[]> {
    const response = await this.#request("GET", "", MAX_JSON_BYTES);
    if (response.status !== 200) throw this.#unexpected(response);
    const list = this.#json(response);
    const artifacts = Array.isArray(list) ? list.map((item) => metadataFromJson(item)) : [null];
    return artifacts.map((artifact) => {
      if (artifact !== null) return artifact;
      throw new MurError("E-IO-003", `the registry ${this.label} answered with something that is no artifact list`);
    });
  }

  async #request(
    method: "GET" | "POST",
    path: string,
    maxBytes: number,
    body?: Uint8Array,
  ): Promise<BoundedResponse> {
    const { send, bounds, url } = this.#options;
    let response: BoundedResponse;
    try {
      response = await boundedRequest(send, {
        method,
        url: new URL(`${url}/v1/artifacts${path}`),
        headers: {
          "user-agent": USER_AGENT,
          accept: "*/*",
          ...(body === undefined ? {} : { "content-type": "application/octet-stream" }),
        },
        token: this.#apiKey,
        ...(body === undefined ? {} : { body }),
        maxBytes,
        idleTimeout: bounds.registryRequest,
        totalTimeout: bounds.registryRequest,
      });
    } catch (error) {
      if (!(error instanceof ExchangeFailure)) throw error;
      throw new MurError("E-IO-003", `the registry ${this.label} did not answer: ${error.message}`, { cause: error });
    }
    if (response.status === 401 || response.status === 403) {
      throw new MurError("E-IO-003", `the registry ${this.label} refused NEXUS_API_KEY (HTTP ${response.status})`, {
        hint: "export the key this registry was started with",
      });
    }
    return response;
  }

  #json(response: BoundedResponse): unknown {
    try {
      return JSON.parse(new TextDecoder().decode(response.body));
    } catch {
      return undefined;
    }
  }

  /** `{"error": "<text>"}` of a failure, made safe for a terminal. */
  #errorText(response: BoundedResponse): string {
    const { error } = (this.#json(response) ?? {}) as { error?: unknown };
    // deno-lint-ignore no-control-regex -- control characters are what is removed
    return typeof error === "string" ? error.replace(/[\x00-\x1f\x7f-\x9f]/g, " ").slice(0, MAX_SHOWN_ERROR) : "";
  }

  #unexpected(response: BoundedResponse): MurError {
    const text = this.#errorText(response);
    const detail = text === "" ? "" : `: ${text}`;
    return new MurError("E-IO-003", `the registry ${this.label} answered HTTP ${response.status}${detail}`);
  }
}

/** A registry's base URL: `http` or `https`, no user information, query or fragment; trailing `/` dropped. */
export function parseRegistryUrl(text: string): string {
  let url: URL | null = null;
  try {
    url = new URL(text);
  } catch {
    // Judged below.
  }
  const sound = url !== null && (url.protocol === "http:" || url.protocol === "https:") && url.username === "" &&
    url.password === "" && url.search === "" && url.hash === "";
  if (!sound || url === null) {
    // A URL with user information may hold a password; it is not repeated.
    const shown = url !== null && url.password !== "" ? "the registry URL" : `the registry URL '${text}'`;
    throw new MurError("E-IO-003", `${shown} is not a plain http or https URL`, {
      hint: "write for example https://registry.example.com, or local",
    });
  }
  return url.href.replace(/\/+$/, "");
}
