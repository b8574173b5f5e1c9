import assert from "node:assert/strict";
import { RootedDir } from "../base/rooted_dir.ts";
import type { CommandRecord } from "./confine_records.ts";
import { shellResultMetadata, shellResultSummary, shellResultText } from "./shell_result.ts";
import { resolveShellAllow } from "./shell_allow.ts";
import { type DetachedCompletion, ShellSession, type ShellSessionOptions } from "./shell_session.ts";
import { startPlainCommand } from "./testing/plain_command.ts";

const PATH = "/usr/local/bin:/usr/bin:/bin";

interface Box {
  readonly dir: string;
  readonly session: ShellSession;
  readonly completions: DetachedCompletion[];
}

type Changes = Partial<ShellSessionOptions> & { readonly records?: readonly CommandRecord[] };

function withSession({ records, ...changes }: Changes, body: (box: Box) => Promise<void>): () => Promise<void> {
  return async () => {
    const dir = await Deno.makeTempDir();
    for (const name of ["work", "logs", "home"]) await Deno.mkdir(`${dir}/${name}`);
    const logs = { dir: RootedDir.open(`${dir}/logs`, { symlinks: "refuse" }), path: `${dir}/logs` };
    const completions: DetachedCompletion[] = [];
    const session = new ShellSession({
      allow: resolveShellAllow(["sh", "printf", "ls", "cat", "nothing-of-that-name"], PATH).binaries,
      start: ({ path, ...command }) =>
        startPlainCommand(dir, {
          ...command,
          program: path.invoked,
          cwd: `${dir}/work`,
          env: { PATH, HOME: `${dir}/home`, MARK: "yes" },
          input: null,
          ...(records === undefined ? {} : { records }),
        }),
      logs,
      grace: 10_000,
      poll: 20,
      refusal: () => null,
      onCompleted: (completion) => completions.push(completion),
      ...changes,
    });
    try {
      await body({ dir, session, completions });
    } finally {
      await session.kill();
      logs.dir.close();
      await Deno.remove(dir, { recursive: true });
    }
  };
}

function sh(session: ShellSession, command: string, signal?: AbortSignal) {
  return session.run("sh", { command }, signal);
}

async function finished(session: ShellSession, command: string) {
  const outcome = await sh(session, command);
  assert.equal(outcome.kind, "finished", JSON.stringify(outcome));
  return outcome.result;
}

