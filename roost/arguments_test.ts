import assert from "node:assert/strict";
import { derivedCeiling, parseArguments } from "./arguments.ts";

const DEFAULTS = {
  port: 7700,
  registryPath: null,
  spawnAllow: [],
  maxDepth: 3,
  maxConcurrent: 4,
  maxLiveCapsules: null,
};

function served(...args: string[]) {
  const parsed = parseArguments(args);
  assert.equal(parsed.kind, "serve", args.join(" "));
  return parsed.kind === "serve" ? parsed.arguments : null;
}

function refusal(...args: string[]): string {
  const parsed = parseArguments(args);
  assert.equal(parsed.kind, "refused", args.join(" "));
  return parsed.kind === "refused" ? parsed.message : "";
}

Deno.test("flags have the published defaults and forms", () => {
  assert.deepEqual(served(), DEFAULTS);
  assert.deepEqual(
    served(
      "--port",
      "0",
      "--registry-path",
      "/r",
      "--spawn-allow",
      "local/a",
      "--spawn-allow=local/b",
      "--spawn-allow",
      "a,b",
      "--max-depth",
      "0",
      "--max-concurrent",
      "7",
      "--max-live-capsules",
      "4294967295",
    ),
    {
      port: 0,
      registryPath: "/r",
      spawnAllow: ["local/a", "local/b", "a,b"],
      maxDepth: 0,
      maxConcurrent: 7,
      maxLiveCapsules: 4_294_967_295,
    },
  );
  assert.deepEqual(served("--port", "1", "--port", "2"), { ...DEFAULTS, port: 2 });
  // A task runner's separator, once and first.
  assert.deepEqual(served("--", "--port", "9"), { ...DEFAULTS, port: 9 });
  assert.equal(parseArguments(["--version", "--port", "1"]).kind, "version");
});

Deno.test("any other argument is refused by its name", () => {
  assert.equal(refusal("--max-total", "5"), "unknown argument: --max-total");
  for (
    const argument of ["--nope", "-p", "--port=1", "--max-depth=3", "--help", "-h", "start", "", "--spawn-allowed=x/y"]
  ) assert.equal(refusal(argument), `unknown argument: ${argument}`);
  assert.equal(refusal("--port", "1", "--"), "unknown argument: --");
  assert.equal(refusal("--version", "--nope"), "unknown argument: --nope");
});

Deno.test("a value that is missing or no whole number is refused with its flag", () => {
  for (const flag of ["--port", "--registry-path", "--spawn-allow", "--max-depth", "--max-concurrent"]) {
    assert.match(refusal(flag), new RegExp(`^${flag} needs a value`));
    assert.match(refusal(flag, ""), new RegExp(`^${flag} needs a value`));
  }
  assert.match(refusal("--spawn-allow="), /^--spawn-allow needs a value/);
  for (const value of ["x", "-1", "1.5", "1e3", "0x10", " 1", "1 ", "+1", "4294967296", "99999999999", "--version"]) {
    for (const flag of ["--max-depth", "--max-concurrent", "--max-live-capsules"]) {
      assert.match(refusal(flag, value), new RegExp(`^${flag} takes a whole number`), value);
    }
  }
  assert.match(refusal("--port", "65536"), /^--port takes a whole number up to 65535/);
});

Deno.test("the derived ceiling is eight a core, from 16 to 256", () => {
  for (const [cores, ceiling] of [[1, 16], [2, 16], [3, 24], [8, 64], [32, 256], [33, 256], [1_000, 256]] as const) {
    assert.equal(derivedCeiling(cores), ceiling);
  }
});
