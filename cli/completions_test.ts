import assert from "node:assert/strict";
import { newId } from "../base/ids.ts";
import { writeRunningRecord } from "../base/write_running_record.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { inShell } from "../tests/support/completing_shell.ts";
import { recordSession } from "../tests/support/recorded_session.ts";
import { runningRecord } from "../tests/support/scripted_door.ts";
import { SHELLS } from "./completions.ts";
import { main } from "./main.ts";

async function proposals(home: string, ...words: string[]): Promise<string[]> {
  const context = testContext(home, { HOME: home });
  assert.equal(await main(["__complete", ...words], context), 0);
  assert.equal(context.err(), "");
  return context.out().split("\n").slice(0, -1).map((line) => {
    assert.match(line, /^[^\t]+\t[^\t]*$/);
    return line.split("\t")[0]!;
  });
}

Deno.test("commands, subcommands, flags and values of flags", () =>
  withTempDir(async (home) => {
    const all = await proposals(home, "");
    for (const command of ["run", "ps", "stop", "watch", "send", "new", "trace"]) assert.ok(all.includes(command));
    assert.ok(!all.some((word) => word.startsWith("-") || word.startsWith("__")));
    assert.deepEqual(await proposals(home, "sto"), ["stop"]);
    assert.deepEqual(await proposals(home, "trace", ""), ["show", "steps", "diff", "report", "rm"]);
    assert.deepEqual(await proposals(home, "new", ""), ["capsule", "tool", "hook"]);
    assert.deepEqual((await proposals(home, "stop", "--")).filter((word) => word !== "--"), ["--timeout"]);
    assert.ok((await proposals(home, "run", "--js")).includes("--json"));
    assert.ok(!(await proposals(home, "run", "--")).includes("--capsule-sha256"), "hidden flags stay hidden");
    assert.deepEqual(await proposals(home, "run", "--resume-mode", ""), ["full", "compact"]);
    assert.deepEqual(await proposals(home, "completions", ""), [...SHELLS]);
    assert.deepEqual(await proposals(home, "completions", "z"), ["zsh"]);
  }));

Deno.test("sessions, and nothing where a file is meant or a command is wrong", () =>
  withTempDir(async (home) => {
    const running = runningRecord();
    const gone = runningRecord({ process_start: "1" });
    for (const record of [running, gone]) writeRunningRecord(`${home}/.murmur/running`, record);
    const recorded = newId("ses");
    await recordSession(home, `${home}/workdir`, recorded);
    for (const command of ["stop", "watch", "cancel", "token", "send"]) {
      assert.deepEqual(
        await proposals(home, command, "ses_"),
        [gone.session_id, running.session_id],
        "no process is looked at while a key is pressed",
      );
    }
    assert.deepEqual(await proposals(home, "stop", running.session_id.slice(0, -1)), [running.session_id]);
    for (const command of ["show", "steps", "diff", "report", "rm"]) {
      assert.deepEqual(await proposals(home, "trace", command, ""), [recorded]);
    }
    await recordSession(home, `${home}/workdir`, "ses_$(id)");
    assert.deepEqual(await proposals(home, "trace", "rm", ""), [recorded], "nothing a shell obeys");
    assert.deepEqual(await proposals(home, "build", ""), []);
    assert.deepEqual(await proposals(home, "run", "--manifest", ""), []);
    assert.deepEqual(await proposals(home, "nonsense", ""), []);
    assert.deepEqual(await proposals(home), []);
    assert.ok(Deno.statSync(`${home}/.murmur/running/${gone.session_id}.json`).isFile, "nothing is removed");
    await Deno.remove(`${home}/.murmur/running`, { recursive: true });
    await Deno.writeTextFile(`${home}/.murmur/running`, "");
    assert.deepEqual(await proposals(home, "stop", ""), [], "what goes wrong proposes nothing");
  }));

Deno.test("a script for each shell, and for no other", () =>
  withTempDir(async (home) => {
    for (const shell of SHELLS) {
      const context = testContext(home, { HOME: home });
      assert.equal(await main(["completions", shell], context), 0);
      assert.match(context.out(), /mur __complete /);
      assert.ok(!context.out().includes("undefined"));
    }
    const context = testContext(home, { HOME: home });
    assert.equal(await main(["completions", "powershell"], context), 2);
  }));

function has(shell: string): boolean {
  return (Deno.env.get("PATH") ?? "").split(":").some((directory) => {
    try {
      return Deno.statSync(`${directory}/${shell}`).isFile;
    } catch {
      return false;
    }
  });
}

Deno.test({
  name: "bash completes with the script",
  ignore: !has("bash"),
  fn: () =>
    withTempDir(async (home) => {
      const complete = (...words: string[]) =>
        inShell(
          "bash",
          ["--norc", "-c"],
          `eval "$(mur completions bash)"
           COMP_WORDS=(mur ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}
           _mur; printf '%s\\n' "\${COMPREPLY[@]}"; complete -p mur`,
          home,
        );
      assert.equal(await complete("trace", "s"), "show\nsteps\ncomplete -o default -F _mur mur\n");
      assert.equal(await complete("build", ""), "\ncomplete -o default -F _mur mur\n");
    }),
});