async function until(condition: () => boolean, ms = 5_000): Promise<void> {
  const start = performance.now();
  while (!condition()) {
    assert.ok(performance.now() - start < ms, "it takes too long");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

Deno.test(
  "a command's output, status and text",
  withSession({}, async ({ dir, session }) => {
    const result = await finished(session, "  echo out; echo err >&2; exit 3 ");
    assert.equal(
      shellResultText(result),
      "$ echo out; echo err >&2; exit 3\nExit code: 3\nStdout:\nout\n\nStderr:\nerr\n",
    );
    assert.equal(shellResultSummary(result), "Shell command exited with code 3");
    assert.deepEqual(shellResultMetadata(result), []);
    assert.equal(result.binary, Deno.realPathSync("/bin/sh"));
    assert.equal(result.stdoutBytes, 4);
    assert.equal(result.resourceLimit, null);
    assert.deepEqual([...Deno.readDirSync(`${dir}/logs`)], []);

    assert.equal((await finished(session, "pwd -P")).stdout.trim(), Deno.realPathSync(`${dir}/work`));
    assert.deepEqual((await finished(session, "env")).stdout.trim().split("\n").sort(), [
      `HOME=${dir}/home`,
      "MARK=yes",
      `PATH=${PATH}`,
      `PWD=${dir}/work`,
    ]);
    assert.equal((await finished(session, "cat; echo end")).stdout, "end\n");
    assert.equal((await finished(session, "kill -TERM $$")).exitCode, 143);
    assert.equal((await finished(session, "kill -KILL $$")).exitCode, 137);
    assert.equal((await finished(session, "printf '\\377\\376'")).stdout, "\ufffd\ufffd");
  }),
);

Deno.test(
  "a binary that is no interpreter gets the words",
  withSession({}, async ({ session }) => {
    const outcome = await session.run("printf", { command: "'%s|' 'a b' $HOME; \"c\"" });
    assert.ok(outcome.kind === "finished");
    assert.equal(outcome.result.stdout, "a b|$HOME;|c|");
  }),
);

Deno.test(
  "bad input and what is not allowed run nothing",
  withSession({}, async ({ session }) => {
    for (const input of [null, {}, { command: "" }, { command: "  \n" }, { command: 5 }, "ls", []]) {
      assert.deepEqual(await session.run("sh", input), {
        kind: "error",
        summary: "shell command parsing failed",
        text: "shell tool input must include a non-empty 'command' string",
      });
    }
    for (
      const [name, text] of [
        ["bash", /^binary 'bash' is not in capabilities.shell.allow$/],
        ["/bin/sh", /not in capabilities.shell.allow/],
        ["../bin/sh", /not in capabilities.shell.allow/],
        ["nothing-of-that-name", /was not found on PATH/],
      ] as const
    ) {
      const outcome = await session.run(name, { command: "x" });
      assert.ok(outcome.kind === "error");
      assert.equal(outcome.summary, "shell execution failed");
      assert.match(outcome.text, text);
    }
  }),
);

Deno.test(
  "a breach of the work folder's size refuses before anything is started",
  withSession({ refusal: () => "workdir grew" }, async ({ dir, session }) => {
    const outcome = await sh(session, "touch made");
    assert.deepEqual(outcome, { kind: "error", summary: "shell execution failed", text: "workdir grew" });
    assert.deepEqual([...Deno.readDirSync(`${dir}/work`)], []);
  }),
);

Deno.test(
  "long output is cut to both streams' first 16384 bytes, and kept whole in a log",
  withSession({}, async ({ dir, session }) => {
    const result = await finished(session, "head -c 16385 /dev/zero | tr '\\0' x; echo err >&2");
    assert.ok(result.truncated);
    assert.equal(result.stdout.length, 16_384);
    assert.equal(result.stderr, "err\n");
    const path = result.fullOutputPath!;
    assert.match(path, new RegExp(`^${dir}/logs/shell-\\d+\\.log$`));
    assert.ok(shellResultText(result).endsWith(`Full output written to ${path}`));
    assert.deepEqual(shellResultMetadata(result), [["full_output_path", path]]);
    assert.equal(
      Deno.readTextFileSync(path),
      `Command: ${result.command}\nExit code: 0\n\nStdout:\n${"x".repeat(16_385)}\n\nStderr:\nerr\n\n`,
    );
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
    // Exactly the limit is not cut, and a character that the cut parts is replaced.
    assert.equal((await finished(session, "head -c 16384 /dev/zero | tr '\\0' x")).truncated, false);
    const parted = await finished(session, "head -c 16383 /dev/zero | tr '\\0' x; printf 'ää'");
    assert.ok(parted.stdout.endsWith("x\ufffd"));
    assert.equal(parted.stdoutBytes, 16_383 + 3);
  }),
);

Deno.test(
  "both streams at once, far beyond the pipes, in bounded memory",
  withSession({}, async ({ session }) => {
    const before = Deno.memoryUsage().rss;
    const result = await finished(
      session,
      "head -c 80000000 /dev/zero | tr '\\0' e >&2 & head -c 160000000 /dev/zero | tr '\\0' o; wait",
    );
    assert.equal(Deno.statSync(result.fullOutputPath!).size > 240_000_000, true);
    assert.ok(Deno.memoryUsage().rss - before < 120_000_000, "the output was held in memory");
    const log = await Deno.open(result.fullOutputPath!);
    let zeros = 0;
    for await (const chunk of log.readable) for (const byte of chunk) if (byte === 0x65) zeros++;
    assert.ok(zeros >= 80_000_000);
  }),
);

Deno.test(
  "a log that can't be written is said, and no path is given",
  withSession({}, async ({ dir, session }) => {
    await Deno.remove(`${dir}/logs`);
    const result = await finished(session, "head -c 20000 /dev/zero");
    assert.equal(result.fullOutputPath, null);
    assert.ok(result.truncated);
    assert.ok(shellResultText(result).endsWith("\n\nOutput truncated."));
    assert.deepEqual(shellResultMetadata(result), []);
  }),
);

Deno.test(
  "a command that outruns its grace goes on in the background",
  withSession({ grace: 100 }, async ({ dir, session, completions }) => {
    const started = performance.now();
    const outcome = await sh(session, "echo first; sleep 0.6; echo last; exit 4");
    assert.ok(outcome.kind === "detached");
    const took = performance.now() - started;
    assert.ok(took >= 100 && took < 500, String(took));
    assert.match(outcome.detached.workId, /^wrk_[0-9a-f]{32}$/);
    assert.deepEqual(session.running.map(({ workId }) => workId), [outcome.detached.workId]);
    // Others run meanwhile, and end in their own time.
    assert.equal((await finished(session, "echo other")).stdout, "other\n");
    const second = await sh(session, "sleep 0.2");
    assert.ok(second.kind === "detached");
    await until(() => completions.length === 2);
    const [early, late] = completions;
    assert.equal(early!.workId, second.detached.workId);
    const { durationMs, outputBytes, ...rest } = late!;
    assert.deepEqual(rest, {
      workId: outcome.detached.workId,
      binary: Deno.realPathSync("/bin/sh"),
      command: "echo first; sleep 0.6; echo last; exit 4",
      exitCode: 4,
      outputPath: `logs/${outcome.detached.workId}.log`,
      absoluteOutputPath: `${dir}/logs/${outcome.detached.workId}.log`,
      resourceLimit: null,
    });
    assert.ok(durationMs >= 600);
    const log = Deno.readTextFileSync(late!.absoluteOutputPath);
    assert.equal(log.length, outputBytes);
    assert.match(log, /Exit code: 4\n\nStdout:\nfirst\nlast\n/);
    assert.deepEqual(session.running, []);
  }),
);

Deno.test(
  "grace 0 detaches at the first look, unless the command was quicker",
  withSession({ grace: 0, poll: 400 }, async ({ session }) => {
    assert.equal((await sh(session, "exit 2")).kind, "finished");
    assert.equal((await sh(session, "sleep 5")).kind, "detached");
  }),
);

Deno.test(
  "without a grace a command is waited for",
  withSession({ grace: null }, async ({ session }) => {
    assert.equal((await finished(session, "sleep 0.3; echo done")).stdout, "done\n");
  }),
);

Deno.test(
  "a cancelled task kills its command in the foreground",
  withSession({}, async ({ session }) => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 100);
    const started = performance.now();
    const outcome = await sh(session, "trap '' TERM; sleep 1000", stop.signal);
    assert.ok(outcome.kind === "finished");
    assert.equal(outcome.result.exitCode, 137);
    assert.ok(performance.now() - started < 2_000);
    const before = await sh(session, "sleep 1000", AbortSignal.abort());
    assert.ok(before.kind === "finished");
  }),
);

