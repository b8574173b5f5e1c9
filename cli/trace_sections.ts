/**
 * The sections of `mur trace show` (spec trace 12.3). Pure: lines of a trace in, text out.
 *
 * @module
 */
import { isTurn } from "../runtime/trace/trace_counters.ts";
import { linesOf, type Trace, type TraceRecord } from "../runtime/trace/trace_reader.ts";
import { average, cut, duration, exitCodes, mark, row, sectionRule, short, thousands } from "./trace_format.ts";
import { redundantReads } from "./trace_redundancy.ts";

/** Text that the sections cannot take from the trace alone. */
export interface SectionFacts {
  /** Path of a delegated child's trace, for its work folder and session. */
  childTrace(childWorkdir: string, childSessionId: string): string;
}

type Section = readonly [title: string, rows: readonly string[]];

/** The whole summary, ending with a newline. */
export function traceSummary(trace: Trace, facts: SectionFacts): string {
  const sections: Section[] = [
    ["Session", sessionRows(trace)],
    ["Hook failures", hookFailureRows(trace)],
    ["Retention", retentionRows(trace)],
    ["Context", contextRows(trace)],
    ["Turns", turnRows(trace)],
    ["Tokens", tokenRows(trace)],
    ["Wire", wireRows(trace)],
    ["Tool calls", toolCallRows(trace)],
    ["Redundant calls", redundantRows(trace)],
    ["Skill calls", skillCallRows(trace)],
    ["Pulled at runtime", pulledRows(trace)],
    ["Shell calls", shellRows(trace)],
    ["Compaction", compactionRows(trace)],
    ["Cancelled", canceledRows(trace)],
    ["Rejected", rejectedRows(trace)],
    ["Failed", failedRows(trace)],
    ["Reopens", reopenRows(trace)],
    ["Denied calls", deniedRows(trace)],
    ["Protected paths", protectedRows(trace)],
    ["Resource plane", resourceRows(trace)],
    ["Peer files", peerFileRows(trace)],
    ["Delegations", delegationRows(trace, facts)],
    ["Plan", planRows(trace)],
    ["A2A", a2aRows(trace)],
    ["Tasks", taskRows(trace)],
    ["Member calls", memberCallRows(trace)],
  ];
  return sections.filter(([, rows]) => rows.length > 0)
    .map(([title, rows]) => `${sectionRule(title)}\n${rows.join("\n")}\n`)
    .join("\n");
}

function lastEvent(trace: Trace): string {
  const last = trace.lines.at(-1);
  if (last === undefined) return "";
  const at = typeof last.timestamp === "number" ? ` at ${new Date(last.timestamp).toISOString()}` : "";
  return `  (last event: ${last.event_type}${at}${trace.torn ? ", then half a line" : ""})`;
}

function sessionDuration(trace: Trace): number {
  if (trace.end !== null) return trace.end.duration_ms;
  const times = trace.lines.flatMap(({ timestamp }) => typeof timestamp === "number" ? [timestamp] : []);
  return times.length === 0 ? 0 : times.at(-1)! - times[0]!;
}

function sessionRows(trace: Trace): string[] {
  const { start, end } = trace;
  const rows = [row("session:", start.session_id ?? "—")];
  if (start.spawned_by !== undefined) {
    rows.push(`Spawned by ${start.spawned_by} (delegation ${start.delegation_id ?? "—"})`);
  }
  if (start.formation_id !== undefined) rows.push(row("formation:", start.formation_id));
  rows.push(
    row("capsule:", `${start.capsule_name} v${start.capsule_version}`),
    row("model:", start.model === "" ? "—" : start.model),
    row("status:", end === null ? `ended without a session_end${lastEvent(trace)}` : end.exit_status),
    row("duration:", duration(sessionDuration(trace))),
  );
  if (start.capabilities !== undefined && start.capabilities.length > 0) {
    rows.push(row("capabilities:", start.capabilities.join(", ")));
  }
  if (start.tools_declared !== undefined && start.tools_declared.length > 0) {
    rows.push(row("tools:", start.tools_declared.join(", ")));
  }
  if (start.runtime_artifacts !== undefined && start.runtime_artifacts.length > 0) {
    const pins = start.runtime_artifacts.map(({ name, version, session }) =>
      `${name}@${version} (pulled by ${short(session)})`
    );
    rows.push(row("runtime pins:", pins.join(", ")));
  }
  if (start.containment_declared !== undefined) {
    rows.push(row("containment:", `${start.containment_declared} → ${start.containment_achieved ?? "—"}`));
  }
  if (start.workdir_exec !== undefined) rows.push(row("workdir exec:", start.workdir_exec ? "yes" : "no"));
  if (typeof start.userns_grant === "string") rows.push(row("userns:", start.userns_grant));
  if (start.system_prompt_source !== undefined) {
    const hash = start.system_prompt_sha256;
    rows.push(row("prompt:", `${start.system_prompt_source}${typeof hash === "string" ? `  ${short(hash)}` : ""}`));
  }
  return rows;
}

