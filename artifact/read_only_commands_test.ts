import assert from "node:assert/strict";
import fc from "fast-check";
import { refuseShellWrite } from "./read_only_commands.ts";
import { type PathResolver, ReadOnlyPaths } from "./read_only_rules.ts";

/** Resolves against a real directory. */
function realResolver(root: string): PathResolver {
  return (path) => {
    const absolute = path.startsWith("/") ? path : `${root}/${path}`;
    // What exists is resolved by the kernel, the rest by text.
    const parts = absolute.split("/").filter((part) => part !== "" && part !== ".");
    for (let known = parts.length; known >= 0; known--) {
      let base: string;
      try {
        base = Deno.realPathSync(`/${parts.slice(0, known).join("/")}`);
      } catch {
        continue;
      }
      const resolved: string[] = base.split("/").filter((part) => part !== "");
      for (const part of parts.slice(known)) {
        if (part === "..") resolved.pop();
        else resolved.push(part);
      }
      const full = `/${resolved.join("/")}`;
      return full === root ? "." : full.startsWith(`${root}/`) ? full.slice(root.length + 1) : null;
    }
    return null;
  };
}

/** A work folder with a protected folder, one that holds it, links, and files of all kinds. */
function makeWorkdir(): string {
  const root = Deno.realPathSync(Deno.makeTempDirSync());
  for (const folder of ["ref/deep", "ref/empty", "docs/ref2", "free", "backup/ref", "new"]) {
    Deno.mkdirSync(`${root}/${folder}`, { recursive: true });
  }
  for (
    const file of [
      "ref/a",
      "ref/b",
      "ref/deep/c",
      "docs/ref2/d",
      "docs/e",
      "free/f",
      "backup/ref/a",
      "a",
      "new/x",
      "script.sed",
    ]
  ) Deno.writeTextFileSync(`${root}/${file}`, `content of ${file}\n`);
  Deno.symlinkSync("ref", `${root}/alias`);
  Deno.symlinkSync("../ref/a", `${root}/free/link`);
  return root;
}

const ENTRIES = ["ref", "docs/ref2"];

function judgeBody(root: string, text: string, shell = "bash") {
  return refuseShellWrite(new ReadOnlyPaths(ENTRIES, realResolver(root)), { kind: "body", shell, text });
}

/** What the protected folders hold. */
function snapshot(root: string): string {
  const lines: string[] = [];
  const walk = (path: string): void => {
    let info: Deno.FileInfo;
    try {
      info = Deno.lstatSync(`${root}/${path}`);
    } catch {
      lines.push(`${path} absent`);
      return;
    }
    lines.push(
      `${path} ${info.mode} ${
        info.isFile ? `${info.mtime?.getTime()} ${Deno.readTextFileSync(`${root}/${path}`)}` : ""
      }`,
    );
    if (!info.isDirectory) return;
    for (const entry of [...Deno.readDirSync(`${root}/${path}`)].map(({ name }) => name).sort()) {
      walk(`${path}/${entry}`);
    }
  };
  ENTRIES.forEach(walk);
  return lines.join("\n");
}

/**
 * Command lines that write to a protected path. Each is refused, and each is run to see that it does write: a row that
 * proves nothing fails.
 */
