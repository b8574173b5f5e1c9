/**
 * `mur` whose teardown is cut short after a second and whose report of a delegation may take much longer.
 *
 * @module
 */
import { DEFAULT_TIME_BOUNDS } from "../../base/time_bounds.ts";
import { processContext } from "../../cli/context.ts";
import { main } from "../../cli/main.ts";

Deno.exit(await main(Deno.args, processContext({ ...DEFAULT_TIME_BOUNDS, teardown: 1_000, completionPost: 60_000 })));
