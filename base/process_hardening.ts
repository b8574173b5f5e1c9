/**
 * Closing this process to others of the same user, as its first act (spec containment 11, 19.11).
 *
 * @module
 */
import { libc, PRCTL } from "./libc.ts";

/**
 * No other process of this user may attach to this one or read its memory and environment, and no child inherits a
 * descriptor that this process was itself given. Linux only; elsewhere it does nothing.
 */
export function hardenProcess(): void {
  if (Deno.build.os !== "linux") return;
  const c = libc();
  c.prctl(PRCTL.SET_DUMPABLE, 0);
  // The lifelines and the formation channel come without the flag.
  c.closeOnExecFrom(3);
}
