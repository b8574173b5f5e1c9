import assert from "node:assert/strict";
import { readVariable } from "./environment_variable.ts";

Deno.test("a variable is text, or is not set", () => {
  assert.equal(readVariable("PATH"), Deno.env.get("PATH"));
  assert.equal(readVariable("MURMUR_TEST_IS_NOT_SET"), undefined);
});

Deno.test("one that is no text is refused by its name, and no word tells its value", async () => {
  const module = new URL("./environment_variable.ts", import.meta.url).href;
  const program = `import { readVariable } from ${JSON.stringify(module)};
    try { readVariable("SOME_KEY"); } catch (e) { console.log(e.name, e.code, e.message, String(e.cause), e.stack); }`;
  const { stdout } = await new Deno.Command("sh", {
    args: [
      "-c",
      `SOME_KEY=$(printf 'sk-secret\\377') exec "$0" eval "$1"`,
      Deno.execPath(),
      program,
    ],
    stderr: "inherit",
  }).output();
  const shown = new TextDecoder().decode(stdout);
  assert.match(shown, /^MurError E-IO-003 the value of SOME_KEY in the environment is not UTF-8 undefined /);
  assert.ok(!shown.includes("sk-secret"), shown);
});
