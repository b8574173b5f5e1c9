import assert from "node:assert/strict";
import { parseIpAddress } from "./ip_address.ts";
import { libc } from "./libc.ts";
import { ADDRESS_FAMILY, LOOPBACK, portOfAddress, socketAddress } from "./socket_address.ts";

Deno.test("an address is laid out as the kernel has it", () => {
  assert.deepEqual([...socketAddress(LOOPBACK, 0x1234)], [2, 0, 0x12, 0x34, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
  const v6 = socketAddress(parseIpAddress("2001:db8::1")!, 443);
  assert.deepEqual([...v6], [10, 0, 1, 187, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, ...Array(11).fill(0), 1, 0, 0, 0, 0]);
  assert.equal(portOfAddress(v6), 443);
  const c = libc();
  const fd = c.tcpSocket(ADDRESS_FAMILY[4]);
  assert.ok(c.bind(fd, socketAddress(LOOPBACK, 0)) >= 0);
  const bound = socketAddress(LOOPBACK, 0);
  assert.ok(c.getsockname(fd, bound) >= 0);
  assert.ok(portOfAddress(bound) > 0);
  assert.deepEqual(bound, socketAddress(LOOPBACK, portOfAddress(bound)));
  c.close(fd);
});
