import assert from "node:assert/strict";
import { ConfigError, ConfigReader, exchangeConfig } from "./config_reader.ts";

const refused = (work: () => unknown, part: string) =>
  assert.throws(work, (error) => error instanceof ConfigError && error.message.includes(part));

Deno.test("values are read by their type, absent and null ones are undefined", () => {
  const reader = new ConfigReader(
    '{"a":true,"b":"x","c":2,"d":{"k":1},"e":["x"],"f":{"X-A":"1"},"g":"two","h":null}',
  );
  assert.equal(reader.boolean("a"), true);
  assert.equal(reader.text("b"), "x");
  assert.equal(reader.integer("c", 0, 5), 2);
  assert.deepEqual(reader.mapping("d"), { k: 1 });
  assert.deepEqual(reader.texts("e"), ["x"]);
  assert.deepEqual(reader.headers("f"), { "x-a": "1" });
  assert.equal(reader.oneOf("g", ["one", "two"]), "two");
  assert.equal(reader.text("h"), undefined);
  assert.equal(reader.text("absent"), undefined);
  reader.finish();
});

Deno.test("a wrong value names its key and what it must be", () => {
  const reader = new ConfigReader('{"a":1,"b":1.5,"c":99,"d":[1],"e":{"x":1},"f":""}');
  refused(() => reader.boolean("a"), "inference.driver.config.a must be true or false");
  refused(() => reader.text("a"), ".a must be a text");
  refused(() => reader.text("f"), ".f must be a text");
  refused(() => reader.integer("b", 0, 5), ".b must be a whole number");
  refused(() => reader.number("c", 0, 5), ".c must be a number from 0 to 5");
  refused(() => reader.texts("d"), ".d must be a list of texts");
  refused(() => reader.mapping("d"), ".d must be a mapping");
  refused(() => reader.headers("e"), ".e.x must be a text");
  refused(() => reader.oneOf("a", ["x", "y"]), ".a must be one of x, y");
});

Deno.test("a key nobody knows is refused with those that are known", () => {
  const reader = new ConfigReader('{"max_retry":1}');
  reader.integer("max_retries", 0, 5);
  refused(() => reader.finish(), "no key 'max_retry'; it knows max_retries");
});

Deno.test("what is no mapping is refused, nothing is an empty one", () => {
  for (const json of ["[]", "1", "{", '"x"', "null"]) refused(() => new ConfigReader(json), "not a mapping");
  const config = exchangeConfig(new ConfigReader(undefined));
  assert.deepEqual(config, {
    maxRetries: 4,
    maxRetryDelayMs: 60_000,
    idleTimeoutMs: 300_000,
    headers: {},
    extraBody: {},
  });
});
