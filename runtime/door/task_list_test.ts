import assert from "node:assert/strict";
import fc from "fast-check";
import { mintToken, newTokenKey } from "../../base/mac_token.ts";
import type { TaskState } from "../session/frame_log.ts";
import type { TaskView } from "../session/task_registry.ts";
import { listPage, type TaskPage } from "./task_list.ts";
import type { ListQuery } from "./task_params.ts";

const KEY = newTokenKey();
const ALL: ListQuery = {
  contextId: null,
  state: null,
  pageSize: 50,
  pageToken: "",
  changedFrom: null,
  includeArtifacts: false,
};

const tasks = fc.uniqueArray(
  fc.record({
    id: fc.integer({ min: 0, max: 999 }).map((n) => `tsk_${n}`),
    contextId: fc.constantFrom("a", "b"),
    state: fc.constantFrom<TaskState>("working", "completed", "failed"),
    changedMs: fc.integer({ min: 0, max: 9 }),
  }).map((own): TaskView => ({ ...own, message: null, response: null, prompt: null, submitter: null })),
  { selector: ({ id }) => id, maxLength: 60 },
);

Deno.test("the pages together are every matching task once, newest change first", () => {
  const query = fc.record({
    contextId: fc.constantFrom(null, "a"),
    state: fc.constantFrom<ListQuery["state"]>(null, "completed", "none"),
    changedFrom: fc.constantFrom(null, 4),
    pageSize: fc.integer({ min: 1, max: 20 }),
  });
  fc.assert(fc.property(tasks, query, (tasks, query) => {
    const seen: TaskView[] = [];
    let pageToken = "";
    do {
      const page = listPage(tasks, { ...ALL, ...query, pageToken }, KEY) as TaskPage;
      assert.ok(page.tasks.length <= query.pageSize);
      seen.push(...page.tasks);
      pageToken = page.nextPageToken;
      assert.ok(pageToken === "" || page.tasks.length === query.pageSize);
      const matching = tasks.filter(({ contextId, state, changedMs }) =>
        (query.contextId === null || contextId === query.contextId) &&
        (query.state === null || state === query.state) &&
        (query.changedFrom === null || changedMs >= query.changedFrom)
      );
      assert.equal(page.totalSize, matching.length);
    } while (pageToken !== "");
    assert.equal(new Set(seen.map(({ id }) => id)).size, seen.length);
    assert.equal(seen.length, (listPage(tasks, { ...ALL, ...query }, KEY) as TaskPage).totalSize);
    for (const [i, task] of seen.slice(1).entries()) {
      const before = seen[i]!;
      assert.ok(before.changedMs > task.changedMs || (before.changedMs === task.changedMs && before.id > task.id));
    }
  }));
});

Deno.test("a page token that was not issued here is refused", () => {
  const others = [
    "x",
    "lst1.e30.AAAA",
    mintToken({ tag: "lst1", domain: "murmur-task-list-page-v1" }, newTokenKey(), { changedMs: 1, id: "t" }),
    mintToken({ tag: "mdt1", domain: "murmur-door-token-v1" }, KEY, { changedMs: 1, id: "t" }),
  ];
  for (const pageToken of others) {
    assert.deepEqual(listPage([], { ...ALL, pageToken }, KEY), {
      code: -32602,
      message: "pageToken was not issued here",
    });
  }
});
