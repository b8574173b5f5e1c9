import assert from "node:assert/strict";
import { withTempDir } from "../support/cli_context.ts";
import { inShell } from "../support/completing_shell.ts";

Deno.test("zsh completes with the script", () =>
  withTempDir(async (home) => {
    const out = await inShell(
      "zsh",
      ["-f", "-c"],
      `compdef() { print "compdef $*" }
         _describe() { local name=$2; print -l "\${(@P)name}" }
         _files() { print files }
         eval "$(mur completions zsh)"
         words=(mur trace s); CURRENT=3; _mur
         words=(mur build ''); CURRENT=3; _mur`,
      home,
    );
    assert.match(out, /^compdef _mur mur\nshow:[^\n]+\nsteps:[^\n]+\nfiles\n$/);
  }));

Deno.test("fish completes with the script", () =>
  withTempDir(async (home) => {
    const out = await inShell(
      "fish",
      ["--no-config", "-c"],
      "mur completions fish | source; complete -C 'mur trace s'; complete -C 'mur completions '",
      home,
    );
    assert.match(out, /^show\t[^\n]+\nsteps\t[^\n]+\nbash\t[^\n]*\nfish\t[^\n]*\nzsh\t[^\n]*\n$/);
  }));
