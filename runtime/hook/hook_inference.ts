/**
 * `run-inference`: one call of the capsule's driver for a hook (spec components 10.12, trace 6.1). It spends the ceilings
 * and counts in the totals; it is no turn.
 *
 * @module
 */
import { reasonOf } from "../../base/errors.ts";
import {
  buildDriverPayload,
  DEFAULT_MAX_TOKENS,
  dispatchFailure,
  type DriverFailure,
  type DriverReply,
  readDriverResult,
} from "../agent/driver_protocol.ts";
import { type Message, textBlock } from "../agent/message.ts";
import type { RequestTokens, SpendGate, SpendRefusal, TurnLoopServices } from "../agent/turn_loop.ts";
import { ComponentFailure } from "../component/component_runtime.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import { newId } from "../../base/ids.ts";
import type { HookMessage } from "./hook_event.ts";

/** `inference-request`. */
export interface HookInferenceRequest {
  readonly messages: readonly HookMessage[];
  readonly systemPrompt: string | null;
  readonly model: string | null;
}

/** `inference-response`. */
export type HookInferenceResponse = {
  readonly text: string;
  readonly modelUsed: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
};

/** Where in the session a hook asks. */
export interface InferencePlace {
  readonly taskId: string | null;
  readonly turn: number;
}

/** What a call needs of the session. */
export interface HookInferenceServices {
  /** `inference.model`. */
  readonly model: string;
  /** Without a context. */
  readonly promptCacheKey: string;
  readonly callDriver: TurnLoopServices["callDriver"];
  readonly providerStatus: TurnLoopServices["providerStatus"];
  readonly redact: TurnLoopServices["redact"];
  readonly tokens: RequestTokens;
  readonly spend: SpendGate;
  readonly trace: TraceWriter;
}

/** A refused or failed call; the text is the guest's `err`. */
export class HookInferenceError extends Error {
  override readonly name = "HookInferenceError";
  /** Set when a ceiling refused it. */
  readonly refusal: SpendRefusal | null;
  constructor(message: string, refusal: SpendRefusal | null = null) {
    super(message);
    this.refusal = refusal;
  }
}

/** A message as the driver gets it: one text block, whatever the content is. Roles pass through. */
function driverMessage({ role, content }: HookMessage): Message {
  return { role, content: [textBlock(content)], id: newId("msg") } as unknown as Message;
}

/** Text blocks one behind the other. */
function joinedText({ content }: DriverReply): string {
  return content.map(({ type, text }) => type === "text" && typeof text === "string" ? text : "").join("");
}

/**
 * Asks the driver once.
 *
 * @throws {HookInferenceError} When there is no answer.
 * @throws {MurError} `E-RUN-007` when the trace cannot be written.
 */
export async function runHookInference(
  services: HookInferenceServices,
  hook: string,
  place: InferencePlace,
  request: HookInferenceRequest,
  signal: AbortSignal,
): Promise<HookInferenceResponse> {
  const { tokens, spend, trace } = services;
  const model = request.model ?? services.model;
  const system = request.systemPrompt ?? "";
  const messages = request.messages.map(driverMessage);
  const payload = buildDriverPayload({
    model,
    maxTokens: DEFAULT_MAX_TOKENS,
    messages,
    tools: [],
    system,
    promptCacheKey: services.promptCacheKey,
    continuationId: null,
    sendFrom: 0,
  });
  const origin = `hook:${hook}`;
  const inputTokens = await tokens.request(payload, messages, system);
  const admission = await spend.admit(inputTokens, DEFAULT_MAX_TOKENS);
  const { turn, taskId } = place;
  if (!admission.admitted) {
    const { limit, ceiling, used, requested, text } = admission;
    trace.write("spend_ceiling_reached", { turn, task_id: taskId, limit, ceiling, used, requested, origin });
    throw new HookInferenceError(text, admission);
  }
  let reply: DriverReply | null = null;
  let failure: DriverFailure | null = null;
  try {
    const outcome = readDriverResult(
      await services.callDriver(payload.json, { text: () => {}, thinking: () => {} }, signal),
    );
    if (outcome.kind === "failure") failure = outcome.failure;
    else if (outcome.reply.error !== null) {
      failure = { message: outcome.reply.error, cause: "driver_error", errorCode: "driver_error" };
    } else reply = outcome.reply;
  } catch (cause) {
    if (!(cause instanceof ComponentFailure)) throw cause;
    failure = dispatchFailure(reasonOf(cause));
  }
  if (reply === null) {
    await admission.settle(inputTokens, 0);
    const status = services.providerStatus();
    const message = services.redact(failure?.message ?? "driver returned error");
    trace.write("inference", {
      turn,
      task_id: taskId,
      input_tokens: inputTokens,
      decision: "error",
      stop_reason: "error",
      tool_name: null,
      origin,
      model,
      error_code: failure?.errorCode ?? "driver_error",
      error: message,
      ...(status === null ? {} : { provider_status: status }),
    });
    throw new HookInferenceError(message);
  }
  const outputTokens = await tokens.text(reply.body);
  await admission.settle(inputTokens, outputTokens);
  trace.write("inference", {
    turn,
    task_id: taskId,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    decision: "end_turn",
    tool_name: null,
    origin,
    model,
  });
  return { text: joinedText(reply), modelUsed: model, inputTokens, outputTokens };
}
