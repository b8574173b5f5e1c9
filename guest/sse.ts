/**
 * Server-sent events as an async iterable (WHATWG HTML 9.2): `for await (const event of serverSentEvents(response))`.
 *
 * @module
 */
import { createParser, type EventSourceMessage } from "eventsource-parser";

/** One event. */
export interface ServerSentEvent {
  /** `event:` of the message, `message` when it named none. */
  readonly event: string;
  /** `data:` lines, joined by newlines. */
  readonly data: string;
  /** `id:` of the message. */
  readonly id: string | undefined;
}

/**
 * The events of a response, as they come. Leaving the loop early cancels the response.
 *
 * @param source A response, its body, or anything that gives bytes.
 */
export async function* serverSentEvents(
  source: { readonly body: AsyncIterable<Uint8Array> | null } | AsyncIterable<Uint8Array>,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  const body = "body" in source ? source.body : source;
  if (body === null) return;
  let events: ServerSentEvent[] = [];
  const parser = createParser({
    onEvent(message: EventSourceMessage) {
      events.push({ event: message.event ?? "message", data: message.data, id: message.id });
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    const ready = events;
    events = [];
    yield* ready;
  }
}
