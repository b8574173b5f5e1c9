import assert from "node:assert/strict";
import { main } from "./main.ts";
import { murManual } from "./manual.ts";
import { manualPage, roffText } from "./man_page.ts";
import { testContext } from "../tests/support/cli_context.ts";

async function helpOf(...words: string[]): Promise<string> {
  const context = testContext("/", { HOME: "/nowhere" });
  assert.equal(await main([...words, "--help"], context), 0);
  return context.out();
}

Deno.test("the manual has every command and every flag that --help shows, and no other", async () => {
  const page = murManual().replaceAll("\\-", "-");
  const sections = page.split("\n.SS ").slice(1);
  const commands = sections.map((text) => /^"(mur(?: [a-z]+)+)/.exec(text)![1]!);
  const overview = await helpOf();
  const listed = overview.slice(overview.indexOf("COMMANDS")).split("\n").slice(1)
    .map((line) => /^ {2}([a-z]+) /.exec(line)?.[1]).filter((word) => word !== undefined);
  assert.ok(listed.length > 10, overview);
  assert.deepEqual([...new Set(commands.map((words) => words.split(" ")[1]))], listed);
  for (const [index, words] of commands.entries()) {
    const help = await helpOf(...words.split(" ").slice(1));
    const flags = (
      text: string,
    ) => [...new Set([...text.matchAll(/(?<![\w-])--([a-z][a-z0-9-]*)/g)].map((m) => m[1]!))];
    const inHelp = flags(
      help.slice(help.indexOf("FLAGS"), help.indexOf("ARGUMENTS") === -1 ? undefined : help.indexOf("ARGUMENTS")),
    )
      .filter((flag) => flag !== "help");
    const tags = [...sections[index]!.matchAll(/^\.B "(.*)"$/gm)].map((match) => match[1]!).join("\n");
    assert.deepEqual(flags(tags).sort(), inHelp.sort(), words);
  }
  assert.ok(!page.includes("--capsule-sha256"), "a hidden flag");
});

Deno.test("nothing in a text is a request or an escape", () => {
  assert.equal(roffText(".TH x"), "\\&.TH x");
  assert.equal(roffText("'it"), "\\(aqit");
  assert.equal(roffText("a\\fB b\n.SH x"), "a\\efB b .SH x");
  const page = manualPage({
    name: "x",
    version: "1",
    brief: '"quoted"',
    description: [".SH no"],
    commands: [{ name: "x", usage: "", description: "", entries: [{ written: 'a "b"', brief: "c" }] }],
    exitStatus: [],
    environment: [],
    files: [],
    seeAlso: [],
  });
  assert.ok(!/^\.SH no/m.test(page));
  assert.match(page, /^\.B "a \\\(dqb\\\(dq"$/m);
});
