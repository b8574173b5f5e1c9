/**
 * A user who has never run Murmur, with a home nobody has used, on a machine where little but the system lies on the PATH.
 *
 * @module
 */
import assert from "node:assert/strict";

const USER = 65_534;
/** What the example's capsule may call; nothing else is on the user's PATH. */
const COMMANDS = ["sh", "find", "git", "head", "sed", "sort", "uniq", "wc"];

/** What came of a command. */
export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Where and with what a command runs. */
export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly network?: boolean;
  readonly path?: string;
}

/** The user, as whom commands are run when this is root. */
export class FreshUser implements AsyncDisposable {
  /** Letters that mean something in a URL, a shell or a pattern. */
  readonly home: string;
  readonly bin: string;
  readonly commands: string;

  private constructor(readonly root: string) {
    this.home = `${root}/h\u00f6me of #1 50%20?`;
    this.bin = `${this.home}/.local/bin`;
    this.commands = `${root}/commands`;
  }

  static async make(): Promise<FreshUser> {
    const user = new FreshUser(await Deno.makeTempDir({ prefix: "installed " }));
    await Deno.chmod(user.root, 0o755);
    await Deno.mkdir(user.home);
    await Deno.mkdir(user.commands);
    for (const name of COMMANDS) {
      for (const folder of ["/usr/bin", "/bin"]) {
        if (await Deno.stat(`${folder}/${name}`).then(() => true, () => false)) {
          await Deno.symlink(`${folder}/${name}`, `${user.commands}/${name}`);
          break;
        }
      }
    }
    await user.own(user.home);
    return user;
  }

  async own(path: string): Promise<void> {
    if (Deno.uid() === 0) await new Deno.Command("chown", { args: ["-R", `${USER}:${USER}`, path] }).output();
  }

  /** A directory of the user's. */
  async folder(name: string, files: Readonly<Record<string, string>> = {}): Promise<string> {
    const path = `${this.home}/${name}`;
    await Deno.mkdir(path, { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      const place = `${path}/${file}`;
      await Deno.mkdir(place.slice(0, place.lastIndexOf("/")), { recursive: true });
      await Deno.writeTextFile(place, text);
    }
    await this.own(path);
    return path;
  }

  /** The command line that runs another one as this user. */
  under(network = true): string[] {
    if (Deno.uid() !== 0) return network ? [] : ["unshare", "-rn"];
    const become = ["setpriv", `--reuid=${USER}`, `--regid=${USER}`, "--clear-groups", "--no-new-privs"];
    return network ? become : ["unshare", "-n", ...become];
  }

  /** A command of this user's, not started yet. */
  command(
    command: readonly string[],
    { cwd = this.home, env = {}, network = true, path = `${this.bin}:${this.commands}` }: RunOptions = {},
  ): Deno.Command {
    // Found on this process's PATH, not on the user's.
    const [program, ...args] = [...this.under(network), "env", "-C", cwd, `PATH=${path}`, ...command];
    return new Deno.Command(program!, {
      args,
      clearEnv: true,
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: this.home, NO_COLOR: "1", LANG: "C.UTF-8", ...env },
      cwd: "/",
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }

  async run(command: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const { code, stdout, stderr } = await this.command(command, options).output();
    const decoder = new TextDecoder();
    return { status: code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  async mur(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    return await this.run([`${this.bin}/mur`, ...args], options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

/** What a command printed, which must have ended well. */
export function succeeded({ status, stdout, stderr }: Ran): string {
  assert.equal(status, 0, `${stdout}\n${stderr}`);
  return stdout;
}
