/**
 * The world of a running component.
 *
 * @module
 */
import type { World } from "./provider_exchange.ts";

/** `fetch`, timers, clock and dice of this program. */
export function ambientWorld(): World {
  return {
    fetch: (url, init) => fetch(url, init),
    sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    now: () => Date.now(),
    random: () => Math.random(),
    log: (line) => console.error(line),
  };
}
