/**
 * The texts of a task that was sent back (spec session 11). Pure.
 *
 * @module
 */

/** Why a task was sent back, and by whom. */
export interface Reopening {
  readonly hook: string;
  readonly reason: string;
}

/** The message the next attempt goes on with. */
export function feedbackMessage({ hook, reason }: Reopening, number: number): string {
  return `# Reopen ${number} — from hook ${hook}\n\n${reason.trim()}`;
}

/** `task.md` of the next attempt: the task, then all feedback so far, oldest first. */
export function reopenedTask(original: string, reopenings: readonly Reopening[]): string {
  return [
    original.trimEnd(),
    "---",
    "# Reopen feedback",
    "The previous attempt at this task was not accepted. Address the feedback below.",
    ...reopenings.flatMap(({ hook, reason }, index) => [
      `## Reopen ${index + 1} — from hook \`${hook}\``,
      reason.trim(),
    ]),
  ].join("\n\n") + "\n";
}
