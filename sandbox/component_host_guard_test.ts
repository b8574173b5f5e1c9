import assert from "node:assert/strict";
import { componentHostArguments, mappedFiles } from "./component_host_guard.ts";
import { elfClosure } from "./elf_closure.ts";
import { checkoutHelper } from "./confine_helper.ts";
import { parseWalls } from "./guard.ts";

/** Runs a script in a Deno process without permissions behind the walls. */
async function host(dir: string, script: string, reads: readonly string[]): Promise<{ out: string; err: string }> {
  const program = {
    command: Deno.execPath(),
    args: [
      "run",
      "--quiet",
      "--no-config",
      "--no-prompt",
      "--cached-only",
      "--allow-all",
      `data:text/javascript,${encodeURIComponent(script)}`,
    ],
    reads,
  };
  const child = new Deno.Command(await checkoutHelper(), {
    args: componentHostArguments(program),
    clearEnv: true,
    env: { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DENO_DIR: dir },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.status;
  await child.stdin.close().catch(() => {});
  return { out, err };
}

Deno.test("this very program runs behind the walls, and reaches nothing with every permission of its own", async () => {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${dir}/granted`, "granted");
    await Deno.writeTextFile(`${dir}/other`, "other");
    const script = `
      const attempt = async (name, act) => {
        try { await act(); console.log(name + " open"); } catch (error) { console.log(name + " " + error.name); }
      };
      console.log(Deno.readTextFileSync(${JSON.stringify(`${dir}/granted`)}));
      await attempt("read", () => Deno.readTextFile(${JSON.stringify(`${dir}/other`)}));
      await attempt("write", () => Deno.writeTextFile(${JSON.stringify(`${dir}/granted`)}, "x"));
      await attempt("create", () => Deno.writeTextFile(${JSON.stringify(`${dir}/new`)}, "x"));
      await attempt("connect", () => Deno.connect({ hostname: "127.0.0.1", port: 9 }));
      await attempt("listen", () => Deno.listen({ hostname: "127.0.0.1", port: 0 }).close());
      await attempt("run", () => new Deno.Command("/bin/true").output());
      await attempt("parent", () => Deno.kill(${Deno.pid}, "SIGCONT"));
      const memory = new WebAssembly.Memory({ initial: 10, maximum: 1000 });
      memory.grow(500);
      console.log("wasm " + memory.buffer.byteLength);`;
    const { out, err } = await host(dir, script, [`${dir}/granted`]);
    const lines = out.trim().split("\n");
    assert.equal(lines[0], "granted", out + err);
    assert.equal(lines.at(-1), `wasm ${510 * 65_536}`);
    const walls = parseWalls(err.split("\n")[0]!);
    assert.ok(walls !== null, err);
    const open = lines.filter((line) => line.endsWith(" open"));
    if (walls.includes("landlock") && walls.includes("seccomp") && walls.includes("pid-namespace")) {
      assert.deepEqual(open, []);
      assert.equal(lines.length, 9);
    } else {
      console.log(`this machine grants only: ${walls.join(" ")}`);
    }
    assert.equal(await Deno.readTextFile(`${dir}/granted`), "granted");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("what a running program is made of is what its files name", () => {
  const program = Deno.realPathSync(Deno.execPath());
  const mapped = mappedFiles(Deno.readTextFileSync("/proc/self/maps"), program);
  assert.ok(mapped !== null);
  assert.equal(mapped[0], program);
  for (const path of elfClosure(program)) assert.ok(mapped.includes(path), `${path} is missing`);
});

Deno.test("only files mapped to be executed count, and a text that does not tell all counts for nothing", () => {
  const line = (permissions: string, path: string) =>
    `7f0000000000-7f0000001000 ${permissions} 00000000 fe:00 123                        ${path}\n`;
  const own = line("r-xp", "/bin/own program");
  const maps = line("r--p", "/bin/own program") + own + line("rw-s", "/cache/index-shm") + line("r--p", "/lib/data") +
    line("r-xp", "/lib/libc.so.6") + line("r-xp", "[vdso]") + line("rwxp", "") + line("--xp", "/lib/x.so");
  assert.deepEqual(mappedFiles(maps, "/bin/own program"), ["/bin/own program", "/lib/libc.so.6", "/lib/x.so"]);
  assert.equal(mappedFiles(maps, "/bin/other"), null);
  assert.equal(mappedFiles(own + line("r-xp", "/lib/libc.so.6 (deleted)"), "/bin/own program"), null);
  assert.equal(mappedFiles(own + line("r-xp", "/lib/a\\012b"), "/bin/own program"), null);
  assert.equal(mappedFiles("", "/bin/own program"), null);
});
