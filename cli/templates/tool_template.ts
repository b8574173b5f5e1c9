/**
 * The files of a new tool: one TypeScript file and its manifest (spec cli 15.2).
 *
 * @module
 */

/** The files by name. */
export function toolFiles(name: string): Readonly<Record<string, string>> {
  return {
    "murmur.yaml": `# What the model reads before it calls the tool: name, description and input_schema.
name: ${name}
version: "0.1.0"
runtime: tool
description: Counts the lines, words and characters of a text file in the work folder.
input_schema:
  type: object
  properties:
    path: { type: string, description: "The file, relative to the work folder." }
  required: [path]
build: { entry: tool.ts }
`,
    "tool.ts": `// docs/writing-a-tool.md lists what a tool can use.
import { files } from "murmur/files";
import { defineTool, ToolFailure } from "murmur/tool";

export default defineTool<{ path: string }>({
  run({ path }) {
    if (!files.exists(path)) throw new ToolFailure(\`\${path} does not exist\`);
    const text = files.readText(path);
    const lines = text === "" ? 0 : text.replace(/\\n$/, "").split("\\n").length;
    const words = text.split(/\\s+/).filter((word) => word !== "").length;
    return {
      data: { path, lines, words, characters: [...text].length },
      summary: \`\${path} has \${lines} lines and \${words} words\`,
    };
  },
});
`,
    ".gitignore": "*.mur.zip\n",
  };
}
