/**
 * Leaving the thread to others in the midst of long work.
 *
 * @module
 */

/** Turns that others get: in one a request is accepted and read, in the next it is answered, in the last that is sent. */
const TURNS = 3;

/** How long a short pause is good enough for others, in milliseconds. */
const REST_EVERY_MS = 32;

let restedAt = -Infinity;

/**
 * Lets whatever is ready go on: requests, timers, answers that are to be sent.
 *
 * A timer of no time at all is what surely makes Deno look after all of it, and takes two milliseconds. So it is every now
 * and then; between, an answer from another thread is waited for, whatever it is, which takes a tenth of that. On a machine
 * with more to do than cores that answer is often there before anything else was looked after.
 */
export async function letOthersWork(): Promise<void> {
  if (performance.now() - restedAt < REST_EVERY_MS) {
    for (let turn = 0; turn < TURNS; turn++) await Deno.lstat("/");
    return;
  }
  await new Promise((resolve) => setTimeout(resolve, 0));
  restedAt = performance.now();
}