function hookFailureRows(trace: Trace): string[] {
  return linesOf(trace, "hook_dispatch_error").map((line) => `✗ ${line.hook_name}  ${line.event}  ${line.arm}`);
}

function retentionRows(trace: Trace): string[] {
  return linesOf(trace, "retention").flatMap((line) => {
    const dropped = line.messages_dropped === undefined ? "" : `, ${thousands(line.messages_dropped)} messages dropped`;
    const targets = line.targets ?? [];
    return [
      `${line.store}  ${line.reason}  removed ${thousands(line.removed)}${dropped}`,
      ...(targets.length === 0 ? [] : [`  ${targets.join(", ")}`]),
    ];
  });
}

function contextRows(trace: Trace): string[] {
  return linesOf(trace, "context_seed").flatMap((line) => {
    const ids = line.message_ids ?? [];
    return [
      `${line.hook_name}  ${line.outcome}  ${thousands(line.tokens)} tokens (proposed ${
        thousands(line.proposed_tokens ?? 0)
      }, budget ${thousands(line.budget_tokens ?? 0)})`,
      ...(line.reason === undefined ? [] : [`  reason:   ${line.reason}`]),
      ...(ids.length === 0 ? [] : [`  messages: ${ids.map(short).join(", ")}`]),
    ];
  });
}

function turnRows(trace: Trace): string[] {
  const turns = trace.end?.total_turns ?? trace.counts.turns;
  const rows = [row("count:", `${thousands(turns)}  (max: ${thousands(trace.start.max_turns)})`)];
  const continued = linesOf(trace, "task_continued");
  if (continued.length > 0) {
    const members = continued.reduce((sum, line) => sum + (line.member_calls?.length ?? 0), 0);
    const delegations = continued.reduce((sum, line) => sum + (line.delegations?.length ?? 0), 0);
    rows.push(
      row("continued:", `${continued.length}  (${members} member answer(s), ${delegations} delegation outcome(s))`),
    );
  }
  return rows;
}

function tokenRows(trace: Trace): string[] {
  const turns = trace.end?.total_turns ?? trace.counts.turns;
  const input = trace.end?.total_input_tokens ?? trace.counts.inputTokens;
  const output = trace.end?.total_output_tokens ?? trace.counts.outputTokens;
  const perTurn = (total: number) => `${thousands(total)}  (avg ${average(total, turns)}/turn)`;
  const rows = [
    row("input:", perTurn(input)),
    row("output:", perTurn(output)),
    row("total:", thousands(input + output)),
  ];
  const lines = linesOf(trace, "inference");
  const reported = ([
    ["in", "input_tokens_actual"],
    ["out", "output_tokens_actual"],
    ["cached", "cached_tokens"],
    ["cache write", "cache_write_tokens"],
    ["thinking", "thinking_tokens"],
  ] as const).flatMap(([name, key]) => {
    const counts = lines.flatMap((line) => line[key] === undefined ? [] : [line[key]]);
    return counts.length === 0 ? [] : [`${name} ${thousands(counts.reduce((sum, count) => sum + count, 0))}`];
  });
  if (reported.length > 0) rows.push(row("provider:", reported.join(", ")));
  return rows;
}

function wireRows(trace: Trace): string[] {
  const hashed = linesOf(trace, "inference").filter((line) => line.system_sha !== undefined);
  const rows = hashed.map((line) =>
    `turn ${line.turn}  system ${short(line.system_sha ?? "—")}  tools ${short(line.tools_sha ?? "—")}  response ${
      short(line.response_sha ?? "—")
    }  ${line.message_shas?.length ?? 0} message(s)`
  );
  for (const line of linesOf(trace, "tools_refreshed")) {
    const names = (sign: string, list: readonly string[]) =>
      list.length === 0 ? "" : `  ${sign}${list.join(`, ${sign}`)}`;
    rows.push(
      row("refreshed:", `turn ${line.turn}  ${line.trigger}${names("+", line.added)}${names("-", line.removed)}`),
    );
  }
  if (hashed.length > 0) rows.push(row("bodies:", `mur trace show --body system --turn ${hashed[0]!.turn}`));
  return rows;
}

