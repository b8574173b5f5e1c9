/**
 * A work folder with an exported folder in it, and secrets beside both.
 *
 * @module
 */
import { RootedDir } from "../../base/rooted_dir.ts";
import { ExportRoot } from "../../planes/export_root.ts";
import type { OperatorPlane } from "../../planes/operator_plane.ts";

/** Text of every file that must not be served. */
export const SECRET = "the secret of somebody else";

/** The folders of one test. */
export interface ExportFolder extends Disposable {
  /** Absolute path of what holds the work folder, and `secret.txt` beside it. */
  readonly outer: string;
  /** `<outer>/work`, with `secret.txt` in it. */
  readonly work: string;
  /** `<outer>/work/out`. */
  readonly out: string;
  /** The exported folder as a session sees it whose class follows links, or refuses them. */
  root(symlinks?: "refused" | "followed-inside", maxBytes?: number, root?: string): ExportRoot;
  /** The same as an operator plane. */
  plane(symlinks?: "refused" | "followed-inside", maxBytes?: number, root?: string): OperatorPlane;
}

/** Makes the folders. */
export function exportFolder(): ExportFolder {
  const outer = Deno.realPathSync(Deno.makeTempDirSync({ prefix: "mur-export-" }));
  const work = `${outer}/work`;
  const out = `${work}/out`;
  Deno.mkdirSync(out, { recursive: true });
  for (const folder of [outer, work]) Deno.writeTextFileSync(`${folder}/secret.txt`, SECRET);
  const opened: RootedDir[] = [];
  const root: ExportFolder["root"] = (symlinks = "followed-inside", maxBytes = 1 << 20, path = "out/") => {
    const workdir = RootedDir.open(work, { symlinks: symlinks === "refused" ? "refuse" : "inside" });
    opened.push(workdir);
    return new ExportRoot({ workdir, root: path, maxBytes, symlinks });
  };
  return {
    outer,
    work,
    out,
    root,
    plane: (...options) => ({
      root: root(...options),
      containment: options[0] === "refused" ? "scoped" : "sealed",
      generation: () => 7,
      listingMs: 60_000,
    }),
    [Symbol.dispose]() {
      for (const each of opened) each.close();
      Deno.removeSync(outer, { recursive: true });
    },
  };
}
