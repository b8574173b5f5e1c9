/**
 * Connections to judged addresses: a name is resolved once, its addresses are judged, and the connection is made to one of
 * those and no other, with TLS still verifying the name (spec components 3.6).
 *
 * @module
 */
import type { Socket } from "node:net";
import { addressAdmitted, type AddressRule, addressRuleFor } from "./address_rule.ts";
import { abortError, HttpError, httpError } from "./http_error.ts";
import { formatIpAddress, type IpAddress } from "./ip_address.ts";
import type { NameResolver } from "./name_resolver.ts";
import type { TimeBounds } from "./time_bounds.ts";

/** Largest head of a proxy's answer in bytes. */
const MAX_PROXY_HEAD = 16_384;
/** Addresses of one name that are tried. */
const MAX_ADDRESSES = 6;

/** The platform's modules, loaded at the first request: they cost 45 ms. */
export interface NodeModules {
  readonly http: typeof import("node:http");
  readonly https: typeof import("node:https");
  readonly net: typeof import("node:net");
  readonly tls: typeof import("node:tls");
}

let modules: Promise<NodeModules> | undefined;

export function nodeModules(): Promise<NodeModules> {
  return modules ??= Promise.all([
    import("node:http"),
    import("node:https"),
    import("node:net"),
    import("node:tls"),
  ]).then(([http, https, net, tls]) => ({ http, https, net, tls }));
}

/** What a connection is opened for; equal routes share idle connections. */
export interface Route {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  readonly proxy: URL | null;
}

/** Port of a URL, explicit or of its scheme. */
export function portOf(url: URL): number {
  return url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
}

/** Name for TLS: the host without a trailing dot, empty for an address. */
function serverName(host: string): string {
  return addressRuleFor(host).kind === "literal" ? "" : host.replace(/\.$/, "");
}

export interface ConnectorOptions {
  readonly resolver: NameResolver;
  readonly bounds: Pick<TimeBounds, "httpConnect">;
  readonly caCertificates?: readonly string[];
}

/** Opens connections. */
export type Connector = (node: NodeModules, route: Route, signal: AbortSignal) => Promise<Socket>;

