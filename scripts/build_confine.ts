/**
 * `deno task build:confine`: builds the containment helper and puts it at `dist/mur-confine`, for packaging.
 *
 * @module
 */
import { writeAtomically } from "../base/atomic_file.ts";
import { formatError, MurError } from "../base/errors.ts";
import { checkoutHelper } from "../sandbox/confine_helper.ts";

try {
  const built = await checkoutHelper();
  const target = decodeURIComponent(new URL("../dist/mur-confine", import.meta.url).pathname);
  const check = await new Deno.Command(built, { args: ["harden-check"], stdin: "null" }).output();
  if (!check.success) throw new MurError("E-IO-003", `the containment helper fails its own check: ${built}`);
  writeAtomically(target, Deno.readFileSync(built), { mode: 0o755 });
  console.log(`${target} (${Deno.statSync(target).size} bytes)`);
} catch (error) {
  if (!(error instanceof MurError)) throw error;
  console.error(formatError(error));
  Deno.exit(1);
}
