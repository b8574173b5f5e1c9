/**
 * Asks the person behind the task (spec components 8.11).
 *
 * @module
 */
import { defineTool, ToolFailure } from "murmur/tool";

export default defineTool<{ prompt?: unknown }>({
  run({ prompt }, { requestInput }) {
    if (typeof prompt !== "string" || prompt.trim() === "") throw new ToolFailure("prompt must be a question");
    return { data: requestInput(prompt), summary: "answered" };
  },
});