Deno.test(
  "limits end a command and are named",
  withSession(
    {
      records: [
        { op: "watch", name: "cgroup_pids_max", value: 10 },
        { op: "rlimit", name: "cpu", value: 1 },
        { op: "rlimit", name: "fsize", value: 1_000_000 },
      ],
    },
    async ({ session }) => {
      assert.equal(
        (await finished(session, "exec head -c 2000000 /dev/zero > big")).resourceLimit,
        "max_file_size_bytes",
      );
      assert.equal((await finished(session, "while :; do :; done")).resourceLimit, "cpu_seconds");
      const bomb = await finished(session, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 100 & done; wait");
      assert.equal(bomb.resourceLimit, "cgroup_pids_max");
      assert.equal((await finished(session, "exit 0")).resourceLimit, null);
    },
  ),
);

Deno.test(
  "an orderly end lets background commands go on and names them",
  withSession({ grace: 50 }, async ({ dir, session, completions }) => {
    const outcome = await sh(session, "sleep 0.5; echo still here; touch done");
    assert.ok(outcome.kind === "detached");
    const left = await session.abandon();
    assert.equal(left.length, 1);
    assert.equal(left[0]!.workId, outcome.detached.workId);
    assert.equal(left[0]!.finished, null);
    assert.ok(left[0]!.runningMs >= 50);
    const late = await sh(session, "exit 0");
    assert.ok(late.kind === "error");
    await until(() => [...Deno.readDirSync(`${dir}/work`)].length === 1);
    await until(() => session.running.length === 0);
    assert.deepEqual(completions, [], "an abandoned command delivers nothing");
  }),
);

/** A runtime with one background command; it ends as its last argument says. */
const STAND_IN = `
const [session, plain, rooted, dir, end] = Deno.args;
const { ShellSession } = await import(session);
const { startPlainCommand } = await import(plain);
const { RootedDir } = await import(rooted);
const shell = new ShellSession({
  allow: [{ name: "sh", matches: [{ invoked: "/bin/sh", canonical: "/bin/sh" }] }],
  start: ({ path, ...command }) => startPlainCommand(dir, {
    ...command, program: path.invoked, cwd: dir, env: { PATH: "/usr/bin:/bin" }, input: null,
  }),
  logs: { dir: RootedDir.open(dir), path: dir }, grace: 50, poll: 20, refusal: () => null, onCompleted: () => {},
});
const outcome = await shell.run("sh", { command: ": " + dir + "; touch begun; sleep 1; echo x; echo x; touch done" });
// It may still be starting when its grace is over.
while (![...Deno.readDirSync(dir)].some(({ name }) => name === "begun")) await new Promise((go) => setTimeout(go, 5));
if (end === "orderly") { await shell.abandon(); Deno.exit(0); }
if (end === "exit") Deno.exit(1);
console.log(outcome.kind);
setInterval(() => {}, 1000);
`;

/** Whether a process with this text in its command line runs: a command's own number means nothing outside. */
function runs(text: string): boolean {
  return [...Deno.readDirSync("/proc")].some(({ name }) => {
    try {
      return /^\d+$/.test(name) && Deno.readTextFileSync(`/proc/${name}/cmdline`).startsWith(`/bin/sh\0-c\0${text}`);
    } catch {
      return false;
    }
  });
}

for (const [end, goesOn] of [["orderly", true], ["exit", false], ["SIGKILL", false], ["SIGTERM", false]] as const) {
  Deno.test(`a background command ${goesOn ? "outlives" : "ends with"} a runtime that ends by ${end}`, async () => {
    const dir = await Deno.makeTempDir();
    await Deno.writeTextFile(`${dir}/stand_in.ts`, STAND_IN);
    try {
      const runtime = new Deno.Command(Deno.execPath(), {
        args: [
          "run",
          "-A",
          "--quiet",
          `${dir}/stand_in.ts`,
          import.meta.resolve("./shell_session.ts"),
          import.meta.resolve("./testing/plain_command.ts"),
          import.meta.resolve("../base/rooted_dir.ts"),
          dir,
          end,
        ],
        stdin: "null",
        stdout: "piped",
        stderr: "inherit",
      }).spawn();
      if (end.startsWith("SIG")) {
        const reader = runtime.stdout.getReader();
        assert.match(new TextDecoder().decode((await reader.read()).value), /detached/);
        runtime.kill(end as Deno.Signal);
        await reader.cancel();
      } else {
        await runtime.stdout.cancel();
      }
      await runtime.status;
      if (goesOn) assert.ok(runs(`: ${dir}; `));
      await until(() => !runs(`: ${dir}; `), 3_000);
      // Long enough for a command that goes on to be seen.
      await new Promise((resolve) => setTimeout(resolve, goesOn ? 0 : 1_200));
      const made = [...Deno.readDirSync(dir)].map(({ name }) => name);
      assert.ok(made.includes("begun"));
      assert.equal(made.includes("done"), goesOn);
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });
}
