/**
 * Being the first process of a PID namespace, as a container's command is: the kernel makes every orphan of it this
 * process's child, and spares it the signals it does not handle. The helper takes that place instead.
 *
 * @module
 */
import { type CString, cString, libc } from "../base/libc.ts";
import { ownHelper } from "./confine_helper.ts";

/**
 * When this is the first process, the helper takes its place and starts this very command line again as its child; then this
 * does not return. Elsewhere, and where it can't be done, nothing happens. To be called before anything was begun.
 */
export async function leaveFirstPlace(): Promise<void> {
  if (Deno.pid !== 1 || Deno.build.os !== "linux") return;
  try {
    const helper = await ownHelper();
    const own = (await Deno.readTextFile("/proc/self/cmdline")).split("\0").slice(0, -1);
    const args = ["mur-confine", "init", Deno.execPath(), ...own].map(cString);
    const path = cString(helper);
    if (path !== null && args.every((arg) => arg !== null)) libc().execute(path, args as CString[]);
  } catch {
    // It runs as it is: only what it does not reap and hear is the worse for it.
  }
}
