import type { CliContext } from "./context.ts";
import type { RunFlags } from "./application.ts";
export function run(_c: CliContext, _f: RunFlags): Promise<number> {
  return Promise.resolve(0);
}
