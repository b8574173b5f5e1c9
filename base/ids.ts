/**
 * Generated ids: a prefix and a UUIDv7 in simple form, 32 lowercase hex digits without dashes (spec session 1).
 *
 * @module
 */

/** What a generated id names, by its prefix. */
export type IdKind = "ses" | "tsk" | "ctx" | "msg" | "evt" | "wrk" | "dlg" | "mcl" | "frm" | "dep";

let lastMs = 0;
let sequence = 0;

/**
 * A fresh UUIDv7 as 32 lowercase hex digits. Within one process the values are strictly increasing: the 12 bits after
 * the version count up inside a millisecond, so a lexical sort is the order of minting.
 */
export function uuidV7(now: number = Date.now()): string {
  if (now > lastMs) {
    lastMs = now;
    sequence = 0;
  } else if (++sequence > 0xfff) {
    lastMs += 1;
    sequence = 0;
  }
  const random = crypto.getRandomValues(new Uint8Array(8));
  random[0] = (random[0]! & 0x3f) | 0x80;
  const time = lastMs.toString(16).padStart(12, "0");
  const tail = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${time}7${sequence.toString(16).padStart(3, "0")}${tail}`;
}

/** A fresh id of the given kind, e.g. `ses_019f…`. */
export function newId(kind: IdKind): string {
  return `${kind}_${uuidV7()}`;
}

/** Whether `value` is an id of `kind` as this runtime mints them. */
export function isId(kind: IdKind, value: string): boolean {
  return value.startsWith(`${kind}_`) && /^[0-9a-f]{32}$/.test(value.slice(kind.length + 1));
}
