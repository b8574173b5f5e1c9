/** What is not a value of its key in a trace is refused with its line or passed over, by every command that reads one. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import { TRACE_EVENT_KEYS } from "../runtime/trace/trace_event.ts";
import { parseTrace } from "../runtime/trace/trace_reader.ts";
import { isOfItsKind } from "../runtime/trace/trace_value.ts";
import { namedHashes } from "./trace_body.ts";
import { type EndedTrace, traceDiffText } from "./trace_diff.ts";
import { reportText } from "./trace_report.ts";
import { traceSummary } from "./trace_sections.ts";
import { stepTree } from "./trace_steps.ts";

const RECORD = { name: "n", version: "1", session: "s", step_id: "s", kind: "tool", depends_on: ["s"] };
const VALUES = [1, "a text that is longer than twelve", ["a text of a list"], [RECORD], { path: "p" }];

/** One line of every event, each with every key it has. */
const LINES: readonly Record<string, unknown>[] = Object.entries(TRACE_EVENT_KEYS).map(([type, keys], index) => ({
  event_type: type,
  event_id: `evt_${index}`,
  parent_id: index === 0 ? null : "evt_0",
  session_id: "ses_0",
  timestamp: 1_000 + index,
  ...Object.fromEntries(keys.map((key) => [key, VALUES.find((value) => isOfItsKind(type, key, value))])),
}));

function readAll(lines: readonly unknown[]): string {
  const trace = parseTrace(lines.map((line) => `${JSON.stringify(line)}\n`).join(""), "t.jsonl");
  namedHashes(trace.lines);
  const texts = [traceSummary(trace, { childTrace: (...parts) => parts.join("/") }), stepTree(trace, true)];
  if (trace.end !== null) {
    const ended = trace as EndedTrace;
    texts.push(traceDiffText(ended, ended), reportText([ended], "d"));
  }
  return texts.join("");
}

Deno.test("a line of every event with every key is shown", () => {
  const text = readAll(LINES);
  assert.doesNotMatch(text, /NaN|undefined|\[object/);
});

Deno.test("whatever stands in a trace, it is shown or refused with its line", () => {
  const strange = fc.oneof(
    fc.constantFrom<unknown[]>(null, {}, [], "", -1, 1e300, true, [null], [{}], [[]], { toString: 1 }, "x", 0.5),
    // No text of these letters is one that is looked for below.
    fc.jsonValue({ stringUnit: fc.constantFrom("a", "7", "ä", " ") }),
  );
  let [shown, refused] = [0, 0];
  fc.assert(
    fc.property(
      fc.array(fc.record({ line: fc.nat(), key: fc.nat(), value: strange }), { minLength: 1, maxLength: 3 }),
      (changes) => {
        const lines = structuredClone(LINES) as Record<string, unknown>[];
        for (const { line, key, value } of changes) {
          const changed = lines[line % lines.length]!;
          const keys = Object.keys(changed);
          changed[keys[key % keys.length]!] = value;
        }
        try {
          assert.doesNotMatch(readAll(lines), /NaN|undefined/);
          shown++;
        } catch (error) {
          if (!(error instanceof MurError)) throw error;
          assert.equal(error.code, "E-TRC-001");
          assert.match(error.message, /^t\.jsonl(:\d+)?: /);
          refused++;
        }
      },
    ),
    { numRuns: 3_000 },
  );
  assert.ok(shown > 100 && refused > 100, `${shown} shown, ${refused} refused`);
});
