/**
 * Reading the environment of this process. Paths, addresses and keys are text here, so a variable whose bytes are no UTF-8
 * is refused. Deno refuses it as well, but in words that quote its value, and that may be a key.
 *
 * @module
 */
import { MurError } from "./errors.ts";

/**
 * A variable of this process; `undefined` when it is not set.
 *
 * @throws {MurError} `E-IO-003`, which names the variable and not its value, when its bytes are not UTF-8.
 */
export function readVariable(name: string): string | undefined {
  try {
    return Deno.env.get(name);
  } catch (error) {
    // Not kept as the cause: whoever shows that shows the value.
    if (!(error instanceof Deno.errors.InvalidData)) throw error;
    throw new MurError("E-IO-003", `the value of ${name} in the environment is not UTF-8`, {
      hint: `set ${name} to text, or unset it`,
    });
  }
}
