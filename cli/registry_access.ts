/**
 * What commands that reach registries and install sources share: the configuration, the HTTP client with its proxy, the
 * source chain (spec cli 5.3, 8).
 *
 * @module
 */
import { type Configuration, readConfiguration, type RegistrySource } from "../artifact/configuration.ts";
import { ARCHIVES_FOLDER, carriedSource } from "../artifact/registry/carried_source.ts";
import type { ArtifactSource } from "../artifact/registry/artifact_source.ts";
import { type GitHubAccess, githubApiBase } from "../artifact/registry/github_source.ts";
import { chainOrder, declaredSource, DEFAULT_SCOPE, sourcesOfScope } from "../artifact/registry/source_chain.ts";
import type { HttpClient } from "../base/http_client.ts";
import { embeddedFile } from "../base/program.ts";
import type { CliContext } from "./context.ts";

/** Access to everything an artifact may come from. */
export interface RegistryAccess {
  readonly configuration: Configuration;
  readonly client: HttpClient;
  readonly github: GitHubAccess;
  /** The declared sources in the order they are asked. */
  readonly declarations: readonly RegistrySource[];
  /** The sources a scope admits; `null` admits all. */
  sources(scope: string | null): readonly ArtifactSource[];
  /** Closes what was opened. */
  close(): void;
}

/**
 * Reads the configuration and makes the client. Nothing is sent yet.
 *
 * @throws {MurError} `E-IO-003` for a configuration file or `MUR_GITHUB_API_BASE` that cannot be used.
 */
export async function openRegistryAccess(context: CliContext): Promise<RegistryAccess> {
  const configuration = await readConfiguration({
    home: context.home(),
    cwd: context.cwd,
    notice: (line) => void context.stderr.line(line),
  });
  const apiBase = githubApiBase(context.env);
  const { createHttpClient } = await import("../base/http_client.ts");
  const proxy = configuration.httpProxy === null ? null : new URL(configuration.httpProxy);
  const client = createHttpClient({ proxy, bounds: context.bounds });
  const github = { send: client.send, apiBase, bounds: context.bounds };
  const carried = embeddedFile(ARCHIVES_FOLDER);
  const declarations = chainOrder(configuration.sources, configuration.registryDefault);
  return {
    configuration,
    client,
    github,
    declarations,
    sources: (scope) => [
      ...(carried !== null && (scope === null || scope === DEFAULT_SCOPE) ? [carriedSource(carried)] : []),
      ...sourcesOfScope(declarations, scope).map((each) => declaredSource(each, github, context.env)),
    ],
    close: () => client.close(),
  };
}
