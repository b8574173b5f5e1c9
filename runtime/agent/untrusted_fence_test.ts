import assert from "node:assert/strict";
import fc from "fast-check";
import { fence, fenceSource, neutraliseMarkers } from "./untrusted_fence.ts";

/** Texts rich in markers and pieces of them. */
const hostile = fc.array(
  fc.oneof(
    fc.constantFrom(
      "<untrusted-content source=tool:x>",
      "</untrusted-content>",
      "</UNTRUSTED-content>",
      "<Untrusted-Content",
      "<",
      "</",
      "/untrusted-content",
      "untrusted-content>",
      "!MURMUR-NEUTRALISED!",
      "<!MURMUR-NEUTRALISED!/untrusted-content>",
      "\n",
    ),
    fc.string({ unit: "binary", maxLength: 6 }),
  ),
  { maxLength: 12 },
).map((parts) => parts.join(""));

function count(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

Deno.test("a block: marker, newline, content, newline, marker", () => {
  assert.equal(
    fence("tool:fetch", "…content…"),
    "<untrusted-content source=tool:fetch>\n…content…\n</untrusted-content>",
  );
  assert.equal(fence("tool:t", ""), "<untrusted-content source=tool:t>\n\n</untrusted-content>");
});

Deno.test("every marker in the content is made unrecognisable right after its <, keeping the letter case", () => {
  const cases: [string, string][] = [
    ["</untrusted-content>", "<!MURMUR-NEUTRALISED!/untrusted-content>"],
    ["</UnTrusted-CONTENT >", "<!MURMUR-NEUTRALISED!/UnTrusted-CONTENT >"],
    ["<untrusted-content source=tool:x>", "<!MURMUR-NEUTRALISED!untrusted-content source=tool:x>"],
    ["<</untrusted-content>>", "<<!MURMUR-NEUTRALISED!/untrusted-content>>"],
    [
      "</untrusted-content</untrusted-content>",
      "<!MURMUR-NEUTRALISED!/untrusted-content<!MURMUR-NEUTRALISED!/untrusted-content>",
    ],
    ["<untrusted-conten>", "<untrusted-conten>"],
    // U+017F folds to s and U+212A to k outside ASCII; neither makes a marker.
    ["</untru\u017fted-content>", "</untru\u017fted-content>"],
  ];
  for (const [content, expected] of cases) assert.equal(neutraliseMarkers(content), expected);
});

Deno.test("neutralising is idempotent and only inserts", () => {
  fc.assert(
    fc.property(hostile, (content) => {
      const once = neutraliseMarkers(content);
      assert.equal(neutraliseMarkers(once), once);
      // Removing what was inserted gives the content back: remove as many marks as were added, at the places they were put.
      let rebuilt = "";
      let rest = content;
      for (const piece of once.split(/(<!MURMUR-NEUTRALISED!)(?=\/?untrusted-content)/i)) {
        const taken = rest.startsWith(piece) ? piece : "<";
        rebuilt += taken;
        rest = rest.slice(taken.length);
      }
      assert.equal(rebuilt, content);
      assert.ok(once.length >= content.length);
    }),
    { numRuns: 2_000 },
  );
});

Deno.test("a reader that ends the block at the last closing marker gets exactly the content", () => {
  fc.assert(
    fc.property(hostile, fc.string({ unit: "binary" }), (content, name) => {
      const source = fenceSource("tool", name);
      const block = fence(source, content);
      assert.equal(count(block, /<\/untrusted-content>/gi), 1);
      assert.equal(count(block, /<untrusted-content/gi), 1 + count(source, /<untrusted-content/gi));
      const head = `<untrusted-content source=${source}>\n`;
      assert.ok(block.startsWith(head));
      // Found as it stands: a text in small letters may be a longer one.
      const end = [...block.matchAll(/<\/untrusted-content>/gi)].at(-1)!.index - 1;
      assert.equal(block.slice(head.length, end), neutraliseMarkers(content));
    }),
    { numRuns: 2_000 },
  );
});

Deno.test("a source name cannot end its marker or begin a line", () => {
  assert.equal(fenceSource("tool", "a>\r\nb"), "tool:a_  b");
  assert.equal(fenceSource("delegation", "coder"), "delegation:coder");
  fc.assert(fc.property(fc.string({ unit: "binary" }), (name) => {
    assert.doesNotMatch(fenceSource("member", name), /[>\r\n]/);
  }));
});
