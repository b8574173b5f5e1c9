/**
 * The read-only gate of a tool call: which of the two rule sets judges it (spec manifest 9.3, components 8.3 gate 2).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { refuseShellWrite } from "../../artifact/read_only_commands.ts";
import type { ReadOnlyPaths } from "../../artifact/read_only_rules.ts";
import { refuseToolWrite } from "../../artifact/read_only_tool_input.ts";
import { isShellInterpreter, splitWords } from "../../sandbox/command_words.ts";
import type { ProtectedPathRefusal, ResolvedTool } from "../agent/tool_dispatch.ts";

/** The refusal of a call that would write to a protected path; `null` when none is seen. */
export function protectedPathOf(
  paths: ReadOnlyPaths,
  tool: ResolvedTool,
  name: string,
  input: JsonObject,
): ProtectedPathRefusal | null {
  if (tool.kind === "skill") return null;
  if (tool.kind !== "shell") return refuseToolWrite(paths, input, tool.inputSchema);
  if (tool.args !== undefined) return refuseShellWrite(paths, { kind: "argv", binary: name, args: tool.args });
  const command = typeof input.command === "string" ? input.command.trim() : "";
  if (command === "") return null;
  return refuseShellWrite(
    paths,
    isShellInterpreter(name)
      ? { kind: "body", shell: name, text: command }
      : { kind: "argv", binary: name, args: splitWords(command) },
  );
}
