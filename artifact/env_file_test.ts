import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import { isReservedForEnvironment, parseEnvFile, readWorkspaceEnvFile, withEnvFile } from "./env_file.ts";

function values(text: string): Record<string, string> {
  return Object.fromEntries(parseEnvFile(text, ".env").map(({ name, value }) => [name, value]));
}

Deno.test("lines are KEY=VALUE, trimmed, one pair of matching quotes removed, nothing expanded", () => {
  assert.deepEqual(
    values(
      "# a comment\n\n  A = 1  \r\nB='two words'\nC=\"3\"\nD='mixed\"\nE=\nF=a=b=c\nG=$A ${A} `x`\nH='\nI=''\nJ=\"'x'\"\nexport K=1\n   # c\nL=a # b\n",
    ),
    {
      A: "1",
      B: "two words",
      C: "3",
      D: "'mixed\"",
      E: "",
      F: "a=b=c",
      G: "$A ${A} `x`",
      H: "'",
      I: "",
      J: "'x'",
      "export K": "1",
      L: "a # b",
    },
  );
  assert.deepEqual(values("\ufeffA=1"), { A: "1" });
  assert.deepEqual(values(""), {});
});

Deno.test("a line that is no assignment is refused with its number and without its text", () => {
  for (
    const [text, reason] of [["A=1\nsk-secret\n", "no '='"], ["\n=sk-secret\n", "an empty key"], [
      "A=1\n  = sk-secret",
      "an empty key",
    ], ["\nA=sk-secret\0", "a NUL character"]] as const
  ) {
    assert.throws(() => parseEnvFile(text, "dir/.env"), (error) => {
      assert.ok(error instanceof MurError);
      assert.equal(error.code, "E-IO-003");
      assert.equal(error.message, `dir/.env:2: the line has ${reason}`);
      assert.doesNotMatch(`${error.message}${error.hint}`, /sk-secret/);
      return true;
    });
  }
});

Deno.test("what is set is never overridden, and the first of two lines counts", () => {
  const env = new Map([["A", "set"], ["EMPTY", ""]]);
  const merged = withEnvFile(env, parseEnvFile("A=file\nEMPTY=file\nB=1\nB=2\n", ".env"), ".env", () => assert.fail());
  assert.deepEqual(["A", "EMPTY", "B", "C"].map((name) => merged.get(name)), ["set", "", "1", undefined]);
});

Deno.test("names that steer programs are never set, each with one line", () => {
  const reserved = [
    "MURMUR_SESSION_ID",
    "MURMUR_",
    "PATH",
    "HOME",
    "USERPROFILE",
    "LD_PRELOAD",
    "DYLD_X",
    "DENO_DIR",
    "NODE_OPTIONS",
    "HTTP_PROXY",
    "https_proxy",
    "All_Proxy",
    "no_proxy",
  ];
  for (const name of reserved) {
    assert.ok(isReservedForEnvironment(name), name);
    const notices: string[] = [];
    const merged = withEnvFile(
      new Map(),
      parseEnvFile(`X=1\n${name}=sk-secret\n`, ".env"),
      ".env",
      (line) => notices.push(line),
    );
    assert.equal(merged.get(name), undefined);
    assert.deepEqual(notices, [`warning: .env:2: ${name} is never set from .env; the line is ignored`]);
  }
  for (const name of ["PATHS", "MY_PATH", "HOMEPAGE", "NODES", "FTP_PROXY", "MURMURX", "path"]) {
    assert.ok(!isReservedForEnvironment(name), name);
  }
});

Deno.test("the file of a directory is read, and its absence is nothing", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const env = new Map([["A", "set"]]);
    assert.equal(await readWorkspaceEnvFile(directory, env, () => {}), env);
    await Deno.writeTextFile(`${directory}/.env`, "A=1\nB=2\n");
    const merged = await readWorkspaceEnvFile(`${directory}/`, env, () => {});
    assert.deepEqual([merged.get("A"), merged.get("B")], ["set", "2"]);
    await Deno.writeFile(`${directory}/.env`, Uint8Array.of(0x41, 0x3d, 0xff));
    await assert.rejects(readWorkspaceEnvFile(directory, env, () => {}), {
      code: "E-IO-003",
      message: /is not UTF-8$/,
    });
    await Deno.remove(`${directory}/.env`);
    await Deno.mkdir(`${directory}/.env`);
    await assert.rejects(readWorkspaceEnvFile(directory, env, () => {}), {
      code: "E-IO-003",
      message: /not a regular file/,
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("any text is parsed or E-IO-003, and what is parsed is what a line says", () => {
  fc.assert(fc.property(fc.string(), (text) => {
    try {
      for (const { name, value, line } of parseEnvFile(text, ".env")) {
        assert.ok(name !== "" && !name.includes("\n") && !value.includes("\n"));
        assert.ok(text.replace(/^\ufeff/, "").split("\n")[line - 1]!.includes(name));
      }
    } catch (error) {
      assert.ok(error instanceof MurError && error.code === "E-IO-003");
    }
  }));
});
