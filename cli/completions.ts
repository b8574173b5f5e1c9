/**
 * `mur completions bash|zsh|fish`: the script that makes a shell complete `mur` (spec cli 15.2).
 *
 * The scripts know no command. They ask `mur __complete <words…>`, which prints a proposal a line, a tab and what it is
 * for; without proposals the shell completes file names.
 *
 * @module
 */
import type { CliContext } from "./context.ts";

/** Shells there is a script for. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** One of them. */
export type Shell = (typeof SHELLS)[number];

/** First argument of the hidden command the scripts call. */
export const COMPLETE_ARGUMENT = "__complete";

const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `# Completion of mur for bash. In ~/.bashrc: eval "$(mur completions bash)"
_mur() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <(mur ${COMPLETE_ARGUMENT} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _mur mur
`,
  zsh: `#compdef mur
# Completion of mur for zsh. In ~/.zshrc, behind compinit: eval "$(mur completions zsh)"
_mur() {
  local line
  local -a proposals
  while IFS= read -r line; do
    proposals+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <(mur ${COMPLETE_ARGUMENT} "\${(@)words[2,$CURRENT]}" 2>/dev/null)
  if (( \${#proposals} )); then
    _describe mur proposals
  else
    _files
  fi
}
if [[ "\${funcstack[1]}" == _mur ]]; then
  _mur "$@"
else
  compdef _mur mur
fi
`,
  fish: `# Completion of mur for fish. Save as ~/.config/fish/completions/mur.fish
function __mur_proposals
    set -l typed (commandline -ct)
    set -l words (commandline -opc)
    set -e words[1]
    set -l proposals (mur ${COMPLETE_ARGUMENT} $words "$typed" 2>/dev/null)
    if set -q proposals[1]
        printf '%s\\n' $proposals
    else
        __fish_complete_path "$typed"
    end
end
complete -c mur -f -a '(__mur_proposals)'
`,
};

/** Prints the script. */
export function completions(context: CliContext, shell: Shell): Promise<number> {
  context.stdout.write(SCRIPTS[shell]);
  return Promise.resolve(0);
}
