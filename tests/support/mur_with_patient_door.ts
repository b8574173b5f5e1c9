/**
 * `mur` whose door waits much longer for open connections at shutdown than its teardown may take.
 *
 * @module
 */
import { DEFAULT_TIME_BOUNDS } from "../../base/time_bounds.ts";
import { processContext } from "../../cli/context.ts";
import { main } from "../../cli/main.ts";

Deno.exit(await main(Deno.args, processContext({ ...DEFAULT_TIME_BOUNDS, doorDrain: 60_000 })));
