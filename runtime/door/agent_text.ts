/**
 * What the agent reads of a message (spec door 7.3). Pure.
 *
 * @module
 */
import type { TaskView } from "../session/task_registry.ts";
import type { IncomingMessage, MessagePart } from "./message_params.ts";

/** A run of backticks longer than any inside the text, at least three. */
function fenceFor(text: string): string {
  let longest = 2;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return "`".repeat(longest + 1);
}

function fenced(label: string, text: string): string {
  const fence = fenceFor(text);
  return `${fence}${label}\n${text}\n${fence}`;
}

/** A value on the fence's opening line: nothing in it may end the line, open a fence or look like a further value. */
function labelValue(name: string, value: string | null): string {
  return value === null ? "" : ` ${name}=${value.replace(/[\s`=]/g, "_")}`;
}

function partText(part: MessagePart): string {
  if (part.kind === "text") return part.text;
  const label = `data${labelValue("media-type", part.mediaType)}${labelValue("filename", part.filename)}`;
  return fenced(label, JSON.stringify(part.data, null, 2));
}

function oneLine(text: string): string {
  return text.replace(/\s*[\r\n\u2028\u2029]+\s*/g, " ").trim();
}

function referenceLine(id: string, task: TaskView | null): string {
  if (task === null) return `- ${oneLine(id)}: not a task this capsule holds`;
  const line = `- ${id}: ${task.state}`;
  switch (task.state) {
    case "completed":
      return task.response === null ? line : `${line}\n${fenced("response", task.response)}`;
    case "failed":
    case "canceled":
    case "rejected":
      return task.message === null ? line : `${line}: ${oneLine(task.message)}`;
    default:
      return line;
  }
}

/**
 * The text of a message for the agent.
 *
 * @param find A task of this capsule the caller may see.
 */
export function agentText(message: IncomingMessage, find: (id: string) => TaskView | null): string {
  const text = message.parts.map(partText).join("\n");
  if (message.referenceTaskIds.length === 0) return text;
  const lines = message.referenceTaskIds.map((id) => referenceLine(id, find(id)));
  return `${text}\n\nReferenced tasks:\n${lines.join("\n")}`;
}