const WRITES: readonly string[] = [
  // Redirections
  "echo x > ref/a",
  "echo x >> ref/a",
  "echo x >| ref/a",
  "echo x &> ref/a",
  "echo x &>> ref/a",
  "echo x 1> ref/new",
  "ls nothing 2> ref/new",
  "ls nothing 2>> ref/a",
  "echo x >& ref/a",
  "echo x 1<> ref/a",
  ": > ref/a",
  "> ref/a",
  ">ref/a",
  "echo x>ref/a",
  "echo x >ref/a;",
  "echo x > 'ref/a'",
  'echo x > "ref/a"',
  "echo x > r'e'\"f\"/a",
  "echo x > ref\\/a",
  "echo x > $'ref/a'",
  "echo x > $'\\x72ef/a'",
  "echo x > $'\\162\\145f/\\u0061'",
  "echo x > ./ref/../ref/a",
  'echo x > "$PWD/ref/a"',
  "echo x > ${PWD}/ref/a",
  "echo x > alias/a",
  "echo x > free/link",
  "f=new2; echo x > ref/$f",
  "echo x > ref/$(echo new3)",
  "echo x > ref/`echo new4`",
  "{ echo x; } > ref/a",
  "(echo x) > ref/a",
  "if true; then echo x > ref/a; fi",
  "for i in 1; do echo x > ref/a; done",
  "while read l; do echo $l; done < a > ref/new",
  "echo x | cat > ref/a",
  "true && echo x > ref/a",
  "false || echo x > ref/a",
  "true & echo x > ref/a; wait",
  "true\necho x > ref/a",
  "true # comment > free/f\necho x > ref/a",
  "cat <<EOF > ref/a\nhello\nEOF",
  "cat > ref/a <<'EOF'\nhello\nEOF",
  "cat <<EOF\nhello\nEOF\necho x > ref/a",
  "cat <<-EOF\n\thello\n\tEOF\necho x > ref/a",
  "cat <<A <<B\na\nA\nb\nB\necho x > ref/a",
  "((n = 1 << 2))\necho x > ref/a",
  "a[1<<2]=x\necho x > ref/a",
  "cat <<< text > ref/a",
  "cd ref && echo x > a",
  "cd ./ref/deep; echo x > ../a",
  "cd free; echo x > ../ref/a",
  "pushd ref >/dev/null; echo x > a",
  "(cd ref; echo x > a)",
  "(cd free; true); echo x > ref/a",
  "echo \\\n x > ref/a",
  "echo x >\\\n ref/a",

  // Commands that write all their arguments
  "rm ref/a",
  "rm -f -- ref/a",
  "rm -f free/f ref/a",
  "rm -rf ref",
  "rm -rf docs",
  "rm -rf ./*",
  "rm -rf re*",
  "rm -rf r[e]f",
  "rm -rf ???",
  "rm -rf */a",
  "rm ref/*",
  "rm {free/f,ref/a}",
  "rm -rf {doc,x}s",
  "/bin/rm ref/a",
  "\\rm ref/a",
  "'rm' ref/a",
  'r"m" ref/a',
  "command rm ref/a",
  "env rm ref/a",
  "env -u HOME X=1 rm ref/a",
  "X=1 rm ref/a",
  "exec rm ref/a",
  "nice -n 5 rm ref/a",
  "nohup rm ref/a 2>/dev/null",
  "timeout 5 rm ref/a",
  "timeout -s KILL 5 rm ref/a",
  "time rm ref/a",
  "! rm ref/a",
  "xargs rm ref/a < /dev/null",
  "sh -c 'rm ref/a'",
  "bash -ec 'rm ref/a'",
  'bash -c "cd ref; rm a"',
  "bash -c 'bash -c \"rm ref/a\"'",
  "rmdir ref/empty",
  "shred -u ref/a",
  "unlink ref/a",
  "touch ref/new",
  "mkdir ref/newdir",
  "mkdir -p ref/x/y",
  "truncate -s 0 ref/a",
  "chmod 600 ref/a",
  "chmod -R 700 docs",
  "echo x | tee ref/a > /dev/null",
  "echo x | tee -a free/f ref/a > /dev/null",

  // Commands that write their last argument, and what `mv` takes away
  "cp a ref/a",
  "cp a ref",
  "cp -t ref a",
  "cp --target-directory=ref a",
  "cp -t ref new/x",
  "cp a -f ref/a",
  "cp -- a ref/a",
  "cp -r backup/ref .",
  "cp -r backup/ref/. ref",
  "cp new/x alias/",
  "mv a ref/a",
  "mv ref/a free/",
  "mv ref free/",
  "mv docs other",
  "ln -s a ref/link",
  "ln -sf a ref/a",
  "install new/x ref/x",
  "install -d ref/dir",

  // sed and dd
  "sed -i s/content/x/ ref/a",
  "sed -i.bak s/content/x/ ref/a",
  "sed -ni p ref/a",
  "sed -e s/content/x/ -i ref/a",
  "sed --in-place s/content/x/ ref/a",
  "sed --in-place=.bak -e s/content/x/ ref/a",
  "sed -i -f script.sed free/f ref/a; touch ref/a",
  "sed -i -- s/content/x/ ref/a",
  "dd if=a of=ref/a 2>/dev/null",
  "dd of=ref/new < a 2>/dev/null",
];

