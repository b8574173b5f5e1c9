import assert from "node:assert/strict";
import ts from "typescript";
import { editorSupport } from "./editor_support.ts";

Deno.test("an editor sees the guest library, and no more than a component has", async () => {
  const directory = await Deno.makeTempDir({ prefix: "murmur-editor-" });
  try {
    for (const [path, text] of Object.entries(await editorSupport())) {
      await Deno.mkdir(`${directory}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
      await Deno.writeTextFile(`${directory}/${path}`, text);
    }
    await Deno.writeTextFile(
      `${directory}/tool.ts`,
      `import { files } from "murmur/files";
import { defineTool } from "murmur/tool";
export default defineTool<{ path: string }>({
  async run({ path }, { emitChunk }) {
    const response = await fetch("https://example.com", { signal: AbortSignal.timeout(5) });
    emitChunk(await response.text());
    const wrong: number = files.readText(path);
    document.title;
    return new URL("x").href;
  },
});
`,
    );
    const read = ts.readConfigFile(`${directory}/tsconfig.json`, ts.sys.readFile);
    const parsed = ts.parseJsonConfigFileContent(read.config, ts.sys, directory);
    const program = ts.createProgram(parsed.fileNames, parsed.options);
    const problems = ts.getPreEmitDiagnostics(program).map(({ file, messageText, start = 0 }) => {
      const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
      return `${file?.fileName.slice(directory.length + 1)}:${line} ${
        ts.flattenDiagnosticMessageText(messageText, " ")
      }`;
    });
    assert.deepEqual(problems.map((problem) => problem.slice(0, 60)), [
      "tool.ts:7 Type 'string' is not assignable to type 'number'.",
      "tool.ts:8 Cannot find name 'document'. Do you need to change",
    ]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
