/**
 * The AppArmor profile that lets the containment helper make user namespaces on hosts that keep them from programs without
 * one (spec containment 1.5). It names one root-owned file: on a file that a user can write it would hand every program of
 * that user the same.
 *
 * @module
 */
import { SYSTEM_HELPER } from "./confine_helper.ts";

/** Where it is installed. */
export const APPARMOR_PROFILE = "/etc/apparmor.d/mur-sealed";

/** The profile's text for a helper. */
export function profileText(helper: string = SYSTEM_HELPER): string {
  return `# Lets Murmur's containment helper, and no other program, make user namespaces. Written by mur setup; changes of
# your own go to /etc/apparmor.d/local/mur-sealed.
abi <abi/4.0>,
include <tunables/global>

profile mur-sealed ${helper} flags=(unconfined) {
  userns,

  include if exists <local/mur-sealed>
}
`;
}

/** Whether the kernel runs AppArmor. */
export function appArmorEnabled(): boolean {
  try {
    return /^[Y1]/.test(Deno.readTextFileSync("/sys/module/apparmor/parameters/enabled"));
  } catch {
    return false;
  }
}
