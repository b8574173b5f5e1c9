/**
 * What requests to registries and install sources say they come from (spec cli 8).
 *
 * @module
 */
import { VERSION } from "../../base/version.ts";

/** The product's name and version. */
export const USER_AGENT = `murmur-cli/${VERSION}`;
