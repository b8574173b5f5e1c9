/**
 * The daemon's HTTP server with a handler of a test's own, as a process whose descriptors are few. A moment after
 * `GET /hold?<ms>` it takes all that are left, and gives them back after so many milliseconds.
 *
 * @module
 */
import { libc } from "../../base/libc.ts";
import { MAX_CONNECTIONS, serveHttp } from "../http_server.ts";
import { listenOnLoopback } from "../loopback_listener.ts";

const c = libc();
const listener = listenOnLoopback(c, 0);
if (typeof listener === "number") throw new TypeError(`no socket: error ${-listener}`);

// As the daemon does, and before descriptors are short: Deno cannot do without for the first signal it handles.
Deno.addSignalListener("SIGTERM", () => Deno.exit(0));

/** When the answer is on its way and its connection may have ended. */
const HOLD_LATER_MS = 100;

function holdAll(ms: number): void {
  const held: number[] = [];
  for (let fd = c.epollCreate(); fd >= 0; fd = c.epollCreate()) held.push(fd);
  setTimeout(() => held.forEach((fd) => c.close(fd)), ms);
}

serveHttp(c, listener, {
  handler({ target }) {
    const [path, ms] = target.split("?");
    if (path === "/hold") setTimeout(holdAll, HOLD_LATER_MS, Number(ms));
    return { status: 200, body: "{}" };
  },
  requestMs: 60_000,
  maxConnections: MAX_CONNECTIONS,
});
console.log(listener.port);
