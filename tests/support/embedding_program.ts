/**
 * A program with a capsule in it, for what can't be done to the tests' own process: gives it the task of its argument and
 * says as JSON how everything that follows it ended.
 *
 * @module
 */
import { type CapsuleEvent, launchCapsule } from "../../mod.ts";

async function typesOf(events: AsyncIterable<CapsuleEvent>): Promise<readonly string[]> {
  const types: string[] = [];
  for await (const { type } of events) types.push(type);
  return types;
}

const capsule = await launchCapsule({});
const session = typesOf(capsule.events);
const task = capsule.send(Deno.args[0]!);
const events = await typesOf(task.events);
const result = await task.result;
const code = await capsule.ended.then(() => null, ({ code }) => code);
console.log(JSON.stringify({ events, result, code, session: await session, late: await typesOf(capsule.events) }));
