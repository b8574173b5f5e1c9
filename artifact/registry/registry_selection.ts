/**
 * Which registry `mur install` and `mur publish` use (spec cli 8.2).
 *
 * @module
 */
import { ioError, MurError } from "../../base/errors.ts";
import { readYamlSource, scalarText, YamlProblem } from "../manifest/yaml_source.ts";
import { yamlError } from "../manifest/manifest_error.ts";
import { isMap, isScalar } from "yaml";
import { parseRegistryUrl } from "./remote_registry.ts";

/** The chosen registry. */
export type RegistryChoice = { readonly kind: "local" } | { readonly kind: "remote"; readonly url: string };

/** `registry:` of a `murmur.yaml`; blank values are absent. */
export interface RegistryBlock {
  readonly remoteUrl: string | null;
  readonly default: string | null;
}

/** Where `registry.default: remote` points. */
export const DEFAULT_REMOTE_URL = "http://localhost:7800";

/**
 * Chooses the registry: the flag, then `registry.remote_url`, then `registry.default`, then the global store.
 *
 * @throws {MurError} `E-IO-003` for another word under `registry.default` or a bad URL.
 */
export function selectRegistry(flag: string | undefined, block: RegistryBlock | null): RegistryChoice {
  if (flag !== undefined) {
    return flag.toLowerCase() === "local" ? { kind: "local" } : { kind: "remote", url: parseRegistryUrl(flag) };
  }
  const remoteUrl = block?.remoteUrl?.trim() ?? "";
  if (remoteUrl !== "") return { kind: "remote", url: parseRegistryUrl(remoteUrl) };
  switch (block?.default ?? null) {
    case null:
    case "local":
      return { kind: "local" };
    case "remote":
      return { kind: "remote", url: DEFAULT_REMOTE_URL };
    default:
      throw new MurError("E-IO-003", `murmur.yaml: registry.default is '${block?.default}'`, {
        hint: "write local or remote",
      });
  }
}

/**
 * Reads the `registry:` block of a manifest of either kind; `null` without the file.
 *
 * @throws {MurError} `E-MAN-002` for YAML that does not parse, `E-IO-*` for reading.
 */
export async function readRegistryBlock(path: string): Promise<RegistryBlock | null> {
  let bytes: Uint8Array;
  try {
    bytes = await Deno.readFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw ioError(`read ${path}`, error);
  }
  try {
    const source = readYamlSource(bytes, path);
    const block = isMap(source.root) ? source.entry(source.root, "registry")?.value ?? null : null;
    if (!isMap(block)) return { remoteUrl: null, default: null };
    const text = (key: string) => {
      const value = source.entry(block, key)?.value ?? null;
      return isScalar(value) && scalarText(value).trim() !== "" ? scalarText(value).trim() : null;
    };
    return { remoteUrl: text("remote_url"), default: text("default") };
  } catch (error) {
    if (error instanceof YamlProblem) throw yamlError(error.reason, error.place, error);
    throw error;
  }
}
