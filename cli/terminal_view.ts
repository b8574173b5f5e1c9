/**
 * What `mur run` shows of a session's frames (spec session 9.9): the answer as it streams on a terminal, nothing on a
 * pipe. Text of the model is shown with its control characters escaped.
 *
 * @module
 */
import { escapeControls } from "../runtime/agent/terminal_text.ts";
import type { FrameBody } from "../runtime/session/frame_log.ts";
import type { TextOutput } from "./context.ts";

/** How frames are shown. */
export interface TerminalViewOptions {
  readonly stdout: TextOutput;
  readonly stderr: TextOutput;
  /** Show thinking chunks, on stderr. */
  readonly thinking: boolean;
}

/** A subscriber that shows the launch task's text on a terminal. */
export function terminalView(options: TerminalViewOptions): (frame: FrameBody) => void {
  const { stdout, stderr } = options;
  let open = false;
  let thinking = false;
  const endThinking = () => {
    if (thinking) stderr.write("\n");
    thinking = false;
  };
  return (frame) => {
    if (frame.type === "text") {
      endThinking();
      if (frame.text !== "") {
        stdout.write(escapeControls(frame.text));
        open = !frame.text.endsWith("\n");
      }
      if (frame.final && open) {
        stdout.write("\n");
        open = false;
      }
    } else if (frame.type === "thinking" && options.thinking) {
      stderr.write(escapeControls(frame.text));
      thinking = true;
    } else if (frame.type === "status" && frame.final) {
      endThinking();
      if (open) stdout.write("\n");
      open = false;
    }
  };
}
