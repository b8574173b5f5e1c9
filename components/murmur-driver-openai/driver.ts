/**
 * Model driver for the OpenAI Chat Completions API and servers that speak it.
 *
 * @module
 */
import { defineDriver } from "murmur/driver";
import { env } from "murmur/environment";
import { ambientWorld } from "../driver_support/ambient_world.ts";
import { inferChat } from "./chat_inference.ts";
import { openAiConfig } from "./openai_config.ts";

export default defineDriver({
  infer(request, context) {
    const endpoint = env("MURMUR_INFERENCE_ENDPOINT") ?? "";
    if (endpoint === "") throw new Error("no endpoint: the driver's entry needs gateway.endpoint");
    const key = env("MURMUR_INFERENCE_API_KEY");
    const config = openAiConfig(env("MURMUR_INFERENCE_DRIVER_CONFIG"));
    // Only the older form of the manifest hands a key to the driver; behind a gateway there is none here.
    const headers = key === undefined ? config.headers : { ...config.headers, authorization: `Bearer ${key}` };
    return inferChat(request, context, { ...config, headers }, endpoint, ambientWorld());
  },
});
