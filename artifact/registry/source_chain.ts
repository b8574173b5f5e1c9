/**
 * The install sources in their order: the first that has the artifact wins (spec cli 8.3).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { type RegistrySource, sourceToken } from "../configuration.ts";
import type { ArtifactRequest, ArtifactSource, FoundArtifact } from "./artifact_source.ts";
import { type GitHubAccess, GitHubReleases, githubSource, parseRepository } from "./github_source.ts";

/** Repository of the default artifacts, whose scope is `murmur` (spec cli 5.1). */
export const DEFAULT_REPOSITORY = "murmur-nexus/default-artifacts";

/** Scope of the first-party artifacts. */
export const DEFAULT_SCOPE = "murmur";

/** The declarations in the order they are asked: the default one first, the rest as configured. */
export function chainOrder(sources: readonly RegistrySource[], defaultName: string | null): RegistrySource[] {
  const first = sources.filter((source) => source.name === defaultName);
  return [...first, ...sources.filter((source) => source.name !== defaultName)];
}

/**
 * The declarations a scope admits: those whose repository owner, lower-cased, is the scope; `murmur` is the default
 * repository, `local` none; `null` admits all.
 */
export function sourcesOfScope(sources: readonly RegistrySource[], scope: string | null): RegistrySource[] {
  if (scope === null) return [...sources];
  if (scope === "local") return [];
  if (scope === DEFAULT_SCOPE) return sources.filter((source) => source.repo?.toLowerCase() === DEFAULT_REPOSITORY);
  return sources.filter((source) => source.repo?.split("/")[0]?.toLowerCase() === scope);
}

/**
 * The token to use for a repository: that of the configured source with the same `repo`, else `GITHUB_TOKEN`
 * (spec cli 8.3).
 */
export function repositoryToken(
  repo: string,
  sources: readonly RegistrySource[],
  env: { get(name: string): string | undefined },
): string | null {
  const source = sources.find((each) => each.repo?.toLowerCase() === repo.toLowerCase());
  // A token is looked up as a variable's name first; the platform throws for what can be no name.
  const named = { get: (name: string) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? env.get(name) : undefined };
  return (source === undefined ? null : sourceToken(source, named)) || env.get("GITHUB_TOKEN") || null;
}

/** A declaration as a source. One without a usable `repo` stays in the chain as one that cannot answer. */
export function declaredSource(
  declaration: RegistrySource,
  access: GitHubAccess,
  env: { get(name: string): string | undefined },
): ArtifactSource {
  const { name, repo } = declaration;
  const repository = repo === null ? null : parseRepository(repo);
  if (repo === null || repository === null) {
    const reason = "its 'repo' is missing or not owner/repo";
    return { label: name, fetch: () => Promise.resolve({ kind: "unanswered", reason }) };
  }
  return githubSource(new GitHubReleases(repository, repositoryToken(repo, [declaration], env), access));
}

/** An artifact and the source it came from. */
export interface ChainResult {
  readonly artifact: FoundArtifact;
  readonly source: string;
}

/**
 * Asks the sources one after the other.
 *
 * @throws {MurError} `E-REG-001` when each said it has no such artifact or there is none to ask, `E-REG-006` when one did
 * not answer, and what a source throws.
 */
export async function fetchFromChain(
  sources: readonly ArtifactSource[],
  request: ArtifactRequest,
): Promise<ChainResult> {
  const wanted = request.version === null ? request.name : `${request.name}@${request.version}`;
  if (sources.length === 0) {
    throw new MurError("E-REG-001", `no source to ask for '${wanted}'`, {
      hint: "check name and scope, or add a source under registry.sources in the configuration",
    });
  }
  const lines: string[] = [];
  let unanswered = false;
  for (const source of sources) {
    const answer = await source.fetch(request);
    if (answer.kind === "found") return { artifact: answer, source: source.label };
    unanswered ||= answer.kind === "unanswered";
    lines.push(`  ${source.label} — ${answer.reason}`);
  }
  throw unanswered
    ? new MurError("E-REG-006", `no source gave '${wanted}', and not all of them answered\n${lines.join("\n")}`, {
      hint: "set GITHUB_TOKEN or the source's token, mend its entry, or try again later",
    })
    : new MurError("E-REG-001", `no source has '${wanted}'\n${lines.join("\n")}`, {
      hint: "check name and version, or add a source under registry.sources in the configuration",
    });
}