/** A connector; every failure is an {@linkcode HttpError}, or the reason of the signal. */
export function createConnector({ resolver, bounds, caCertificates }: ConnectorOptions): Connector {
  const trust = caCertificates === undefined ? {} : { ca: [...caCertificates] };

  /** Judged addresses of a host. A proxy is the operator's choice and may lie anywhere. */
  async function judged(host: string, rule: AddressRule | null, signal: AbortSignal): Promise<readonly IpAddress[]> {
    const found = await resolver.resolve(host, signal);
    if (found.kind === "no-such-name") throw new HttpError("no-such-name", `the name '${host}' has no address`);
    if (found.kind === "no-answer") {
      throw new HttpError("name-timeout", `the name '${host}' could not be resolved: ${found.reason}`);
    }
    if (rule === null) return found.addresses;
    const admitted = found.addresses.filter((address) => addressAdmitted(rule, address));
    if (admitted.length === 0) {
      throw new HttpError(
        "address-refused",
        `'${host}' has no public address (${found.addresses.map(formatIpAddress).join(", ")}); ` +
          "a private or loopback address is reached only by a rule that names it literally, or 'localhost'",
      );
    }
    return admitted;
  }

  async function dialAddress(node: NodeModules, address: IpAddress, port: number, host: string, signal: AbortSignal) {
    signal.throwIfAborted();
    const socket = node.net.connect({ host: formatIpAddress(address), port });
    socket.setNoDelay(true);
    return await established(socket, "connect", host, signal);
  }

  /** Waits for `event` of a socket; an abort or error destroys it. */
  function established(socket: Socket, event: "connect" | "secureConnect", host: string, signal: AbortSignal) {
    return new Promise<Socket>((resolve, reject) => {
      const settle = (finish: () => void) => {
        signal.removeEventListener("abort", onAbort);
        socket.removeListener(event, onReady);
        socket.removeListener("error", onError);
        socket.removeListener("close", onClose);
        finish();
      };
      const fail = (error: unknown) =>
        settle(() => {
          socket.on("error", () => {});
          socket.destroy();
          reject(error);
        });
      const onReady = () => settle(() => resolve(socket));
      const onError = (error: Error) => fail(httpError(error, host));
      const onClose = () => fail(new HttpError("connection-terminated", `${host} closed the connection`));
      const onAbort = () => fail(signal.reason);
      socket.once(event, onReady);
      socket.once("error", onError);
      socket.once("close", onClose);
      signal.addEventListener("abort", onAbort);
      if (signal.aborted) onAbort();
    });
  }

  /** Tries the addresses one after the other; each has its share of what is left of the time to connect. */
  async function dial(node: NodeModules, host: string, port: number, addresses: readonly IpAddress[], until: Deadline) {
    const tried = addresses.slice(0, MAX_ADDRESSES);
    let last: unknown;
    for (const [index, address] of tried.entries()) {
      const share = AbortSignal.timeout(Math.max(1, Math.ceil(until.left() / (tried.length - index))));
      try {
        return await dialAddress(node, address, port, host, AbortSignal.any([until.signal, share]));
      } catch (error) {
        if (until.signal.aborted) throw error;
        last = share.aborted ? timeoutError(host) : error;
      }
    }
    throw last;
  }

  function timeoutError(host: string): HttpError {
    return new HttpError("connection-timeout", `${host}: no connection within ${bounds.httpConnect} ms`);
  }

  async function secured(node: NodeModules, socket: Socket, host: string, signal: AbortSignal): Promise<Socket> {
    const servername = serverName(host);
    const tls = node.tls.connect({
      socket,
      // `host` is what the certificate is checked against when there is no server name: an address.
      host: host.replace(/^\[|\]$/g, ""),
      servername,
      ALPNProtocols: ["http/1.1"],
      ...trust,
    });
    try {
      return await established(tls, "secureConnect", host, signal);
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  /** A tunnel through the proxy (CONNECT). */
  function tunnelled(node: NodeModules, socket: Socket, route: Route, signal: AbortSignal): Promise<Socket> {
    const authority = `${route.host}:${route.port}`;
    return new Promise((resolve, reject) => {
      const request = node.http.request({
        method: "CONNECT",
        path: authority,
        headers: { host: authority },
        createConnection: () => socket,
        maxHeaderSize: MAX_PROXY_HEAD,
      });
      const fail = (error: unknown) => {
        signal.removeEventListener("abort", onAbort);
        request.destroy();
        socket.destroy();
        reject(error);
      };
      const onAbort = () => fail(signal.reason);
      signal.addEventListener("abort", onAbort);
      request.on("connect", (response, tunnel: Socket, head) => {
        signal.removeEventListener("abort", onAbort);
        if (response.statusCode === undefined || response.statusCode < 200 || response.statusCode > 299) {
          fail(new HttpError("proxy", `the proxy refused a tunnel to ${authority}: ${response.statusCode}`));
        } else {
          if (head.length > 0) tunnel.unshift(head);
          resolve(tunnel);
        }
      });
      request.on("response", (response) => {
        fail(new HttpError("proxy", `the proxy refused a tunnel to ${authority}: ${response.statusCode}`));
      });
      request.on("error", (error) => {
        fail(new HttpError("proxy", `the proxy failed before ${authority}: ${error.message}`, error));
      });
      request.end();
    });
  }

  async function connect(node: NodeModules, route: Route, signal: AbortSignal): Promise<Socket> {
    const first = route.proxy;
    const host = first === null ? route.host : first.hostname;
    const port = first === null ? route.port : portOf(first);
    // A name that takes long has its own bound; the time to connect starts with the addresses.
    const addresses = await judged(host, first === null ? addressRuleFor(route.host) : null, signal);
    const until = deadline(bounds.httpConnect, signal);
    try {
      let socket = await dial(node, host, port, addresses, until);
      if (first?.protocol === "https:") socket = await secured(node, socket, host, until.signal);
      if (first !== null && route.secure) socket = await tunnelled(node, socket, route, until.signal);
      if (route.secure) socket = await secured(node, socket, route.host, until.signal);
      return socket;
    } catch (error) {
      if (signal.aborted) throw abortError(signal, route.host);
      if (until.signal.aborted) throw timeoutError(host);
      throw error;
    }
  }

  return connect;
}

interface Deadline {
  readonly signal: AbortSignal;
  /** Milliseconds left. */
  left(): number;
}

function deadline(milliseconds: number, signal: AbortSignal): Deadline {
  const end = performance.now() + milliseconds;
  return {
    signal: AbortSignal.any([signal, AbortSignal.timeout(milliseconds)]),
    left: () => Math.max(0, end - performance.now()),
  };
}
