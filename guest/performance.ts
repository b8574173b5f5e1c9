/**
 * `performance.now`. The engine's own counts from the build of the component.
 *
 * @module
 */
import { monotonicMs } from "./event_loop.ts";

let origin: number | null = null;

/** The global `performance`. */
export const performance = {
  /** Milliseconds since its first use in this instance, to the microsecond. */
  now(): number {
    const now = monotonicMs();
    origin ??= now;
    return Math.round((now - origin) * 1000) / 1000;
  },
} as const;
