/**
 * Checking which error a piece of work fails with.
 *
 * @module
 */
import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";

/** For `assert.throws` and `assert.rejects`: a coded error whose message or hint matches. */
export function withCode(code: string, pattern: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof MurError, String(error));
    assert.equal(error.code, code);
    assert.match(`${error.message}\n${error.hint ?? ""}`, pattern);
    return true;
  };
}
