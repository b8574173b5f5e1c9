/**
 * The planes and peer-file tools of one session, made from what its manifest declares. Loaded only for a capsule that
 * declares one of them.
 *
 * @module
 */
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import { DEFAULT_PEER_TTL_SECONDS } from "../../artifact/manifest/exports_block.ts";
import { normalWorkdirPath, workdirPathCovers } from "../../artifact/workdir_path.ts";
import { createHttpClient, type HttpClient } from "../../base/http_client.ts";
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import type { JsonObject } from "../../base/json_value.ts";
import { RootedDir, sameFile } from "../../base/rooted_dir.ts";
import { TrustedFiles } from "../../base/trusted_files.ts";
import { audienceFromCard } from "../../planes/audience.ts";
import { ExportRoot, judgeExportRoot } from "../../planes/export_root.ts";
import { PeerMintKey } from "../../planes/handle.ts";
import type { PeerPlane } from "../../planes/peer_plane.ts";
import { PEER_INBOX_DIR } from "../../planes/stored_path.ts";
import { exportSymlinks } from "../../sandbox/containment_class.ts";
import { PlaneEndpoint } from "../door/plane_endpoint.ts";
import type { PlaneRecord } from "../door/door_session.ts";
import { fetchPeerFile, MAX_FETCHED_BYTES } from "../peer_files/fetch_peer_file.ts";
import { shareFile } from "../peer_files/share_file.ts";
import { fetchPeerFileManifest, shareFileManifest } from "../peer_files/tool_manifests.ts";
import type { SecondTraceWriter } from "../trace/trace_writer.ts";
import { replacedWorkdir, type SessionDirectories } from "./session_directories.ts";
import type { RuntimeTool } from "./session_tools.ts";
import { proxyOf, type StagedSession } from "./stage_session.ts";

/** What the planes of a session are made with. */
export interface SessionPlanesOptions {
  readonly staged: StagedSession;
  readonly directories: SessionDirectories;
  readonly generation: () => number;
  /** The public card of this session's door. */
  readonly card: () => JsonObject;
  /** The trace's second writer; it is there once requests are taken. */
  readonly trace: () => SecondTraceWriter;
  /** Takes the line of each request to a plane. */
  readonly recordPlane: (record: PlaneRecord) => void;
}

/** What is open for the declared planes. */
export class SessionPlanes {
  /** `null` when only `capabilities.peer_fetch` is declared. */
  readonly endpoint: PlaneEndpoint | null;
  /** `share-file` and `fetch-peer-file`, each only when it is granted. */
  readonly tools: ReadonlyMap<string, RuntimeTool>;
  readonly #key: PeerMintKey | null;
  readonly #exported: RootedDir | null;
  readonly #client: HttpClient;

  /**
   * Judges the export roots and makes what they are served with.
   *
   * @throws {MurError} `E-CAP-007`.
   */
  constructor(options: SessionPlanesOptions) {
    const { staged, directories, generation, card, trace, recordPlane } = options;
    const { manifest, policy, containment, sessionId, options: { bounds } } = staged;
    const { files, peerFiles } = manifest.exports;
    judgeRoots(manifest, directories.workdir);
    const { achieved } = containment.decision;
    const symlinks = exportSymlinks(achieved);
    this.#exported = symlinks === "refused" ? openWithoutLinks(directories, staged.trusted) : null;
    const rootOf = ({ root, maxBytes }: { readonly root: string; readonly maxBytes: number }) =>
      new ExportRoot({ workdir: this.#exported ?? directories.workdir, root, maxBytes, symlinks });
    this.#key = peerFiles === null ? null : PeerMintKey.generate();
    const peer: PeerPlane | null = peerFiles === null ? null : {
      sessionId,
      key: this.#key!,
      root: rootOf(peerFiles),
      maxTtlSeconds: peerFiles.maxTtlSeconds ?? DEFAULT_PEER_TTL_SECONDS,
      containment: achieved,
      generation,
      now: Date.now,
    };
    this.endpoint = files === null && peer === null ? null : new PlaneEndpoint({
      operator: files === null
        ? null
        : { root: rootOf(files), containment: achieved, generation, listingMs: bounds.planeListing },
      peer,
      record: recordPlane,
      stallMs: bounds.doorBody,
      roomMs: bounds.planeRoom,
    });
    const patience = {
      silenceMs: bounds.peerSilence,
      deadlineSeconds: manifest.capabilities.limits.deadlineSeconds,
    };
    this.#client = createHttpClient({ proxy: proxyOf(staged), bounds });
    const tools = new Map<string, RuntimeTool>();
    if (peer !== null) {
      tools.set("share-file", (input, { signal }) =>
        shareFile(
          {
            plane: peer,
            network: policy.network,
            client: this.#client,
            patience,
            record: (body) => void trace().write("peer_handle_mint", body),
          },
          input,
          signal,
        ));
    }
    if (manifest.capabilities.peerFetch !== null) {
      tools.set("fetch-peer-file", (input, { signal }) =>
        fetchPeerFile(
          {
            allow: policy.peerFetch,
            workdir: directories.workdir,
            inboxReadOnly: manifest.capabilities.readOnly.some((entry) =>
              workdirPathCovers(normalWorkdirPath(entry), PEER_INBOX_DIR)
            ),
            maxBytes: Math.min(manifest.capabilities.resources.workdirMaxBytes, MAX_FETCHED_BYTES),
            audience: () => audienceFromCard(card()),
            client: this.#client,
            patience,
            record: (body) => void trace().write("peer_file_fetch", body),
          },
          input,
          signal,
        ));
    }
    this.tools = tools;
  }

  /** Overwrites the key, so that every handle is worthless, and lets go of the rest. */
  close(): void {
    this.#key?.destroy();
    this.#exported?.close();
    this.#client.close();
  }
}

/** Writes the manifests of the granted tools into `runtime/tools/`. */
export function installPeerTools({ exports, capabilities }: CapsuleManifest, runtime: RootedDir): void {
  const install = (name: string, manifest: string) => {
    runtime.mkdir(`tools/${name}`, { mode: 0o700 });
    writeAtomicallyIn(runtime, `tools/${name}/murmur.yaml`, manifest, { mode: 0o600, durable: false });
  };
  if (exports.peerFiles !== null) install("share-file", shareFileManifest(exports.peerFiles.root));
  if (capabilities.peerFetch !== null) install("fetch-peer-file", fetchPeerFileManifest());
}

function judgeRoots(manifest: CapsuleManifest, workdir: RootedDir): void {
  const { files, peerFiles } = manifest.exports;
  for (const [block, exported] of [["files", files], ["peer_files", peerFiles]] as const) {
    if (exported === null) continue;
    const field = `exports.${block}.root`;
    judgeExportRoot(workdir, exported.root, field, manifest.place(field));
  }
}

/** The work folder with a policy that follows no link at all. */
function openWithoutLinks({ paths, workdir }: SessionDirectories, trusted: StagedSession["trusted"]): RootedDir {
  const opened = RootedDir.open(paths.workdir, { symlinks: "refuse", trusted: new TrustedFiles(trusted) });
  if (sameFile(opened.identity, workdir.identity)) return opened;
  opened.close();
  throw replacedWorkdir(paths.workdir);
}
