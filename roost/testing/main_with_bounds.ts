/**
 * `mur-roost` with other time bounds than the product's: a JSON object of them, then its own arguments.
 *
 * @module
 */
import { DEFAULT_TIME_BOUNDS } from "../../base/time_bounds.ts";
import { main } from "../main.ts";

const [bounds, ...args] = Deno.args;
Deno.exit(await main(args, { ...DEFAULT_TIME_BOUNDS, ...JSON.parse(bounds!) }));
