/**
 * The delegations of a session that may make some, put together from what it was staged with.
 *
 * @module
 */
import { formatWarning } from "../../base/errors.ts";
import { HOST_WARNINGS } from "../../sandbox/containment_warnings.ts";
import type { Variables } from "../session/launch_options.ts";
import type { StagedSession } from "../session/stage_session.ts";
import type { SessionDirectories } from "../session/session_directories.ts";
import type { DelegatingSession } from "./child_launch.ts";
import { delegatedSteps } from "./delegated_steps.ts";
import { launchChild } from "./launch_child.ts";
import type { Registration } from "./registration.ts";
import { deadlineSeconds, type DelegationServices, SessionDelegations } from "./session_delegations.ts";

/** What a session opens its delegations with. */
export interface OpenDelegationsOptions
  extends Pick<DelegationServices, "trace" | "progress" | "traceparentOf" | "report"> {
  readonly staged: StagedSession;
  readonly directories: SessionDirectories;
  /** `host:port` of the session's door. */
  readonly url: string;
  readonly registration: Registration;
  readonly diagnostics: (line: string) => void;
}

/** Opens them. */
export function openDelegations(options: OpenDelegationsOptions): SessionDelegations {
  const { staged, directories, url, registration, diagnostics, trace, progress, traceparentOf, report } = options;
  const { capabilities } = staged.manifest;
  const session: DelegatingSession = {
    sessionId: staged.sessionId,
    url,
    home: staged.options.home,
    recordsDir: directories.paths.records,
    scratchDir: directories.paths.scratch,
    workdir: directories.paths.workdir,
    cwd: staged.options.cwd,
    stores: staged.source.stores,
    env: staged.env,
    envAllow: capabilities.envAllow,
    snapshots: capabilities.workdirSnapshot,
    formationId: null,
    registration,
    bounds: staged.options.bounds,
    hostTold: new Set(
      staged.containment.launchWarnings.filter(({ code }) => HOST_WARNINGS.has(code)).map(formatWarning),
    ),
    diagnostics,
  };
  return new SessionDelegations({
    grant: { allow: capabilities.spawnAllow, snapshots: capabilities.workdirSnapshot },
    launch: (launch) => launchChild(session, launch),
    runtime: directories.runtime,
    deadlineSeconds: deadlineOf(staged, staged.options.env),
    bounds: staged.options.bounds,
    trace,
    progress,
    traceparentOf,
    report,
  });
}

/** A plan's `capsule` steps through the delegations of a session. */
export function openSteps(staged: StagedSession, delegations: SessionDelegations) {
  return delegatedSteps({
    delegations,
    allow: staged.manifest.capabilities.spawnAllow,
    stores: staged.source.stores,
    deadlineSeconds: deadlineOf(staged, staged.options.env),
    bounds: staged.options.bounds,
  });
}

/** The one bound on handed-off work; the process's own environment overrides the manifest. */
function deadlineOf({ lifecycle }: StagedSession, env: Variables): number {
  return deadlineSeconds(env.get("MURMUR_DELEGATION_TIMEOUT_SECS"), lifecycle.delegationDeadlineSecs);
}
