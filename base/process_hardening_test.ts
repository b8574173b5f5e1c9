import assert from "node:assert/strict";

/** Hardens itself when told, then says what a child of its inherits. */
const SCRIPT = `
const { hardenProcess } = await import(Deno.args[0]);
const { libc, PRCTL } = await import(Deno.args[1]);
if (Deno.args[2] === "yes") hardenProcess();
const { stdout } = await new Deno.Command("ls", { args: ["/proc/self/fd"], stdin: "null" }).output();
console.log(libc().prctl(PRCTL.GET_DUMPABLE, 0), new TextDecoder().decode(stdout).trim().split("\\n").join(","));
`;

Deno.test("a hardened process is not dumpable and hands on no descriptor it was given", async () => {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${dir}/script.ts`, SCRIPT);
    const run = async (harden: string) => {
      const { stdout } = await new Deno.Command("sh", {
        // As a spawner does: an open descriptor without close-on-exec.
        args: [
          "-c",
          'exec 9<"$0"; exec "$@"',
          `${dir}/script.ts`,
          Deno.execPath(),
          "run",
          "-A",
          "--quiet",
          "--no-config",
          `${dir}/script.ts`,
          import.meta.resolve("./process_hardening.ts"),
          import.meta.resolve("./libc.ts"),
          harden,
        ],
        stdin: "null",
      }).output();
      return new TextDecoder().decode(stdout).trim();
    };
    const soft = await run("no");
    assert.match(soft, /^1 /);
    assert.ok(soft.split(" ")[1]!.split(",").includes("9"), soft);
    // The last descriptor is the listing's own.
    assert.equal(await run("yes"), "0 0,1,2,3");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