function calls(
  lines: readonly { readonly status: string; readonly duration_ms: number }[],
): string[] {
  if (lines.length === 0) return [row("count:", "0")];
  const ok = lines.filter(({ status }) => status === "ok").length;
  const total = lines.reduce((sum, line) => sum + line.duration_ms, 0);
  const rate = (100 * ok / lines.length).toFixed(1);
  return [
    row("count:", `${thousands(lines.length)}  (${ok} ok, ${lines.length - ok} error)  success ${rate}%`),
    row("latency:", `avg ${duration(total / lines.length)}`),
  ];
}

function toolCallRows(trace: Trace): string[] {
  const made = linesOf(trace, "tool_call");
  const rows = calls(made);
  if (made.length === 0) return rows;
  const withCalls = new Set(made.map((line) => `${line.task_id ?? ""} ${line.turn}`));
  for (const line of linesOf(trace, "inference", "tool_call")) {
    if (line.event_type === "tool_call") {
      rows.push(
        `  turn ${line.turn}  ${line.tool_name} ${duration(line.duration_ms)} ${mark(line.status)}  ${
          cut(JSON.stringify(line.input ?? {}), 120)
        }`,
      );
    } else if (isTurn(line) && !withCalls.has(`${line.task_id ?? ""} ${line.turn}`)) {
      rows.push(`  turn ${line.turn}  ${line.decision}`);
    }
  }
  return rows;
}

function redundantRows(trace: Trace): string[] {
  const reads = redundantReads(trace.lines);
  const turn = (number: number | null) => number === null ? "a plan" : `turn ${number}`;
  return [
    row("count:", thousands(reads.length)),
    ...reads.map((read) =>
      `  ${turn(read.turn)}  ${read.tool}  ${read.resource}  (re-reads ${turn(read.earlierTurn)})`
    ),
  ];
}

function skillCallRows(trace: Trace): string[] {
  const made = linesOf(trace, "skill_call");
  return [
    ...calls(made),
    ...made.map((line) =>
      `  turn ${line.turn}  ${line.skill_name} ${duration(line.duration_ms)} ${mark(line.status)}${
        line.trust === "untrusted" ? " runtime/untrusted" : ""
      }`
    ),
  ];
}

function pulledRows(trace: Trace): string[] {
  return linesOf(trace, "artifact_pulled").map((line) =>
    `${line.name}@${line.version}  ${line.runtime}  ${line.origin}/${line.trust}`
  );
}

function shellRows(trace: Trace): string[] {
  const ran = linesOf(trace, "shell");
  const detached = linesOf(trace, "shell_detached");
  const rows = [row("count:", thousands(ran.length + detached.length))];
  if (ran.length > 0) {
    rows.push(
      row("exit codes:", exitCodes(ran.map((line) => line.exit_code))),
      row("latency:", `avg ${duration(ran.reduce((sum, line) => sum + line.duration_ms, 0) / ran.length)}`),
    );
  }
  if (detached.length > 0) {
    const ended = new Map(
      linesOf(trace, "shell_completed", "shell_abandoned", "shell_lost").map((line) => [line.work_id, line]),
    );
    for (const line of detached) {
      rows.push(`  ${line.binary}  ${short(line.work_id)}  ${detachedEnd(ended.get(line.work_id))}`);
    }
  }
  return rows;
}

function detachedEnd(
  line: TraceRecord<"shell_completed" | "shell_abandoned" | "shell_lost"> | undefined,
): string {
  switch (line?.event_type) {
    case "shell_completed":
      return `exit ${line.exit_code} ${mark(line.status)}  ${duration(line.duration_ms)}  ${line.output_path ?? "—"}`;
    case "shell_abandoned":
      return `still running after ${duration(line.running_ms)}  result lost`;
    case "shell_lost":
      return "no result";
    case undefined:
      return "detached, no end recorded";
  }
}

