/**
 * The component host: a process without any permission that runs components and asks the runtime for every effect over
 * its standard input and output (spec components 3.9). Imports nothing but its own files, so that it can be handed over
 * as one piece of text.
 *
 * @module
 */
import { type Message, MessageType } from "../frames.ts";
import { bindFilesystem } from "./filesystem.ts";
import { bindHttp, resetHttp } from "./http.ts";
import { callInstance, loadComponent, type LoadedComponent, openInstance, runCall } from "./instance.ts";
import { Pipe, PipeClosed } from "./pipe.ts";
import { bindStreams } from "./streams.ts";

const PERMISSIONS = ["read", "write", "net", "env", "sys", "run", "ffi", "import"] as const;

/** Gives up whatever the process was started with. */
function dropPermissions(): void {
  for (const name of PERMISSIONS) Deno.permissions.revokeSync({ name });
}

/** Serves the runtime until the pipe closes. Never returns to an event loop. */
function serve(): void {
  dropPermissions();
  // Glue code looks for a debug flag in the environment by this way, which needs a permission.
  Object.defineProperty(globalThis, "process", { value: undefined, configurable: true });
  const pipe = new Pipe();
  bindStreams(pipe);
  bindFilesystem(pipe);
  bindHttp(pipe);
  const modules = new Map<string, WebAssembly.Module>();
  const components = new Map<string, LoadedComponent>();
  let kept: ReturnType<typeof openInstance> = null;
  const decoder = new TextDecoder();
  pipe.send(MessageType.ready, 0);

  const take = (message: Message) => {
    switch (message.type) {
      case MessageType.module:
        modules.set(message.header.key as string, new WebAssembly.Module(message.body));
        break;
      case MessageType.component: {
        const listed = message.header.modules as [string, string][];
        const own = new Map(listed.map(([name, key]) => [name, modules.get(key)!]));
        components.set(message.header.key as string, loadComponent(decoder.decode(message.body), own));
        break;
      }
      case MessageType.call:
        runCall(pipe, components.get(message.header.key as string)!, message);
        pipe.reset();
        resetHttp();
        break;
      case MessageType.open:
        kept = openInstance(pipe, components.get(message.header.key as string)!, message);
        break;
      case MessageType.callKept:
        callInstance(pipe, kept!, message);
        break;
      case MessageType.sync:
        pipe.send(MessageType.loaded, 0);
        break;
      default:
        pipe.discard(message);
    }
  };
  try {
    for (;;) take(pipe.receive());
  } catch (error) {
    if (!(error instanceof PipeClosed)) throw error;
  }
}

serve();
