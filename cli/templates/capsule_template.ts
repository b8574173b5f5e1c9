/**
 * The files of a new capsule: an agent with a shell, its prompt in a file of its own (spec cli 15.2).
 *
 * @module
 */

/** Who answers for the model. */
export type Provider = "anthropic" | "openai" | "scripted";

/** What the files are made from. */
export interface CapsuleFacts {
  /** A bare artifact name. */
  readonly name: string;
  readonly provider: Provider;
  /** Endpoint of the configuration; `null` for the provider's own. */
  readonly endpoint: string | null;
  /** Model of the configuration; `null` for the template's own. */
  readonly model: string | null;
}

/** What a driver needs to know of its provider. */
interface ProviderFacts {
  readonly driver: string;
  readonly endpoint: string;
  readonly model: string;
  /** Variable of the key; `null` for a provider that takes none. */
  readonly key: string | null;
}

/** Version of the drivers that come with this program. */
const DRIVER_VERSION = "0.1.0";

const PROVIDERS: Readonly<Record<Provider, ProviderFacts>> = {
  anthropic: {
    driver: "murmur-driver-anthropic",
    endpoint: "https://api.anthropic.com",
    model: "claude-haiku-4-5-20251001",
    key: "ANTHROPIC_API_KEY",
  },
  openai: {
    driver: "murmur-driver-openai",
    endpoint: "https://api.openai.com",
    model: "gpt-4o-mini",
    key: "OPENAI_API_KEY",
  },
  // It sends nothing, but every driver has a gateway.
  scripted: { driver: "murmur-driver-scripted", endpoint: "http://127.0.0.1:1", model: "scripted", key: null },
};

/** The providers there is a template for. */
export const CAPSULE_PROVIDERS = Object.keys(PROVIDERS) as readonly Provider[];

/** The driver a new capsule needs, and the variable of its key. */
export function driverOf(
  provider: Provider,
): { readonly name: string; readonly version: string; readonly key: string | null } {
  const { driver, key } = PROVIDERS[provider];
  return { name: driver, version: DRIVER_VERSION, key };
}

/** What the scripted driver answers: it looks around with the shell and says what it found. */
const SCRIPT = `    config:
      turns:
        - text: I look at what is here.
          tool_calls: [{ name: sh, input: { command: "pwd; ls -A | head -n 20" } }]
        - text: |
            You asked: {{task}}

            A script answers in place of a model. In the work folder it found:

            {{results.last.stdout}}
`;

/** The files by name. */
export function capsuleFiles({ name, provider, endpoint, model }: CapsuleFacts): Readonly<Record<string, string>> {
  const facts = PROVIDERS[provider];
  const scripted = provider === "scripted";
  // JSON's quoting is YAML's too.
  const address = JSON.stringify(scripted ? facts.endpoint : endpoint ?? facts.endpoint);
  const key = facts.key === null ? "keyless: true" : `api_key: "\${${facts.key}}"`;
  return {
    "murmur.yaml": `# ${name}: an agent with a shell. docs/manifest.md explains every block.
name: ${name}
version: "0.1.0"

artifacts:
  - name: ${facts.driver}
    version: "${DRIVER_VERSION}"
    runtime: driver
    gateway: { endpoint: ${address}, ${key} }

# What it may touch. Commands run in its work folder, without network.
capabilities:
  shell: { allow: [sh] }

# Ends after one task. To keep it running and send it tasks with mur send:
#   lifecycle: { task_acceptance: queue, after_task: sleep, queue_depth: 8 }
lifecycle: { task_acceptance: single, after_task: exit }

inference:
  model: ${JSON.stringify(scripted ? facts.model : model ?? facts.model)}
  max_turns: 20
  system_prompt_file: prompt.md
  driver:
    artifact: ${facts.driver}
${scripted ? SCRIPT : ""}`,
    "prompt.md":
      `You are ${name}, a careful assistant. Work in the current directory with the shell. Look before you change
anything, and say at the end, in one paragraph, what you did and where it is.
`,
    ".gitignore": "/workdir/\n/.murmur/\n/.env\n",
  };
}