function compactionRows(trace: Trace): string[] {
  const fired = linesOf(trace, "compaction").map((line) =>
    row(
      "fired:",
      `yes  at turn ${line.turn}  (${thousands(line.tokens_before)} → ${thousands(line.tokens_after)} tokens)`,
    )
  );
  const declined = linesOf(trace, "compaction_declined").map((line) =>
    row("declined:", `at turn ${line.turn}  (${thousands(line.tokens)} tokens)  ${line.reason}`)
  );
  return [...(fired.length === 0 ? [row("fired:", "no")] : fired), ...declined];
}

function canceledRows(trace: Trace): string[] {
  return linesOf(trace, "task_canceled").flatMap((line) => {
    const commands = line.detached_work_ids ?? [];
    const delegations = line.delegation_ids ?? [];
    return [
      `task_canceled  at ${line.phase}  ${short(line.task_id)}`,
      ...(commands.length === 0 ? [] : [`  still running: ${commands.map(short).join(", ")}`]),
      ...(delegations.length === 0 ? [] : [`  ended with it: ${delegations.map(short).join(", ")}`]),
    ];
  });
}

function rejectedRows(trace: Trace): string[] {
  return linesOf(trace, "task_rejected").map((line) =>
    `task_rejected  ${short(line.task_id)}  ${line.cause}  source ${line.source}`
  );
}

function failedRows(trace: Trace): string[] {
  return linesOf(trace, "task_failed").flatMap((line) => [
    `task_failed  ${line.cause}  ${short(line.task_id)}${line.turn === undefined ? "" : `  at turn ${line.turn}`}`,
    ...line.reason.split("\n").map((text, index) => index === 0 ? row("reason:", text) : row("", text)),
  ]);
}

function reopenRows(trace: Trace): string[] {
  return linesOf(trace, "task_reopened").map((line) =>
    `reopen ${line.reopen_number}  by ${line.hook_name}  ${line.attempt_context ?? "—"}, ${
      line.turns_remaining ?? "—"
    } turns left  “${cut(line.reason, 80)}”`
  );
}

function deniedRows(trace: Trace): string[] {
  return linesOf(trace, "call_denied").map((line) =>
    `turn ${line.turn}  ${line.event}  ${line.target}  by ${line.hook_name}  “${cut(line.reason, 80)}”`
  );
}

function protectedRows(trace: Trace): string[] {
  const lines = linesOf(trace, "protected_path_denied");
  if (lines.length === 0) return [];
  return [
    `protected-path refusals: ${thousands(lines.length)}`,
    ...lines.map((line) =>
      `turn ${line.turn}  ${line.call}  ${line.target}  path ${line.path}  rule ${line.rule}  (${line.signal})`
    ),
  ];
}

/** `3 ok, 1 not_found`, the `ok` ones first, then by name. */
function outcomes(lines: readonly { readonly outcome: string }[]): string {
  const counts = [...Map.groupBy(lines, ({ outcome }) => outcome)].map(([name, group]) =>
    [name, group.length] as const
  );
  counts.sort(([a], [b]) => (a === "ok" ? -1 : b === "ok" ? 1 : a < b ? -1 : 1));
  return counts.map(([name, count]) => `${thousands(count)} ${name}`).join(", ");
}

function outcomeRow(label: string, lines: readonly { readonly outcome: string }[]): string[] {
  return lines.length === 0 ? [] : [row(label, outcomes(lines))];
}

function resourceRows(trace: Trace): string[] {
  return [
    ...outcomeRow("list:", linesOf(trace, "resource_list")),
    ...outcomeRow("read:", linesOf(trace, "resource_read")),
  ];
}

function peerFileRows(trace: Trace): string[] {
  return [
    ...outcomeRow("minted:", linesOf(trace, "peer_handle_mint")),
    ...outcomeRow("redeemed:", linesOf(trace, "peer_handle_redeem")),
    ...outcomeRow("fetched:", linesOf(trace, "peer_file_fetch")),
  ];
}

