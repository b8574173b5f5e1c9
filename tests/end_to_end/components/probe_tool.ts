/**
 * A tool for tests that does one operation a call and answers with what it saw.
 *
 * @module
 */
import { config, environment } from "murmur/environment";
import { files } from "murmur/files";
import { defineTool, type ToolOutcome } from "murmur/tool";

interface Input {
  readonly operation: string;
  readonly path?: string;
  readonly to?: string;
  readonly text?: string;
  readonly size?: number;
  readonly outcome?: ToolOutcome;
}

let calls = 0;

export default defineTool<Input>({
  run({ operation, path = ".", to = ".", text = "", size = 0, outcome = {} }, context) {
    calls++;
    switch (operation) {
      case "environment":
        return JSON.stringify({ environment: environment(), config: config() ?? null, calls });
      case "read":
        return files.readText(path);
      case "write":
        files.write(path, text);
        return "written";
      case "rename":
        files.rename(path, to);
        return "renamed";
      case "remove":
        files.remove(path, { recursive: true });
        return "removed";
      case "mkdir":
        files.mkdir(path);
        return "made";
      case "list":
        return JSON.stringify(files.list(path).map(({ name }) => name).sort());
      case "letters":
        return "b".repeat(size);
      case "chunk":
        context.emitChunk(text);
        context.emitThinkingChunk(`thought of ${text}`);
        console.log(`log of ${text}`);
        return "shown";
      case "outcome":
        return outcome;
      case "ask":
        return context.requestInput(text);
      case "throw":
        throw new Error(text);
      case "loop":
        for (;;);
      default:
        throw new Error(`no operation ${operation}`);
    }
  },
});
