import assert from "node:assert/strict";
import fc from "fast-check";
import { CREDENTIAL_PATTERNS, strippedBy } from "../artifact/environment_patterns.ts";
import { commandEnvironment, type CommandEnvironmentSources } from "./command_environment.ts";

function build(host: Record<string, string>, changes: Partial<CommandEnvironmentSources> = {}): Record<string, string> {
  return commandEnvironment({
    host: new Map(Object.entries(host)),
    session: {},
    baselineEnv: [],
    stripEnv: [],
    home: "/r/home",
    temporary: "/r/tmp",
    runtimeDir: "/s/runtime",
    ...changes,
  });
}

const LAST = {
  HOME: "/r/home",
  USERPROFILE: "/r/home",
  TMPDIR: "/r/tmp",
  TMP: "/r/tmp",
  TEMP: "/r/tmp",
  MURMUR_RUNTIME_DIR: "/s/runtime",
};

const INTERNAL = [
  "MURMUR_SPAWNER",
  "MURMUR_SPAWNER_LIFELINE",
  "MURMUR_FORMATION_ID",
  "MURMUR_FORMATION_CHANNEL",
  "MURMUR_FORMATION_PEERS",
  "MURMUR_FORMATION_LIFELINE",
  "MURMUR_ROOST_URL",
  "MURMUR_DOOR_TOKEN",
  "MURMUR_ARTIFACT_CONFIG",
];

Deno.test("only the baseline comes from the host", () => {
  assert.deepEqual(build({}), LAST);
  const host = {
    PATH: "/bin",
    HOME: "/home/me",
    USER: "me",
    LANG: "C",
    LC_ALL: "C",
    TERM: "xterm",
    CARGO_HOME: "/c",
    RUSTUP_HOME: "/u",
    TMPDIR: "/var/tmp",
    LD_PRELOAD: "/evil.so",
    SSH_AUTH_SOCK: "/agent",
    ANTHROPIC_API_KEY: "sk-1",
    MY_SETTING: "x",
    HTTPS_PROXY: "http://p",
    LC_CTYPE: "C",
  };
  assert.deepEqual(build(host), {
    PATH: "/bin",
    USER: "me",
    LANG: "C",
    LC_ALL: "C",
    TERM: "xterm",
    CARGO_HOME: "/c",
    RUSTUP_HOME: "/u",
    ...LAST,
  });
});

Deno.test("declared names are exact and are copied when set", () => {
  const host = { MY_SETTING: "x", MY_OTHER: "y" };
  assert.equal(build(host, { baselineEnv: ["MY_SETTING", "ABSENT"] }).MY_SETTING, "x");
  assert.deepEqual(build(host, { baselineEnv: ["MY_*"] }), LAST);
});

Deno.test("strip_env wins over everything but what is set last", () => {
  const host = { MY_SETTING: "x", PATH: "/bin", LANG: "C" };
  const session = { MURMUR_SESSION_ID: "ses_1", MURMUR_CAPSULE_NAME: "demo" };
  assert.deepEqual(
    build(host, {
      session,
      baselineEnv: ["MY_SETTING"],
      stripEnv: ["MY_*", "*ATH", "*SESSION*", "HOME", "MURMUR_RUNTIME_DIR", "TMP*"],
    }),
    { LANG: "C", MURMUR_CAPSULE_NAME: "demo", ...LAST },
  );
});

Deno.test("no credential and no internal name gets in, whatever declares it", () => {
  const credentials = [
    ...CREDENTIAL_PATTERNS.map((pattern) => pattern.replace("*", "X")),
    "MURMUR_INFERENCE_API_KEY",
    "AWS_PROFILE",
    "STRIPE_API_KEY",
  ];
  const names = [...credentials, ...INTERNAL];
  const host = Object.fromEntries(names.map((name) => [name, "secret"]));
  assert.deepEqual(build(host, { baselineEnv: names, session: host }), LAST);
});

Deno.test("the host can't stand in for the runtime's own variables", () => {
  const built = build({ MURMUR_SESSION_ID: "forged" }, {
    session: { MURMUR_SESSION_ID: "ses_1" },
    baselineEnv: ["MURMUR_SESSION_ID"],
  });
  assert.equal(built.MURMUR_SESSION_ID, "ses_1");
});

Deno.test("nothing stripped is ever there", () => {
  const name = fc.oneof(
    fc.constantFrom(...INTERNAL, "PATH", "HOME", "TMP", "AWS_X", "A_API_KEY", "MY_VAR", "__proto__"),
    fc.string({ unit: fc.constantFrom("A", "B", "_", "*"), minLength: 1, maxLength: 6 }),
  );
  fc.assert(fc.property(fc.array(name), fc.array(name), fc.array(name), (present, baselineEnv, stripEnv) => {
    const host = new Map(present.map((key) => [key, "v"]));
    const built = build({}, { host, baselineEnv, stripEnv });
    for (const key of Object.keys(built)) {
      if (key in LAST) continue;
      assert.equal(strippedBy(key, stripEnv), null);
      assert.ok(!INTERNAL.includes(key));
      assert.ok(host.has(key));
    }
    for (const [key, value] of Object.entries(LAST)) assert.equal(built[key], value);
  }));
});
