/**
 * Tool calls and their answers belong together: a provider refuses a history in which one stands without the other. A record
 * whose front was dropped, or whose writer was killed in the middle of a turn, has such ends.
 *
 * @module
 */
import { type Message, toolCallsOf, toolMessage } from "./message.ts";

/** What answers a call of which no result was kept. */
const LOST_ANSWER = "no result of this call was kept: the session ended before it finished";

/**
 * A loaded history that can be sent: answers without their call are left out, and a call without an answer gets one that
 * says so. Calls are matched with the tool messages right after them, since providers reuse call ids.
 */
export function mendToolPairs(messages: readonly Message[]): Message[] {
  const mended: Message[] = [];
  let open: string[] = [];
  const close = () => {
    for (const callId of open) {
      mended.push(toolMessage({ callId, isError: true, text: LOST_ANSWER }, { id: `msg_lost_${mended.length}` }));
    }
    open = [];
  };
  for (const message of messages) {
    if (message.role === "tool") {
      const at = open.indexOf(message.tool_call_id);
      if (at < 0) continue;
      open.splice(at, 1);
    } else {
      close();
      if (message.role === "assistant") open = toolCallsOf(message.content).map(({ id }) => id ?? "");
    }
    mended.push(message);
  }
  close();
  return mended;
}