function delegationRows(trace: Trace, facts: SectionFacts): string[] {
  const started = new Map(linesOf(trace, "delegation_start").map((line) => [line.delegation_id, line]));
  const ended = linesOf(trace, "delegation");
  const endedIds = new Set(ended.map((line) => line.delegation_id));
  const inFlight = [...started.values()].filter((line) => !endedIds.has(line.delegation_id))
    .map((line) => ({ ...line, outcome: "in flight", reason: null }));
  return [...ended, ...inFlight].flatMap((line) => {
    const id = line.delegation_id ?? null;
    const child = line.child_session_id ?? null;
    const workdir = id === null ? undefined : started.get(id)?.child_workdir;
    return [
      `${id === null ? "(none)" : short(id)}  ${line.capsule}@${line.version}  ${
        child === null ? "(no child)" : short(child)
      }  ${line.outcome}`,
      // A crashed child's last lines may be in it.
      ...(typeof line.reason === "string" ? [`  ${line.reason.replaceAll("\n", "\n    ")}`] : []),
      ...(child === null || workdir === undefined ? [] : [`  child trace: ${facts.childTrace(workdir, child)}`]),
    ];
  });
}

function planRows(trace: Trace): string[] {
  const starts = linesOf(trace, "plan_start");
  const steps = linesOf(trace, "plan_step");
  const ends = linesOf(trace, "plan_end");
  const childrenOf = <L extends { readonly plan_id: string; readonly parent_id?: string | null }>(
    lines: readonly L[],
    start: TraceRecord<"plan_start">,
  ) => lines.filter((line) => line.plan_id === start.plan_id && line.parent_id === start.event_id);
  const rows = starts.flatMap((start) => {
    const end = childrenOf(ends, start)[0];
    const ran = new Map(childrenOf(steps, start).map((step) => [step.step_id, step]));
    return [
      planHead(start.plan_id, end),
      ...start.steps.map((step) => {
        const done = ran.get(step.step_id);
        return `  ${step.step_id}  ${step.kind}  ${
          done === undefined ? "not run" : `${done.status}  ${duration(done.duration_ms)}`
        }`;
      }),
    ];
  });
  const known = new Set(starts.map((start) => start.event_id));
  return [...rows, ...ends.filter((end) => !known.has(end.parent_id ?? "")).map((end) => planHead(end.plan_id, end))];
}

function planHead(planId: string, end: TraceRecord<"plan_end"> | undefined): string {
  const name = planId === "" ? "(unreadable)" : planId;
  if (end === undefined) return `${name}  no end recorded`;
  const failed = end.failed_step === undefined ? "" : `  ended at ${end.failed_step}`;
  return `${name}  ${end.outcome}  ${duration(end.duration_ms ?? 0)}  ${end.steps_succeeded ?? 0} ok, ${
    end.steps_failed ?? 0
  } failed, ${end.steps_skipped ?? 0} skipped of ${end.steps_total ?? 0}${failed}`;
}

function a2aRows(trace: Trace): string[] {
  const received = linesOf(trace, "a2a_task_received").length;
  const sent = linesOf(trace, "a2a_send");
  if (received === 0 && sent.length === 0) return [];
  return [
    row("received:", `${thousands(received)} task(s)`),
    row("sent:", `${thousands(sent.length)} message(s)`),
    ...[...new Set(sent.map((line) => line.peer_url))].map((url) => `  → ${url}`),
  ];
}

function taskRows(trace: Trace): string[] {
  const ended = linesOf(trace, "task_end");
  if (ended.length < 2) return [];
  return ended.map((line, index) =>
    `task ${index + 1}  ${line.task_id.slice(0, 12)}  turns: ${line.turns}  in: ${thousands(line.input_tokens)}  out: ${
      thousands(line.output_tokens)
    }  ${line.exit_status}  ${duration(line.duration_ms)}${
      (line.reopen_count ?? 0) > 0 ? `  reopens: ${line.reopen_count}` : ""
    }`
  );
}

function memberCallRows(trace: Trace): string[] {
  const starts = linesOf(trace, "member_call_start");
  const ended = linesOf(trace, "member_call");
  const endedIds = new Set(ended.map((line) => line.call_id));
  const task = (id: string | undefined) => id === undefined ? "(not started)" : short(id);
  return [
    ...ended.map((line) =>
      `${short(line.call_id)}  ${line.member}  ${task(line.member_task_id)}  ${line.status} ${
        duration(line.duration_ms)
      }${line.delivered ? "" : "  not delivered"}`
    ),
    ...starts.filter((line) => !endedIds.has(line.call_id)).map((line) =>
      `${short(line.call_id)}  ${line.member}  ${task(line.member_task_id)}  outstanding`
    ),
  ];
}
