/**
 * One page of `ListTasks` (spec door 10.2): filter, order, and the token of the next page. Pure but for the token's code.
 *
 * @module
 */
import { mintToken, openToken, type TokenFamily } from "../../base/mac_token.ts";
import type { TaskView } from "../session/task_registry.ts";
import { type A2aError, invalidParams } from "./a2a_error.ts";
import type { ListQuery } from "./task_params.ts";

const PAGE_TOKEN: TokenFamily = { tag: "lst1", domain: "murmur-task-list-page-v1" };

/** A page of tasks. */
export interface TaskPage {
  readonly tasks: readonly TaskView[];
  /** `""`: this is the last page. */
  readonly nextPageToken: string;
  /** Tasks of all pages together. */
  readonly totalSize: number;
}

/** Place of a task in the order: last change, newest first, then id, descending. */
type Place = Pick<TaskView, "changedMs" | "id">;

function order(a: Place, b: Place): number {
  return b.changedMs - a.changedMs || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

/** Selects a page. @param key Key of the page tokens; another key's are refused as not issued here. */
export function listPage(tasks: readonly TaskView[], query: ListQuery, key: Uint8Array): TaskPage | A2aError {
  const { contextId, state, changedFrom, pageSize, pageToken } = query;
  let after: Place | null = null;
  if (pageToken !== "") {
    const opened = openToken(PAGE_TOKEN, key, pageToken);
    if (opened === null) return invalidParams("pageToken was not issued here");
    after = opened as unknown as Place;
  }
  const all = tasks
    .filter((task) =>
      (contextId === null || task.contextId === contextId) &&
      (state === null || task.state === state) &&
      (changedFrom === null || task.changedMs >= changedFrom)
    )
    .sort(order);
  const rest = after === null ? all : all.filter((task) => order(after, task) < 0);
  const page = rest.slice(0, pageSize);
  const last = page.at(-1);
  return {
    tasks: page,
    nextPageToken: last === undefined || rest.length <= pageSize
      ? ""
      : mintToken(PAGE_TOKEN, key, { changedMs: last.changedMs, id: last.id }),
    totalSize: all.length,
  };
}
