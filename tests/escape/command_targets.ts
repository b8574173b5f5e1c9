/**
 * What the attack program's attempts reach for.
 *
 * @module
 */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { elfClosure } from "../../sandbox/elf_closure.ts";

/** Directories of an attack. */
export interface AttackedPlace {
  readonly workdir: string;
  /** Another that commands may write. */
  readonly tmp: string;
  /** What no command may touch: a folder of the same user. */
  readonly outside: string;
}

/** A device that only root can make: it stands for what the host has of them. */
async function makeDevice(path: string): Promise<void> {
  await Deno.remove(path).catch(() => {});
  if (Deno.uid() !== 0) return;
  assert.ok((await new Deno.Command("mknod", { args: [path, "c", "1", "5"] }).output()).success);
}

function writeFile(path: string, text: string, mode = 0o644): void {
  Deno.writeTextFileSync(path, text);
  Deno.chmodSync(path, mode);
}

/** Puts into a place what the attempts reach for, as fresh as for the first. */
export async function prepare(place: AttackedPlace, program: string): Promise<void> {
  const names = ["secret", "victim", "unlinked", "renamed", "moved"];
  for (const name of [...names, ...[1, 2, 3, 4].map((i) => `truncated-${i}`)]) {
    writeFile(`${place.outside}/${name}`, name, 0o600);
  }
  for (const name of ["readable", "exported", "exchanged"]) writeFile(`${place.workdir}/${name}`, name);
  writeFile(`${place.outside}/exchanged`, "exchanged", 0o600);
  await makeDevice(`${place.outside}/device`);
  for (const name of ["hard", "device", "fresh", "bound"]) {
    await Deno.remove(`${place.workdir}/${name}`).catch(() => {});
  }
  for (const name of ["created", "made", "linked"]) await Deno.remove(`${place.outside}/${name}`).catch(() => {});
  for (const path of [`${place.tmp}/device`, "/dev/shm/mur-attack"]) await Deno.remove(path).catch(() => {});
  for (const directory of [place.workdir, place.tmp, place.outside]) {
    await Deno.copyFile(program, `${directory}/attack`);
    await Deno.chmod(`${directory}/attack`, 0o755);
  }
  await Deno.copyFile("/bin/true", `${place.workdir}/dynamic`);
  writeFile(`${place.workdir}/script`, "#!/bin/sh\nexit 0\n", 0o755);
  await Deno.remove(`${place.workdir}/symlink`).catch(() => {});
  await Deno.symlink(`${place.outside}/secret`, `${place.workdir}/symlink`);
}

/** Everything an attack reaches for beside files: a process with what it holds, listeners, and what arrived at them. */
export class Targets implements AsyncDisposable {
  readonly #tcp = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #udp = createSocket("udp4");
  readonly #sockets: Deno.UnixListener[];
  readonly #other: Deno.ChildProcess;
  readonly #said: Promise<string>;
  readonly #key: string;
  readonly abstractName = `mur-attack-${crypto.randomUUID()}`;
  #terminal = "";
  datagrams = 0;

  private constructor(
    place: Pick<AttackedPlace, "outside">,
    program: string,
    key: string,
    terminal: PromiseWithResolvers<string>,
  ) {
    this.#key = key;
    this.#sockets = [Deno.listen({ transport: "unix", path: `${place.outside}/socket` })];
    this.#udp.on("message", () => this.datagrams++);
    const other = new Deno.Command(program, {
      args: ["be-target", place.outside, key],
      cwd: place.outside,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#other = other;
    this.#said = (async () => {
      let text = "";
      for await (const chunk of other.stdout.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        if (text.includes("\n")) terminal.resolve(text.slice(0, text.indexOf("\n")));
      }
      terminal.reject(new Error("there is no target"));
      return text.slice(text.indexOf("\n") + 1);
    })();
  }

  static async open(place: Pick<AttackedPlace, "outside">, program: string): Promise<Targets> {
    for (const name of ["socket", "datagrams"]) await Deno.remove(`${place.outside}/${name}`).catch(() => {});
    const terminal = Promise.withResolvers<string>();
    const key = String(crypto.getRandomValues(new Uint16Array(1))[0]! + 1);
    const targets = new Targets(place, program, key, terminal);
    targets.#terminal = await terminal.promise;
    await new Promise<void>((resolve) => targets.#udp.bind(0, "127.0.0.1", resolve));
    // Deno takes a leading NUL as the abstract name it is.
    targets.#sockets.push(Deno.listen({ transport: "unix", path: `\0${targets.abstractName}` }));
    return targets;
  }

  arguments(place: Pick<AttackedPlace, "outside" | "workdir">, scratch: string, loader: string): string[] {
    const ports = [this.#tcp.addr.port, this.#udp.address().port];
    return [
      ...[place.outside, place.workdir, scratch, this.#other.pid, ...ports, this.abstractName, loader, this.#key],
      this.#terminal,
    ].map(String);
  }

  /** Ends the process; what it was sent, a line each. */
  async end(): Promise<string[]> {
    await this.#other.stdin.close().catch(() => {});
    const said = await this.#said;
    await this.#other.status;
    return said.split(/\r?\n/).filter((line) => line !== "").sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    this.#tcp.close();
    this.#udp.close();
    for (const socket of this.#sockets) socket.close();
  }
}

/** The program that loads `/bin/true` and its libraries. */
export function loaderOf(): string {
  const loader = elfClosure(Deno.realPathSync("/bin/true")).find((path) => /\/ld-[^/]*$/.test(path));
  assert.ok(loader !== undefined, "/bin/true has no loader");
  return loader;
}
