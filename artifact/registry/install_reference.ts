/**
 * What `mur install` is asked to install, by the form of its argument (spec cli 8.1).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { type ArtifactName, parseReference, requireName } from "../artifact_name.ts";
import { ARCHIVE_SUFFIX } from "../package.ts";
import { parseRepository, type Repository } from "./github_source.ts";

/** A parsed install reference. */
export type InstallReference =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "release"; readonly repository: Repository; readonly tag: string }
  | { readonly kind: "artifact"; readonly name: ArtifactName; readonly version: string | null };

/**
 * Tells the forms apart, in the order of spec cli 8.1.
 *
 * @throws {MurError} `E-IO-003`.
 */
export function parseInstallReference(reference: string): InstallReference {
  const isPath = /^(?:\.{1,2}\/|\/)/.test(reference);
  if (isPath || (reference.includes("/") && reference.endsWith(ARCHIVE_SUFFIX))) {
    return { kind: "file", path: reference };
  }
  const colon = reference.indexOf(":");
  if (colon !== -1) {
    const prefix = reference.slice(0, colon);
    if (prefix !== "github") {
      throw new MurError("E-IO-003", `invalid artifact reference '${reference}': '${prefix}:' is not known`, {
        hint: "write github:<owner>/<repo>@<tag>, <name>@<version>, or the path of a file",
      });
    }
    const rest = reference.slice(colon + 1);
    const at = rest.indexOf("@");
    const repository = at === -1 ? null : parseRepository(rest.slice(0, at));
    const tag = rest.slice(at + 1);
    if (repository === null || tag === "") {
      throw new MurError("E-IO-003", `invalid artifact reference '${reference}'`, {
        hint: "write github:<owner>/<repo>@<tag>",
      });
    }
    return { kind: "release", repository, tag };
  }
  if (reference.endsWith(ARCHIVE_SUFFIX) && !reference.includes("@")) {
    throw new MurError("E-IO-003", `invalid artifact reference '${reference}': a file is named by its path`, {
      hint: `write ./${reference}`,
    });
  }
  if (!reference.includes("@")) return { kind: "artifact", name: requireName(reference), version: null };
  const { name, version } = parseReference(reference);
  return { kind: "artifact", name, version };
}
