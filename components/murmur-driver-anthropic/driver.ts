/**
 * Model driver for the Anthropic Messages API and servers that speak it.
 *
 * @module
 */
import { defineDriver } from "murmur/driver";
import { env } from "murmur/environment";
import { ambientWorld } from "../driver_support/ambient_world.ts";
import { anthropicConfig } from "./anthropic_config.ts";
import { inferMessages } from "./messages_inference.ts";

export default defineDriver({
  infer(request, context) {
    const endpoint = env("MURMUR_INFERENCE_ENDPOINT") ?? "";
    if (endpoint === "") throw new Error("no endpoint: the driver's entry needs gateway.endpoint");
    const key = env("MURMUR_INFERENCE_API_KEY");
    const config = anthropicConfig(env("MURMUR_INFERENCE_DRIVER_CONFIG"));
    // Only the older form of the manifest hands a key to the driver; behind a gateway there is none here.
    const headers = key === undefined ? config.headers : { ...config.headers, "x-api-key": key };
    return inferMessages(request, context, { ...config, headers }, endpoint, ambientWorld());
  },
});
