/**
 * A socket that listens on 127.0.0.1 and whose calls do not wait, nor those of its connections.
 *
 * @module
 */
import type { Libc } from "../base/libc.ts";
import { ADDRESS_FAMILY, LOOPBACK, portOfAddress, socketAddress } from "../base/socket_address.ts";

/** A socket that listens. */
export interface LoopbackListener {
  readonly fd: number;
  readonly port: number;
}

/** Connections that wait to be accepted, as Deno's own listeners hold. */
const BACKLOG = 511;

/**
 * Binds and listens.
 *
 * @param port 0 takes a free one.
 * @returns A negative error number when the system refuses.
 */
export function listenOnLoopback(c: Libc, port: number): LoopbackListener | number {
  const fd = c.tcpSocket(ADDRESS_FAMILY[4]);
  if (fd < 0) return fd;
  const address = socketAddress(LOOPBACK, port);
  let result = c.reuseAddress(fd);
  if (result >= 0) result = c.sendAtOnce(fd);
  if (result >= 0) result = c.bind(fd, address);
  if (result >= 0) result = c.listen(fd, BACKLOG);
  if (result >= 0 && port === 0) result = c.getsockname(fd, address);
  if (result < 0) {
    c.close(fd);
    return result;
  }
  return { fd, port: portOfAddress(address) };
}
