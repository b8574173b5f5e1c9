import assert from "node:assert/strict";
import { codeLink, formatError, formatWarning, MurError, type Warning } from "./errors.ts";

const ROOT = new URL("../", import.meta.url);

Deno.test("an error is its code and message, then its place with a mark below the column, then one hint", () => {
  const place = { file: "murmur.yaml", line: 3, column: 4, text: "\ta: b" };
  assert.equal(formatError(new MurError("E-IO-001", "gone")), "error[E-IO-001]: gone");
  assert.equal(
    formatError(new MurError("E-MAN-002", "bad", { place, hint: "mend it" })),
    "error[E-MAN-002]: bad\n  --> murmur.yaml:3:4\n   | \ta: b\n   | \t  ^\n  hint: mend it",
  );
});

Deno.test("a warning ends with the address of its explanation; hints of a build stand below it with the address", () => {
  const warning: Warning = { code: "W-SEC-013", source: "capsule-runtime", message: "m" };
  const link = codeLink("W-SEC-013");
  assert.match(link, /^https:\/\/\S+\/docs\/codes\.md#w-sec-013$/);
  assert.equal(formatWarning(warning), `[capsule-runtime] warning[W-SEC-013]: m (${link})`);
  assert.equal(
    formatWarning({ ...warning, code: "W-REG-001", source: null, details: ["Fix: do"] }),
    `warning[W-REG-001]: m (${codeLink("W-REG-001")})\n  Fix: do`,
  );
  for (const code of ["W-BLD-002", "W-SEC-004"] as const) {
    assert.equal(
      formatWarning({ code, source: null, message: "m", details: ["do"] }),
      `warning[${code}]: m\n  → do\n  → ${codeLink(code)}`,
    );
  }
});

async function* sourceFiles(directory: URL): AsyncGenerator<URL> {
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    if (isDirectory && name !== "testing") yield* sourceFiles(new URL(`${name}/`, directory));
    else if (/(?<!_test)\.ts$/.test(name)) yield new URL(name, directory);
  }
}

Deno.test("every code that is told anywhere is explained, and no other", async () => {
  const explained = (await Deno.readTextFile(new URL("docs/codes.md", ROOT)))
    .matchAll(/^### ([EW]-[A-Z]+-\d{3})$/gm).map(([, code]) => code!).toArray();
  const told = new Set<string>();
  for (const room of ["base", "artifact", "sandbox", "planes", "toolchain", "runtime", "cli"]) {
    for await (const file of sourceFiles(new URL(`${room}/`, ROOT))) {
      const text = await Deno.readTextFile(file);
      const code = text.replace(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "");
      // Behind a bar it is a type.
      for (const [, found] of code.matchAll(/(?<!\| ")\b([EW]-[A-Z]+-\d{3})\b/g)) told.add(found!);
    }
  }
  assert.deepEqual(explained.toSorted(), [...told].sort());
  assert.equal(new Set(explained).size, explained.length);
});
