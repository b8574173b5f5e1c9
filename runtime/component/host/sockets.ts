/**
 * `wasi:sockets` 0.2 on the host's side: the interfaces link, every socket and every lookup is refused (spec components
 * 3.1). Whatever a guest could do with a socket needs one first, so the methods of sockets are never reached.
 *
 * @module
 */
import { Refusal } from "./refusal.ts";

function denied(): never {
  throw new Refusal("access-denied");
}

class Unreachable {
  [Symbol.dispose](): void {}
}

/** `wasi:sockets/network.network`. */
class Network extends Unreachable {}
/** `wasi:sockets/tcp.tcp-socket`. */
class TcpSocket extends Unreachable {}
/** `wasi:sockets/udp.udp-socket`. */
class UdpSocket extends Unreachable {}
/** `wasi:sockets/udp.incoming-datagram-stream`. */
class IncomingDatagramStream extends Unreachable {}
/** `wasi:sockets/udp.outgoing-datagram-stream`. */
class OutgoingDatagramStream extends Unreachable {}
/** `wasi:sockets/ip-name-lookup.resolve-address-stream`. */
class ResolveAddressStream extends Unreachable {}

for (
  const [resource, methods] of [
    [TcpSocket, [
      "startBind",
      "finishBind",
      "startConnect",
      "finishConnect",
      "startListen",
      "finishListen",
      "accept",
      "localAddress",
      "remoteAddress",
      "isListening",
      "addressFamily",
      "setListenBacklogSize",
      "keepAliveEnabled",
      "setKeepAliveEnabled",
      "keepAliveIdleTime",
      "setKeepAliveIdleTime",
      "keepAliveInterval",
      "setKeepAliveInterval",
      "keepAliveCount",
      "setKeepAliveCount",
      "hopLimit",
      "setHopLimit",
      "receiveBufferSize",
      "setReceiveBufferSize",
      "sendBufferSize",
      "setSendBufferSize",
      "subscribe",
      "shutdown",
    ]],
    [UdpSocket, [
      "startBind",
      "finishBind",
      "stream",
      "localAddress",
      "remoteAddress",
      "addressFamily",
      "unicastHopLimit",
      "setUnicastHopLimit",
      "receiveBufferSize",
      "setReceiveBufferSize",
      "sendBufferSize",
      "setSendBufferSize",
      "subscribe",
    ]],
    [IncomingDatagramStream, ["receive", "subscribe"]],
    [OutgoingDatagramStream, ["checkSend", "send", "subscribe"]],
    [ResolveAddressStream, ["resolveNextAddress", "subscribe"]],
  ] as const
) {
  // The glue binds the methods by name when it links.
  for (const method of methods) Object.defineProperty(resource.prototype, method, { value: denied });
}

/** The interfaces of `wasi:sockets`. */
export const SOCKETS = {
  "wasi:sockets/network": { Network, networkErrorCode: () => undefined },
  "wasi:sockets/instance-network": { instanceNetwork: () => new Network() },
  "wasi:sockets/ip-name-lookup": { resolveAddresses: denied, ResolveAddressStream },
  "wasi:sockets/tcp": { TcpSocket },
  "wasi:sockets/tcp-create-socket": { createTcpSocket: denied },
  "wasi:sockets/udp": { UdpSocket, IncomingDatagramStream, OutgoingDatagramStream },
  "wasi:sockets/udp-create-socket": { createUdpSocket: denied },
} as const;