/** Command lines that leave the protected folders as they are; none is refused. */
const HARMLESS: readonly string[] = [
  "cat ref/a",
  "ls ref > free/list",
  "grep content ref/a >> free/f",
  "cp ref/a free/a",
  "cp ref/a .",
  "cp -r ref free/copy",
  "ln -s ref/a free/new-link",
  "echo '> ref/a'",
  'echo "> ref/a"',
  "echo \\> ref/a",
  "echo ref/a # > ref/a",
  "cat <<EOF\nrm ref/a\necho x > ref/a\nEOF",
  "cat <<'EOF' > free/doc\nrm ref/a > ref/b\nEOF",
  "echo rm ref/a",
  "echo x > ref2",
  "echo x > reference",
  "rm -f refs",
  "rm free/f",
  "rm -f a*",
  "sed s/content/x/ ref/a > free/out",
  "sed -n p ref/a",
  "sed -e s/i/j/ ref/a",
  "sed -i s/content/x/ free/f",
  "dd if=ref/a of=free/g 2>/dev/null",
  "cd free && echo x > a",
  "cd free; echo x > ref",
  "(cd ref; cat a); echo x > a",
  "cat < ref/a",
  "diff <(cat ref/a) ref/b > free/diff; true",
  "echo x > /dev/null 2>&1",
  "echo x 2>&1 >/dev/null",
  "test a = b > free/t; true",
  "rm -f $UNSET/a2",
  "echo $((1 > 0)) > free/n",
  "mkdir -p ~/ref",
  "chmod -R u+w free",
  "case ref/a in ref*) echo yes;; esac",
  "tee free/x < ref/a > /dev/null",
];

