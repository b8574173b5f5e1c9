/**
 * The files of a new hook: one TypeScript file and its manifest (spec cli 15.2).
 *
 * @module
 */

/** The line that a capsule declares the hook with. */
export function hookEntryLine(name: string, version: string): string {
  return `- { name: ${name}, version: "${version}", runtime: hook }`;
}

/** The files by name. */
export function hookFiles(name: string): Readonly<Record<string, string>> {
  const version = "0.1.0";
  return {
    "murmur.yaml": `# When the hook is called, and what its answer may do: docs/writing-a-hook.md.
name: ${name}
version: "${version}"
runtime: hook
description: Refuses tool calls that name a protected path.
binding: on-tool-call
commit_policy: deny
build: { entry: hook.ts }

# In the murmur.yaml of the capsule that uses it:
#   artifacts:
#     ${hookEntryLine(name, version)}
# and, to protect other paths than .git, with this on the entry: config: { protect: [".git", "migrations"] }
`,
    "hook.ts": `// docs/writing-a-hook.md lists the events, their answers, and what a hook can use.
import { config } from "murmur/environment";
import { defineHook, deny } from "murmur/hook";

const { protect = [".git"] } = config<{ protect?: string[] }>() ?? {};

export default defineHook({
  // Called before each tool call, when outcome is null, and after it.
  onToolCall({ toolName, input, outcome }) {
    if (outcome !== null) return;
    const named = protect.find((path) => input.includes(path));
    if (named !== undefined) return deny(\`\${toolName} must not touch \${named}\`);
  },
});
`,
    ".gitignore": "*.mur.zip\n",
  };
}
