import assert from "node:assert/strict";
import { ConfigError } from "../driver_support/config_reader.ts";
import { anthropicConfig } from "./anthropic_config.ts";
import { messagesUrl } from "./messages_request.ts";

Deno.test("the endpoint may carry the version or a path", () => {
  assert.equal(messagesUrl("http://127.0.0.1:9"), "http://127.0.0.1:9/v1/messages");
  assert.equal(messagesUrl("http://127.0.0.1:9/"), "http://127.0.0.1:9/v1/messages");
  assert.equal(messagesUrl("http://127.0.0.1:9/v1"), "http://127.0.0.1:9/v1/messages");
  assert.equal(messagesUrl("http://127.0.0.1:9/anthropic"), "http://127.0.0.1:9/anthropic/v1/messages");
});

Deno.test("a setting nobody knows or of the wrong kind is refused", () => {
  for (const json of ['{"modle":1}', '{"temperature":"hot"}', '{"cache_ttl":"2h"}', '{"thinking":"yes"}']) {
    assert.throws(() => anthropicConfig(json), ConfigError);
  }
});
