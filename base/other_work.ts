/**
 * Leaving the thread to others in the midst of long work.
 *
 * @module
 */

/** Turns that others get: in one a request is accepted and read, in the next it is answered, in the last that is sent. */
const TURNS = 3;

/**
 * Lets whatever is ready go on: requests, timers, answers that are to be sent.
 *
 * Only an answer from another thread makes Deno look after its connections meanwhile; a message to itself, however often,
 * does not. The question does not matter. It takes a tenth of a millisecond, a timer of no time at all two.
 */
export async function letOthersWork(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await Deno.lstat("/");
}
