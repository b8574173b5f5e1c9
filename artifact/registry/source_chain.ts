/**
 * The install sources in their order: the first that has the artifact wins (spec cli 8.3).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import type { ArtifactRequest, ArtifactSource, FoundArtifact } from "./artifact_source.ts";
import { type GitHubAccess, GitHubReleases, githubSource, parseRepository, sourceToken } from "./github_source.ts";

/** One `registry.sources[]` entry of the configuration. */
export interface SourceDeclaration {
  readonly name: string;
  readonly type: string;
  readonly repo: string | null;
  readonly token: string | null;
}

/** Repository of the default artifacts, whose scope is `murmur` (spec cli 5.1). */
export const DEFAULT_REPOSITORY = "murmur-nexus/default-artifacts";

/** The declarations in the order they are asked: the default one first, the rest as configured. */
export function chainOrder(sources: readonly SourceDeclaration[], defaultName: string | null): SourceDeclaration[] {
  const first = sources.filter((source) => source.name === defaultName);
  return [...first, ...sources.filter((source) => source.name !== defaultName)];
}

/**
 * The declarations a scope admits: those whose repository owner, lower-cased, is the scope; `murmur` is the default
 * repository, `local` none; `null` admits all.
 */
export function sourcesOfScope(sources: readonly SourceDeclaration[], scope: string | null): SourceDeclaration[] {
  if (scope === null) return [...sources];
  if (scope === "local") return [];
  if (scope === "murmur") return sources.filter((source) => source.repo?.toLowerCase() === DEFAULT_REPOSITORY);
  return sources.filter((source) => source.repo?.split("/")[0]?.toLowerCase() === scope);
}

/** A declaration as a source. A bad entry stays in the chain as one that cannot answer. */
export function declaredSource(
  declaration: SourceDeclaration,
  access: GitHubAccess,
  env: { get(name: string): string | undefined },
): ArtifactSource {
  const repository = declaration.repo === null ? null : parseRepository(declaration.repo);
  const bad = declaration.type !== "github"
    ? `its type '${declaration.type}' is not known, only github is`
    : repository === null
    ? "its 'repo' is missing or not owner/repo"
    : null;
  if (bad !== null || repository === null) {
    const reason = bad ?? "it is not usable";
    return { label: declaration.name, fetch: () => Promise.resolve({ kind: "unanswered", reason }) };
  }
  return githubSource(new GitHubReleases(repository, sourceToken(declaration.token, env), access));
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
