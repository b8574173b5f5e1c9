/**
 * `mur schema`: the JSON Schema of `murmur.yaml` for editors (spec manifest 20.6).
 *
 * @module
 */
import { manifestSchema } from "../artifact/manifest/manifest_schema.ts";
import type { CliContext } from "./context.ts";

/** Prints the schema. */
export function schema(context: CliContext): Promise<number> {
  context.stdout.line(JSON.stringify(manifestSchema(), null, 2));
  return Promise.resolve(0);
}