async function runIn(root: string, text: string): Promise<void> {
  const home = await Deno.makeTempDir();
  try {
    await new Deno.Command("bash", {
      args: ["-c", text],
      cwd: root,
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin", HOME: home },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    })
      .output();
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

const hasBash = await (async () => {
  try {
    return (await new Deno.Command("bash", { args: ["-c", "true"], stdout: "null", stderr: "null" }).output()).success;
  } catch {
    return false;
  }
})();

for (const text of WRITES) {
  Deno.test({
    name: `refused, and it would write: ${text.replaceAll("\n", "⏎")}`,
    ignore: !hasBash,
    fn: async () => {
      const root = makeWorkdir();
      try {
        const refusal = judgeBody(root, text);
        const before = snapshot(root);
        await runIn(root, text);
        assert.notEqual(snapshot(root), before, "the command writes to a protected path");
        assert.ok(refusal !== null, "the command is refused");
        assert.ok(ENTRIES.includes(refusal.rule));
        assert.match(refusal.path, /^(ref|docs\/ref2)(\/|$)/);
      } finally {
        Deno.removeSync(root, { recursive: true });
      }
    },
  });
}

for (const text of HARMLESS) {
  Deno.test({
    name: `runs, and it leaves protected paths alone: ${text.replaceAll("\n", "⏎")}`,
    ignore: !hasBash,
    fn: async () => {
      const root = makeWorkdir();
      try {
        assert.equal(judgeBody(root, text), null);
        const before = snapshot(root);
        await runIn(root, text);
        assert.equal(snapshot(root), before);
      } finally {
        Deno.removeSync(root, { recursive: true });
      }
    },
  });
}

Deno.test("shells that read a text differently are all thought of", () => {
  const root = makeWorkdir();
  try {
    // In fish a backslash quotes a quote inside single quotes.
    assert.equal(judgeBody(root, "echo 'a\\' 'b; rm ref/a #'", "bash"), null);
    assert.notEqual(judgeBody(root, "echo 'a\\' 'b; rm ref/a #'", "fish"), null);
    // In dash `((` opens two subshells and `[[` is a command whose output goes where `>` says.
    assert.notEqual(judgeBody(root, "((rm ref/a))", "dash"), null);
    assert.notEqual(judgeBody(root, "( (rm ref/a) )", "dash"), null);
    assert.notEqual(judgeBody(root, "[[ a > ref/a ]]", "dash"), null);
    // In zsh `!` and `|` behind a redirection force it.
    assert.notEqual(judgeBody(root, "echo x >! ref/a", "zsh"), null);
    assert.notEqual(judgeBody(root, "echo x >!ref/a", "zsh"), null);
    assert.notEqual(judgeBody(root, "echo x &>| ref/a", "zsh"), null);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});

Deno.test("commands that not every machine has, or that need rights to show, are refused too", () => {
  const root = makeWorkdir();
  try {
    for (
      const text of [
        "chown nobody ref/a",
        "chown -R nobody docs",
        "patch ref/a < x.diff",
        "patch -o ref/new a x.diff",
        "patch --output=ref/new a x.diff",
        "busybox rm ref/a",
        "sudo -u root rm ref/a",
        "zsh -c 'rm ref/a'",
      ]
    ) assert.notEqual(judgeBody(root, text), null, text);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});

Deno.test("what the specification leaves to the interpreter is not refused", () => {
  const root = makeWorkdir();
  try {
    for (
      const text of [
        "echo $(rm ref/a)",
        "eval 'rm ref/a'",
        "python3 -c \"open('ref/a','w')\"",
        "git checkout ref",
        "rsync a ref/",
        "$CMD ref/a",
        "bash script.sh ref/a",
      ]
    ) assert.equal(judgeBody(root, text), null, text);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});

Deno.test("a binary gets its arguments without a shell: no pattern, no redirection, no variable", () => {
  const root = makeWorkdir();
  try {
    const paths = new ReadOnlyPaths(ENTRIES, realResolver(root));
    const judge = (binary: string, ...args: string[]) => refuseShellWrite(paths, { kind: "argv", binary, args });
    assert.equal(judge("rm", "ref/a")?.signal, "rm");
    assert.equal(judge("tee", "-a", "ref/a")?.path, "ref/a");
    assert.equal(judge("sed", "-i", "s/a/b/", "ref/a")?.signal, "sed -i");
    assert.equal(judge("dd", "of=ref/a")?.signal, "dd of=");
    assert.equal(judge("env", "rm", "ref/a")?.signal, "rm");
    assert.equal(judge("bash", "-c", "rm ref/a")?.signal, "rm");
    for (
      const harmless of [
        ["echo", "x", ">", "ref/a"],
        ["rm", "ref*"],
        ["rm", "$PWD/ref/a"],
        ["rm", "'ref/a'"],
        ["cat", "ref/a"],
        ["rm"],
        ["cp", "ref/a"],
      ]
    ) {
      // `cp ref/a` names no target; its one argument is the last, and the rules take it for one.
      const refusal = judge(harmless[0]!, ...harmless.slice(1));
      assert.equal(refusal === null, harmless[0] !== "cp", harmless.join(" "));
    }
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});

Deno.test("nothing is asked of the file system when nothing is read-only", () => {
  const paths = new ReadOnlyPaths([], () => assert.fail("asked"));
  assert.equal(refuseShellWrite(paths, { kind: "body", shell: "bash", text: "rm -rf /" }), null);
});

Deno.test("any text is judged, and soon", () => {
  const paths = new ReadOnlyPaths(ENTRIES, (path) => path.startsWith("/") ? null : path);
  const piece = fc.constantFrom(
    ..."'\"\\`$(){}[]<>|&;#~*?!=\n\t -./",
    "rm ",
    "ref/a",
    "cd ",
    "<<EOF",
    "$(",
    "${",
    "((",
    "))",
    "bash -c ",
    "env ",
    "sed -i ",
  );
  fc.assert(
    fc.property(fc.string({ unit: piece, maxLength: 60 }), fc.constantFrom("bash", "fish", "zsh"), (text, shell) => {
      refuseShellWrite(paths, { kind: "body", shell, text });
    }),
    { numRuns: 3000 },
  );
  for (
    const text of [
      "{".repeat(100_000),
      "{a,".repeat(50_000),
      "{a,b}".repeat(20_000),
      "rm {a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}{o,p}{q,r}",
      "(".repeat(100_000),
      "$(".repeat(100_000),
      "'".repeat(100_001),
      "<<a ".repeat(30_000),
      "env ".repeat(50_000) + "rm ref/a",
      "bash -c '".repeat(10_000),
      "rm " + "*".repeat(50_000),
      "rm " + "*a".repeat(20_000) + "/x",
      "a[".repeat(30_000) + "<<x",
      "rm " + "x/".repeat(50_000),
    ]
  ) {
    const start = performance.now();
    refuseShellWrite(paths, { kind: "body", shell: "bash", text });
    assert.ok(performance.now() - start < 5_000, text.slice(0, 20));
  }
});
