/**
 * What a manifest may declare and this version of mur does not serve yet. Parsing accepts and judges all of it, since
 * `mur doctor` and the daemon read it; a run refuses it, so that nobody relies on a feature that is not there.
 *
 * One row a feature: whoever builds it deletes its row.
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import type { CapsuleManifest } from "./capsule_manifest.ts";
import { type ConfigArea } from "./manifest_error.ts";

/** A feature, and where a manifest declares it. */
interface Feature {
  /** Block whose sentence the refusal takes; `null`: an entry of `artifacts[]`. */
  readonly area: ConfigArea | null;
  /** Dotted paths at which this manifest declares it; empty when it does not. */
  readonly declared: (manifest: CapsuleManifest) => readonly string[];
  /** What is not served, completing "this version of mur does not … yet". */
  readonly lacks: string;
}

function when(condition: boolean, ...paths: string[]): string[] {
  return condition ? paths : [];
}

const FEATURES: readonly Feature[] = [
  {
    area: null,
    declared: ({ artifacts, inference }) =>
      artifacts.flatMap(({ role }, index) =>
        when(role === "hook" && inference === null, `artifacts[${index}].runtime`)
      ),
    lacks: "run hooks in a script capsule",
  },
  {
    area: "capability",
    declared: ({ capabilities }) => when(capabilities.installDeclared, "capabilities.install"),
    lacks: "install artifacts while a session runs",
  },
  {
    area: "inference",
    declared: ({ inference }) => when(inference?.transport === "process", "inference.transport"),
    lacks: "drive a harness process",
  },
  {
    area: "inference",
    declared: ({ inference }) => when((inference?.alternates.length ?? 0) > 0, "inference.alternates"),
    lacks: "switch between drivers",
  },
  {
    area: "inference",
    declared: ({ context }) => when(context.retain !== null, "context.retain"),
    lacks: "remove old conversations",
  },
  {
    area: "trace",
    declared: ({ trace }) => when(trace.retain !== null, "trace.retain"),
    lacks: "remove old sessions",
  },
  {
    area: "trace",
    declared: ({ observability }) => when(observability.otelEndpoint !== null, "observability.otel_endpoint"),
    lacks: "export spans",
  },
  {
    area: "trace",
    declared: ({ observability }) => when(observability.evalConfig !== null, "observability.eval"),
    lacks: "evaluate runs",
  },
  {
    area: "control",
    declared: ({ control }) => when(control !== null, "control"),
    lacks: "change settings while a capsule runs",
  },
];

/**
 * Refuses a manifest that declares something this version does not serve, the first of the table.
 *
 * @throws {MurError} `E-MAN-003`.
 */
export function refuseUnsupported(manifest: CapsuleManifest): void {
  for (const { area, declared, lacks } of FEATURES) {
    const [field] = declared(manifest);
    if (field === undefined) continue;
    const place = manifest.place(field);
    const subject = area === null
      ? `artifact declaration at index ${/\d+/.exec(field)?.[0] ?? 0}`
      : `${area} config for '${field}'`;
    throw new MurError(
      "E-MAN-003",
      `murmur.yaml: invalid ${subject}: this version of mur does not ${lacks} yet`,
      { ...(place === undefined ? {} : { place }), hint: "remove it, or use a version of mur that serves it" },
    );
  }
}
