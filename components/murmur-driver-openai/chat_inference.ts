/**
 * One inference over the Chat Completions API, with the world handed in.
 *
 * @module
 */
import type { DriverContext, DriverRequest, DriverResponse } from "murmur/driver";
import { serverSentEvents } from "murmur/sse";
import { exchange, ProviderError, type ProviderResponse, type World } from "../driver_support/provider_exchange.ts";
import { ShownText } from "../driver_support/shown_text.ts";
import { type ToolNames, toolNames } from "../driver_support/tool_names.ts";
import { ChatAnswer, type ShownDelta } from "./chat_answer.ts";
import { chatBody, chatUrl } from "./chat_request.ts";
import { type OpenAiConfig, revisedBody } from "./openai_config.ts";

async function readAnswer(
  response: ProviderResponse,
  shown: ShownText,
  names: ToolNames,
  random: () => number,
): Promise<DriverResponse> {
  const show = (deltas: readonly ShownDelta[]) => {
    for (const delta of deltas) {
      if (delta.kind === "text") shown.text(delta.text);
      else shown.thinking(delta.text);
    }
  };
  const answer = new ChatAnswer(random);
  const type = response.headers.get("content-type") ?? "";
  // A server that does not stream answers whole, whatever it was asked.
  if (/^text\/event-stream\b/i.test(type)) {
    for await (const event of serverSentEvents(response)) show(answer.take(event.data));
  } else {
    show(answer.takeWhole(await response.text()));
  }
  return answer.finish(names);
}

/** Runs it; a failure of the provider is an answer with `stop_reason: error`. */
export async function inferChat(
  request: DriverRequest,
  context: DriverContext,
  config: OpenAiConfig,
  endpoint: string,
  world: World,
): Promise<DriverResponse> {
  const names = toolNames(request.tools.map((tool) => tool.name));
  const shown = new ShownText(context);
  const revised = new Set<string>();
  try {
    return await exchange(
      world,
      config,
      chatUrl(endpoint, config.path),
      { accept: config.stream ? "text/event-stream" : "application/json" },
      chatBody(request, config, names),
      (response) => {
        shown.restart();
        return readAnswer(response, shown, names, () => world.random());
      },
      (error, body) => error.status === 400 || error.status === 422 ? revisedBody(error.message, body, revised) : null,
    );
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return { stop_reason: "error", content: [], error: error.message };
  }
}
