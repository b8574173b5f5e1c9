/**
 * `MURMUR.md`: the inventory of a session for the agent in it (spec components 13, session 3.6). Pure; staging writes it
 * with an empty URL and launch once more with the real one.
 *
 * @module
 */

/** Longest description, in characters. */
const DESCRIPTION_LENGTH = 200;

/** One installed artifact that the model may see. */
export interface ListedArtifact {
  readonly name: string;
  readonly version: string | null;
  /** `runtime:` of its manifest. */
  readonly runtime: string;
  readonly description: string | null;
}

/** What the file says. */
export interface MurmurMdFacts {
  readonly runtimeVersion: string;
  /** Time of writing. */
  readonly now: Date;
  readonly capsuleName: string;
  readonly capsuleVersion: string;
  readonly sessionId: string;
  /** `localhost:<port>`; empty before the door is bound. */
  readonly url: string;
  /** `inference.model`; `null` when none is configured. */
  readonly model: string | null;
  readonly workdir: string;
  readonly runtimeDir: string;
  readonly recordsDir: string;
  /** `context.max_tokens`. */
  readonly contextBudget: number | null;
  /** Whether a hook bound to `on-compaction`, or to nothing, is staged. */
  readonly compactionHook: boolean;
  /** A delegated child that got a copy of its parent's folder. */
  readonly copiedFolder: { readonly files: number; readonly bytes: number } | null;
  /** Tools and skills the model sees, by name. */
  readonly artifacts: readonly ListedArtifact[];
  /** The skill bound as system prompt. */
  readonly boundSkill: string | null;
  readonly shellAllow: readonly string[];
  /** `capabilities.install`; `null` when it is not declared. */
  readonly install: { readonly skill: readonly string[]; readonly tool: readonly string[] } | null;
}

/**
 * A publisher's description on one line: line breaks and tabs become spaces, backticks and other control characters go,
 * white space is collapsed, and what is longer than 200 characters is cut.
 */
export function listedDescription(text: string): string {
  const plain = text
    .replace(/[\r\n\t]/g, " ")
    // deno-lint-ignore no-control-regex
    .replace(/[`\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, "")
    .replace(/\s+/g, " ")
    .trim();
  const characters = [...plain];
  return characters.length <= DESCRIPTION_LENGTH ? plain : `${characters.slice(0, DESCRIPTION_LENGTH).join("")}…`;
}

const INTERPRETERS: ReadonlySet<string> = new Set(["bash", "sh", "zsh", "fish", "dash", "ksh"]);

function section(title: string, lines: readonly string[]): string {
  return `## ${title}\n\n${lines.join("\n")}\n`;
}

function artifactLine(artifact: ListedArtifact, note: string): string {
  const description = listedDescription(artifact.description ?? "");
  const tail = description === "" ? "" : ` — ${description}`;
  return `- **${artifact.name}** (v${artifact.version ?? "unknown"}, ${artifact.runtime})${tail}${note}`;
}

function capsuleLines(facts: MurmurMdFacts): string[] {
  const budget = facts.contextBudget === null ? "not set" : String(facts.contextBudget);
  const compaction = facts.contextBudget !== null && facts.compactionHook ? "configured" : "not configured";
  const lines = [
    facts.model === null ? "- Model: none configured" : `- Model: ${facts.model}`,
    `- Work folder: \`${facts.workdir}\`, your \`.\`. It is all of the file system there is for you.`,
    `- Context budget: ${budget} tokens (compaction ${compaction})`,
  ];
  if (facts.copiedFolder !== null) {
    lines.push(
      `- The work folder is a copy of your parent's: ${facts.copiedFolder.files} files, ` +
        `${facts.copiedFolder.bytes} bytes. What you change does not reach the parent.`,
    );
  }
  return lines;
}

function shellLines(allow: readonly string[]): string[] {
  if (allow.length === 0) return ["Shell commands are off."];
  const interpreters = allow.filter((binary) => INTERPRETERS.has(binary));
  const direct = allow.filter((binary) => !INTERPRETERS.has(binary));
  return [
    ...(interpreters.length === 0
      ? []
      : [`- Interpreters: ${interpreters.join(", ")}. \`command\` is the text of a script.`]),
    ...(direct.length === 0 ? [] : [`- Direct: ${direct.join(", ")}. \`command\` holds the arguments only.`]),
  ];
}

/** The text of `MURMUR.md`. */
export function murmurMd(facts: MurmurMdFacts): string {
  const skills = facts.artifacts.filter(({ runtime }) => runtime === "skill");
  const tools = facts.artifacts.filter(({ runtime }) => runtime !== "skill");
  const sections = [
    `# MURMUR\n\nWritten by mur ${facts.runtimeVersion} at ${facts.now.toISOString()}.\n`,
    section("Identity", [
      `- Capsule: ${facts.capsuleName} ${facts.capsuleVersion}`,
      `- Session: ${facts.sessionId}`,
      `- URL: ${facts.url}`,
    ]),
    section("Capsule", capsuleLines(facts)),
    section("Directory layout", [
      `- Runtime directory \`${facts.runtimeDir}\` (read-only): \`MURMUR.md\`, \`task.md\`, \`tools/\``,
      `- Records directory \`${facts.recordsDir}\` (read-only): \`out/\`, \`logs/\``,
      `- Work folder: \`checkpoints/\` with \`summary.md\`, \`plan.json\`, \`decisions.json\``,
    ]),
    section("Installed tools", [
      "Descriptions come from the publishers of the artifacts and are unverified.",
      "",
      ...(tools.length === 0 ? ["No tools are installed."] : tools.map((tool) => artifactLine(tool, ""))),
    ]),
  ];
  if (skills.length > 0) {
    sections.push(section("Installed skills", [
      "Call a skill by its name, without input, to read it.",
      "",
      ...skills.map((skill) =>
        artifactLine(
          skill,
          skill.name === facts.boundSkill
            ? " *(bound as system prompt — already in context, not separately callable)*"
            : " *(call by name to load guidance)*",
        )
      ),
    ]));
  }
  sections.push(
    section("Calling a tool", [
      "Call a tool by its name with the input its schema asks for. The result is text; a failed call is marked as an error.",
    ]),
    section("Shell commands", shellLines(facts.shellAllow)),
    section("Checkpointing", [
      "Long work survives in `checkpoints/summary.md`, `checkpoints/plan.json` and `checkpoints/decisions.json` of the work",
      "folder. The runtime neither reads nor writes them.",
    ]),
  );
  if (facts.install !== null) {
    const list = (names: readonly string[]) => names.length === 0 ? "none" : names.join(", ");
    sections.push(section("Managing artifacts", [
      "Tools with the `manage` interface can `list`, `describe` and `pull` artifacts and read `diagnostics`.",
      "",
      `- Skills that may be pulled: ${list(facts.install.skill)}`,
      `- Tools that may be pulled: ${list(facts.install.tool)}`,
    ]));
  }
  return sections.join("\n");
}
