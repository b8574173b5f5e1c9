/**
 * Answers to `GetTask`, kept for callers that ask for the same task again and again while nothing of it changes.
 *
 * @module
 */
import type { TaskView } from "../session/task_registry.ts";

/** Tasks whose answer is kept; those kept last. */
const MAX_KEPT = 64;

/** Longest answer that is kept, in characters. */
const MAX_KEPT_CHARACTERS = 8 << 10;

interface KeptAnswer {
  readonly task: TaskView;
  readonly json: string;
}

/** Kept answers of one door. */
export class KeptAnswers {
  readonly #answers = new Map<string, KeptAnswer>();

  /** What is told of a task, as JSON text; `null`: it was not told before, or the task has changed since. */
  of(task: TaskView): string | null {
    const kept = this.#answers.get(task.id);
    // A registry shows the same object until something of the task changes.
    return kept !== undefined && kept.task === task ? kept.json : null;
  }

  /** Keeps what is told of a task, unless it is long. */
  keep(task: TaskView, json: string): void {
    this.#answers.delete(task.id);
    if (json.length > MAX_KEPT_CHARACTERS) return;
    if (this.#answers.size >= MAX_KEPT) this.#answers.delete(this.#answers.keys().next().value!);
    this.#answers.set(task.id, { task, json });
  }
}
