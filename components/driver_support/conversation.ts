/**
 * The history as every provider wants it: assistant turns, and between them one user turn that first answers each tool
 * call of the turn before and then says the rest. Gaps that a cut history can have are closed, since a provider refuses
 * the whole request for one of them. Pure.
 *
 * @module
 */
import type { AssistantBlock, Message } from "murmur/driver";

/** The answer to one tool call. */
export interface ToolAnswer {
  readonly callId: string;
  readonly isError: boolean;
  readonly text: string;
}

/** One turn. */
export type Turn =
  | { readonly role: "assistant"; readonly blocks: readonly AssistantBlock[] }
  | { readonly role: "user"; readonly answers: readonly ToolAnswer[]; readonly texts: readonly string[] };

/** Said for a call whose result the history lost. */
export const LOST_RESULT = "No result of this call was recorded.";
/** Said where a provider demands a text and there is none. */
export const NO_TEXT = "(no text)";
/** Said after a history that ends with the assistant: not every model goes on from its own words. */
export const CONTINUE = "Continue.";

/** Whether there is anything but blanks. */
export function hasText(text: string): boolean {
  return text.trim() !== "";
}

/** Ids of the tool calls of an assistant turn, in block order. */
function callIds(blocks: readonly AssistantBlock[]): readonly string[] {
  return blocks.flatMap((block) => block.type === "tool_call" && typeof block.id === "string" ? [block.id] : []);
}

function isBlank(block: AssistantBlock): boolean {
  return block.type === "text" && !(typeof block.text === "string" && hasText(block.text));
}

interface Draft {
  answers: ToolAnswer[];
  texts: string[];
}

/** Settles a user turn against the calls before it. */
function settled(draft: Draft, open: readonly string[]): Turn {
  const byId = new Map(draft.answers.map((answer) => [answer.callId, answer]));
  const answers = open.map((callId) => byId.get(callId) ?? { callId, isError: true, text: LOST_RESULT });
  // An answer nobody asked for, as a history that begins in the middle has it, is told as text.
  const stray = draft.answers.filter((answer) => !open.includes(answer.callId)).map((answer) => answer.text);
  const texts = [...stray, ...draft.texts].filter(hasText);
  return { role: "user", answers, texts: texts.length === 0 && answers.length === 0 ? [NO_TEXT] : texts };
}

/** The turns of a history. They begin and end with the user and alternate; empty assistant turns are left out. */
export function turnsOf(messages: readonly Message[]): readonly Turn[] {
  const turns: Turn[] = [];
  let open: readonly string[] = [];
  let draft: Draft | null = null;
  const close = () => {
    if (draft !== null || open.length > 0) turns.push(settled(draft ?? { answers: [], texts: [] }, open));
    draft = null;
    open = [];
  };
  for (const message of messages) {
    if (message.role === "assistant") {
      const blocks = message.content.filter((block) => !isBlank(block));
      if (blocks.length === 0) continue;
      if (draft === null && open.length === 0 && turns.length > 0) {
        // Two assistant messages in a row are one turn.
        const last = turns.at(-1)!;
        if (last.role === "assistant") {
          turns[turns.length - 1] = { role: "assistant", blocks: [...last.blocks, ...blocks] };
          open = callIds([...last.blocks, ...blocks]);
          continue;
        }
      }
      close();
      if (turns.length === 0) turns.push({ role: "user", answers: [], texts: [NO_TEXT] });
      turns.push({ role: "assistant", blocks });
      open = callIds(blocks);
      continue;
    }
    draft ??= { answers: [], texts: [] };
    const text = message.content.map((block) => block.text).join("\n");
    if (message.role === "tool") {
      draft.answers.push({ callId: message.tool_call_id, isError: message.is_error, text });
    } else {
      draft.texts.push(...message.content.map((block) => block.text));
    }
  }
  close();
  if (turns.length === 0) turns.push({ role: "user", answers: [], texts: [NO_TEXT] });
  if (turns.at(-1)!.role === "assistant") turns.push({ role: "user", answers: [], texts: [CONTINUE] });
  return turns;
}
