/**
 * What the benchmarks' model provider answers.
 *
 * @module
 */

/** A chat completion that says hello and ends the turn. */
export function helloCompletion(): Response {
  return Response.json({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hello" } }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
}
