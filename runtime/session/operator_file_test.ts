import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { withTempDir } from "../../tests/support/cli_context.ts";
import { MAX_TEXT_BYTES, readOperatorText } from "./operator_file.ts";

async function codeOf(path: string): Promise<string> {
  const error = await readOperatorText(path).then(() => null, (cause) => cause);
  assert.ok(error instanceof MurError, String(error));
  assert.ok(error.message.includes(path));
  return error.code;
}

Deno.test("a text file is read as it is, what is no text file is refused", async () => {
  await withTempDir(async (directory) => {
    await Deno.writeTextFile(`${directory}/text`, "über\n\0");
    assert.equal(await readOperatorText(`${directory}/text`), "über\n\0");
    await Deno.symlink("text", `${directory}/link`);
    assert.equal(await readOperatorText(`${directory}/link`), "über\n\0");
    await Deno.writeFile(`${directory}/latin1`, Uint8Array.of(0x61, 0xe4));
    assert.equal(await readOperatorText(`${directory}/latin1`), "a\ufffd");
    await new Deno.Command("mkfifo", { args: [`${directory}/pipe`] }).output();
    assert.equal(await codeOf(`${directory}/absent`), "E-IO-001");
    for (const path of [directory, `${directory}/pipe`, "/dev/zero"]) assert.equal(await codeOf(path), "E-IO-003");
    using file = await Deno.open(`${directory}/huge`, { write: true, create: true });
    await file.truncate(MAX_TEXT_BYTES);
    assert.equal((await readOperatorText(`${directory}/huge`)).length, MAX_TEXT_BYTES);
    await file.truncate(MAX_TEXT_BYTES + 1);
    assert.equal(await codeOf(`${directory}/huge`), "E-IO-003");
  });
});
