/**
 * A runtime of its own whose guest spins; prints the ids of its host processes. For a test that kills it.
 *
 * @module
 */
import { checkoutHelper } from "../../../sandbox/confine_helper.ts";
import { componentHostScript } from "../host_program.ts";
import { everythingTool, Harness } from "./harness.ts";

const harness = new Harness({ confineHelper: await checkoutHelper(), hostScript: await componentHostScript() });
const spec = await harness.spec(await everythingTool());
await harness.spin(spec);
console.log(JSON.stringify({ directory: harness.directory, pids: harness.runtime.pids }));
