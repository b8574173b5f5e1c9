import assert from "node:assert/strict";
import { withTempDir } from "../tests/support/cli_context.ts";
import { askDriver, compilerHelperWarnings, type DriverAnswer } from "./compiler_helpers.ts";
import { resolveShellAllow, type ShellAllow } from "./shell_allow.ts";

/** A directory with drivers and helpers; every helper stands in `lib`. */
async function inToolchain(work: (dir: string) => Promise<void>): Promise<void> {
  await withTempDir(async (made) => {
    const dir = await Deno.realPath(made);
    for (const sub of ["bin", "lib", "bin2"]) await Deno.mkdir(`${dir}/${sub}`);
    const put = async (path: string, text = "#!/bin/sh\nexit 0\n") => {
      await Deno.writeTextFile(`${dir}/${path}`, text);
      await Deno.chmod(`${dir}/${path}`, 0o755);
    };
    for (const name of ["cc1", "cc1plus", "as", "ld", "collect2"]) await put(`lib/${name}`);
    const answers = 'case "$1" in -print-prog-name=as) echo as;; -print-prog-name=ld) exit 3;; ' +
      `-print-prog-name=*) echo "${dir}/lib/\${1#*=}";; esac\n`;
    await put("bin/gcc", `#!/bin/sh\n${answers}`);
    await put("bin/g++", `#!/bin/sh\n${answers}`);
    await put("bin2/cc", "#!/bin/sh\nkill -9 $$\n");
    await put("bin/as");
    await work(dir);
  });
}

const helpersOf = (messages: readonly { readonly code: string; readonly message: string }[]) =>
  messages.map(({ code, message }) => `${code} ${/starts '(\w+)'/.exec(message)?.[1] ?? "-"}`);

Deno.test("each helper that commands may not run is named once, for each driver", async () => {
  await inToolchain(async (dir) => {
    const path = `${dir}/bin`;
    const warnings = async (names: string[], directories: string[] = []) =>
      helpersOf(
        await compilerHelperWarnings({ allow: resolveShellAllow(names, path), directories, writable: [] }, path),
      );
    // 'as' is answered by its name and found on PATH; 'ld' is refused by the driver and says nothing.
    assert.deepEqual(await warnings(["gcc"]), [
      "W-SEC-012 cc1",
      "W-SEC-012 cc1plus",
      "W-SEC-012 as",
      "W-SEC-012 collect2",
    ]);
    assert.deepEqual(await warnings(["g++"]), ["W-SEC-012 cc1plus", "W-SEC-012 as", "W-SEC-012 collect2"]);
    assert.deepEqual(await warnings(["gcc", "as", "cc1"]), ["W-SEC-012 cc1plus", "W-SEC-012 collect2"]);
    assert.deepEqual(await warnings(["gcc"], [`${dir}/lib`]), ["W-SEC-012 as"]);
    assert.deepEqual(await warnings(["gcc"], [dir]), []);
    assert.deepEqual(await warnings(["gcc"], [`${dir}/li`]), await warnings(["gcc"]));
    assert.deepEqual(await warnings(["sh", "make"]), []);
  });
});

Deno.test("a driver that cannot be asked is told of once, with what was not checked", async () => {
  await inToolchain(async (dir) => {
    const path = `${dir}/bin2`;
    const warnings = await compilerHelperWarnings({
      allow: resolveShellAllow(["cc"], path),
      directories: [],
      writable: [],
    }, path);
    assert.deepEqual(warnings.map(({ code }) => code), ["W-SEC-029"]);
    assert.match(warnings[0]!.message, /'cc' .*cc1, cc1plus, as, ld, collect2$/);
  });
});

Deno.test("residence under a system directory is no grant; answers that are no path are passed over", async () => {
  const allow: ShellAllow = {
    binaries: [{ name: "gcc", matches: [{ invoked: "/usr/bin/gcc", canonical: "/usr/bin/gcc" }] }],
    execute: [],
  };
  const ask = (answer: DriverAnswer) =>
    compilerHelperWarnings({ allow, directories: [], writable: [] }, "", () => Promise.resolve(answer));
  const shell = await Deno.realPath("/bin/sh");
  assert.equal((await ask({ success: true, text: shell })).length, 5);
  for (const text of ["", "cc1x", "./cc1", "/absent/cc1"]) assert.deepEqual(await ask({ success: true, text }), []);
  assert.deepEqual(await ask({ success: false, text: shell }), []);
});

Deno.test("a driver that commands may have written is not started; any other changes nothing and reaches nobody", async () => {
  await withTempDir(async (made) => {
    const dir = await Deno.realPath(made);
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const dial = `bash -c ': < /dev/tcp/127.0.0.1/${listener.addr.port}' && echo dialled`;
    const attack = `echo x > '${dir}/mark' || echo unwritten; ${dial} || echo alone; kill -9 ${Deno.pid} || echo apart`;
    await Deno.writeTextFile(`${dir}/gcc`, `#!/bin/sh\nexec 2>&1\n${attack}\n`);
    await Deno.chmod(`${dir}/gcc`, 0o755);
    // Without the walls it does the first two.
    const bare = `echo x > '${dir}/mark' || echo unwritten; ${dial}`;
    const { stdout } = await new Deno.Command("sh", { args: ["-c", bare] }).output();
    assert.equal(new TextDecoder().decode(stdout), "dialled\n");
    await Deno.remove(`${dir}/mark`);
    const answer = await askDriver(`${dir}/gcc`, "cc1", "/usr/bin:/bin");
    const words = answer!.text.split("\n").filter((line) => /^\w+$/.test(line));
    assert.deepEqual(words, ["unwritten", "alone", "apart"], answer!.text);
    listener.close();
    const allow = resolveShellAllow(["gcc"], dir);
    const ask = () => assert.fail("it was started");
    const warnings = await compilerHelperWarnings({ allow, directories: [], writable: [dir] }, dir, ask);
    assert.deepEqual(warnings.map(({ code }) => code), ["W-SEC-029"]);
    await assert.rejects(Deno.stat(`${dir}/mark`), Deno.errors.NotFound);
  });
});

Deno.test("a driver that answers without end is not waited for", async () => {
  await withTempDir(async (dir) => {
    await Deno.writeTextFile(`${dir}/gcc`, "#!/bin/sh\ntrap '' TERM\nwhile :; do echo /bin/sh; done\n");
    await Deno.chmod(`${dir}/gcc`, 0o755);
    assert.equal(await askDriver(`${dir}/gcc`, "cc1", "/usr/bin:/bin"), null);
  });
});

Deno.test("a driver is asked with no variables but PATH", async () => {
  await withTempDir(async (dir) => {
    await Deno.writeTextFile(`${dir}/gcc`, "#!/bin/sh\nenv | sort | tr '\\n' ' '\n");
    await Deno.chmod(`${dir}/gcc`, 0o755);
    const answer = await askDriver(`${dir}/gcc`, "cc1", "/usr/bin:/bin");
    assert.ok(answer!.success);
    assert.deepEqual(answer!.text.split(" ").filter((word) => !/^(PWD|SHLVL|_)=/.test(word)), [
      "LC_ALL=C",
      "PATH=/usr/bin:/bin",
    ]);
    assert.equal(await askDriver(`${dir}/absent`, "cc1", ""), null);
  });
});
