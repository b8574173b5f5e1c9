/**
 * Which addresses a connection may be made to, given the host that a rule names (spec components 3.6): a name opens public
 * addresses only, `localhost` the loopback ones only, an address literal itself and nothing else. One judgement for
 * component requests, the runtime's own requests and the relay of commands (spec containment 9.3).
 *
 * @module
 */
import { addressKind, type IpAddress, parseIpAddress, sameIpAddress } from "./ip_address.ts";

/** What a host opens. */
export type AddressRule =
  | { readonly kind: "public" }
  | { readonly kind: "loopback" }
  | { readonly kind: "literal"; readonly address: IpAddress };

/**
 * The rule of a host in the normal form of a URL (lower case, IPv6 in brackets). As rule and request have equal hosts
 * wherever they match, the host of either gives the same answer.
 */
export function addressRuleFor(host: string): AddressRule {
  const address = parseIpAddress(host);
  if (address !== null) return { kind: "literal", address };
  return host === "localhost" ? { kind: "loopback" } : { kind: "public" };
}

/** Whether the rule opens the address. */
export function addressAdmitted(rule: AddressRule, address: IpAddress): boolean {
  switch (rule.kind) {
    case "public":
      return addressKind(address) === "public";
    case "loopback":
      return addressKind(address) === "loopback";
    case "literal":
      return sameIpAddress(rule.address, address);
  }
}
