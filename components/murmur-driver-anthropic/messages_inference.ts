/**
 * One inference over the Messages API, with the world handed in.
 *
 * @module
 */
import type { DriverContext, DriverRequest, DriverResponse, Usage } from "murmur/driver";
import { serverSentEvents } from "murmur/sse";
import type { JsonObject } from "../driver_support/json_value.ts";
import { exchange, ProviderError, type ProviderResponse, type World } from "../driver_support/provider_exchange.ts";
import { ShownText } from "../driver_support/shown_text.ts";
import { toolNames } from "../driver_support/tool_names.ts";
import type { AnthropicConfig } from "./anthropic_config.ts";
import { type Answer, driverResponse, StreamedAnswer, summed, wholeAnswer } from "./messages_answer.ts";
import { continuedBody, messagesBody, messagesHeaders, messagesUrl, withoutThinking } from "./messages_request.ts";

/** Parts of one answer that may follow a pause of the provider's own tools. */
const MAX_PARTS = 8;

async function readAnswer(response: ProviderResponse, shown: ShownText): Promise<Answer> {
  const type = response.headers.get("content-type") ?? "";
  // A server that does not stream answers whole, whatever it was asked.
  if (!/^text\/event-stream\b/i.test(type)) {
    const answer = wholeAnswer(await response.text());
    for (const block of answer.content) {
      if (block.type === "thinking" && typeof block.thinking === "string") shown.thinking(block.thinking);
      if (block.type === "text" && typeof block.text === "string") shown.text(block.text);
    }
    return answer;
  }
  const answer = new StreamedAnswer();
  for await (const event of serverSentEvents(response)) {
    const delta = answer.take(event.data);
    if (delta?.kind === "text") shown.text(delta.text);
    else if (delta !== null) shown.thinking(delta.text);
  }
  return answer.finish();
}

/** Runs it; a failure of the provider is an answer with `stop_reason: error`. */
export async function inferMessages(
  request: DriverRequest,
  context: DriverContext,
  config: AnthropicConfig,
  endpoint: string,
  world: World,
): Promise<DriverResponse> {
  const names = toolNames(request.tools.map((tool) => tool.name));
  const shown = new ShownText(context);
  const usages: Usage[] = [];
  const content: JsonObject[] = [];
  const body = messagesBody(request, config, names);
  try {
    for (let parts = 1;; parts++) {
      const answer = await exchange(
        world,
        config,
        messagesUrl(endpoint),
        messagesHeaders(config),
        content.length === 0 ? body : continuedBody(body, content),
        (response) => {
          shown.restart();
          return readAnswer(response, shown);
        },
        // Thinking is signed for the model that wrote it; after a switch of models it may be refused.
        (error, sent) =>
          error.status === 400 && /thinking|signature/i.test(error.message) ? withoutThinking(sent) : null,
      );
      usages.push(answer.usage);
      content.push(...answer.content);
      if (answer.stopReason !== "pause_turn" || parts === MAX_PARTS) {
        return driverResponse({ ...answer, content, usage: summed(usages) }, names);
      }
    }
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return { stop_reason: "error", content: [], usage: summed(usages), error: error.message };
  }
}
