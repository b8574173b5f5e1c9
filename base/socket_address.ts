/**
 * Addresses of sockets as the kernel takes them. Pure.
 *
 * @module
 */
import type { IpAddress } from "./ip_address.ts";

/** Numbers of the address families, as Linux counts them. */
export const ADDRESS_FAMILY = { 4: 2, 6: 10 } as const;

/** 127.0.0.1. */
export const LOOPBACK: IpAddress = { version: 4, bytes: Uint8Array.of(127, 0, 0, 1) };

/** A `sockaddr_in` or `sockaddr_in6`: its family in the machine's order, port and address in the network's. */
export function socketAddress({ version, bytes }: IpAddress, port: number): Uint8Array<ArrayBuffer> {
  const address = new Uint8Array(version === 4 ? 16 : 28);
  address[0] = ADDRESS_FAMILY[version];
  address[2] = port >> 8;
  address[3] = port & 0xff;
  // That of IPv6 stands behind a flow label.
  address.set(bytes, version === 4 ? 4 : 8);
  return address;
}

/** The port of such an address. */
export function portOfAddress(address: Uint8Array): number {
  return address[2]! << 8 | address[3]!;
}
