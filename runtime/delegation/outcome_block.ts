/**
 * What the delegating task is told of one outcome: a line of the runtime's own, and the sub-capsule's answer in its fence
 * (roost seed "How the outcome arrives", spec roost 14.4). Pure.
 *
 * @module
 */
import { fence, fenceSource } from "../agent/untrusted_fence.ts";
import type { OutcomeStatus } from "./delegation_state.ts";

/** Most bytes of an answer that enter the conversation. */
export const MAX_ANSWER_BYTES = 65_536;

/** What a sub-capsule left as its answer. */
export type Answer =
  | { readonly kind: "whole"; readonly text: string }
  | {
    readonly kind: "cut";
    /** The first of it, ending on a character boundary. */
    readonly text: string;
    readonly keptBytes: number;
    readonly totalBytes: number;
    /** Why the whole of it is nowhere; `null` when it is kept. */
    readonly notKept: string | null;
  }
  | { readonly kind: "empty" }
  | { readonly kind: "missing" }
  | { readonly kind: "unreadable"; readonly reason: string };

/** An outcome, for its block. */
export interface OutcomeReport {
  readonly delegationId: string;
  /** Bare name. */
  readonly capsule: string;
  readonly version: string;
  readonly sessionId: string;
  readonly status: OutcomeStatus;
  readonly durationMs: number;
  /** The child's work folder, absolute. */
  readonly workdir: string;
  /** `null` without anything to tell. */
  readonly detail: string | null;
  readonly answer: Answer;
}

/** Where a whole answer is kept, below the runtime directory. */
export function keptAnswerPath(delegationId: string): string {
  return `delegations/${delegationId}.txt`;
}

/** Source name of the fence around an outcome. */
export function outcomeFence(capsule: string): string {
  return fenceSource("delegation", capsule);
}

/**
 * How many leading bytes of UTF-8 text fit in `most` without cutting a character. Bytes that are no UTF-8 are cut
 * anywhere.
 */
export function characterBoundary(bytes: Uint8Array, most: number): number {
  if (bytes.length <= most) return bytes.length;
  for (let length = most; length >= Math.max(0, most - 3); length--) {
    if ((bytes[length]! & 0xc0) !== 0x80) return length;
  }
  return most;
}

/** The block of one outcome. */
export function outcomeBlock(report: OutcomeReport): string {
  const { delegationId, capsule, version, status } = report;
  const lines = [
    "Delegated capsule finished.",
    `delegation_id: ${delegationId}`,
    `capsule: ${capsule}@${version}`,
    `session_id: ${report.sessionId}`,
    `status: ${status}`,
    `duration_ms: ${report.durationMs}`,
    `workdir: ${report.workdir}`,
    ...(report.detail === null ? [] : [`detail: ${report.detail}`]),
    answerText(report),
  ];
  return `[delegate-task] delegation ${delegationId} to ${capsule}@${version} ended ${status}:\n${
    fence(outcomeFence(capsule), lines.join("\n"))
  }`;
}

function answerText({ answer, delegationId }: OutcomeReport): string {
  switch (answer.kind) {
    case "whole":
      return `result:\n${answer.text}`;
    case "empty":
      return "result: (the child's result file is empty)";
    case "missing":
      return "result: none (the child wrote no result file)";
    case "unreadable":
      return `result: none (the child's result file could not be read: ${answer.reason})`;
    case "cut": {
      const rest = answer.notKept === null
        ? `the whole answer is ${keptAnswerPath(delegationId)} in the runtime directory`
        : `the whole answer could not be kept in the runtime directory: ${answer.notKept}`;
      return `result:\n${answer.text} […]\n[cut at ${answer.keptBytes} of ${answer.totalBytes} bytes; ${rest}]`;
    }
  }
}
