/**
 * The planes as the door serves them (seed resource-plane): requests to the two planes a manifest declares become answers
 * over HTTP and lines of the trace. Loaded only for a capsule that declares one.
 *
 * Memory: files of up to 64 KiB are handed over as they are read. Of larger ones, and of listings, at most
 * {@linkcode PLANE_BUDGET_BYTES} are in memory together, or one that alone is larger.
 *
 * @module
 */
import type { Admit } from "../../planes/file_reader.ts";
import { SMALL_FILE_BYTES } from "../../planes/file_reader.ts";
import {
  answerListing,
  answerRead,
  LISTING_PATH,
  type OperatorPlane,
  type OperatorRecord,
} from "../../planes/operator_plane.ts";
import { handlePeerRequest, type PeerPlane, type RedeemRecord } from "../../planes/peer_plane.ts";
import type { PlaneAnswer } from "../../planes/plane_refusal.ts";
import { ReadAdmission, type Room } from "../../planes/read_admission.ts";
import type { PlaneRecord, PlaneRequest, ServedPlanes } from "./door_session.ts";
import { piecewiseBody } from "./piecewise_body.ts";

/** Bytes of all large files and listings that are in memory at once. */
export const PLANE_BUDGET_BYTES = 32 << 20;

/** What of a large file is handed to the HTTP server at once. */
const PIECE_BYTES = 256 << 10;

/** What the planes are served with. */
export interface PlaneEndpointOptions {
  readonly operator: OperatorPlane | null;
  readonly peer: PeerPlane | null;
  /** Takes the line of each request. */
  readonly record: (record: PlaneRecord) => void;
  /** A large answer of which nothing was taken for so long is broken off, in milliseconds. */
  readonly stallMs: number;
  /** How long a large file waits for room, in milliseconds. */
  readonly roomMs: number;
}

/** Serves the declared planes of one session. */
export class PlaneEndpoint implements ServedPlanes {
  readonly #options: PlaneEndpointOptions;
  readonly #admission = new ReadAdmission(PLANE_BUDGET_BYTES);
  /** One listing at a time. */
  readonly #listings = new ReadAdmission(1);
  readonly #cuts = new Set<() => void>();

  constructor(options: PlaneEndpointOptions) {
    this.#options = options;
  }

  get operator(): boolean {
    return this.#options.operator !== null;
  }

  get peer(): boolean {
    return this.#options.peer !== null;
  }

  answerOperator(request: PlaneRequest): Promise<Response> {
    const plane = this.#options.operator!;
    const { method, rawPath } = request;
    return this.#serve(
      (admit) =>
        rawPath === LISTING_PATH
          ? answerListing(plane, method, () => this.#listings.take(1, this.#options.roomMs), admit)
          : answerRead(plane, method, rawPath, admit),
    );
  }

  answerPeer(request: PlaneRequest): Promise<Response> {
    return this.#serve((admit) => handlePeerRequest(this.#options.peer!, request, admit));
  }

  /** Turns away who waits and breaks off what is being written. */
  cut(): void {
    this.#admission.close();
    this.#listings.close();
    for (const cut of [...this.#cuts]) cut();
  }

  async #serve(
    answer: (admit: Admit) => Promise<PlaneAnswer<OperatorRecord | RedeemRecord>>,
  ): Promise<Response> {
    let room: Room | null = null;
    let handedOver = false;
    const admit: Admit = (bytes) => {
      if (bytes <= SMALL_FILE_BYTES) return true;
      // A file that grew while it waited takes its room anew.
      room?.release();
      room = this.#admission.tryTake(bytes);
      return room !== null || this.#admission.take(bytes, this.#options.roomMs).then((taken) => {
        room = taken;
        return taken !== null;
      });
    };
    try {
      const { status, headers, body, record } = await answer(admit);
      this.#options.record(record);
      if (typeof body === "string" || body.length <= SMALL_FILE_BYTES) return new Response(body, { status, headers });
      const stream = this.#stream(body, room);
      handedOver = true;
      return new Response(stream, { status, headers: [...headers, ["content-length", String(body.length)]] });
    } finally {
      if (!handedOver) (room as Room | null)?.release();
    }
  }

  /** Writes a body and gives its room back once all of it was handed over, or nobody takes it any more. */
  #stream(bytes: Uint8Array<ArrayBuffer>, room: Room | null): ReadableStream<Uint8Array<ArrayBuffer>> {
    const { stream, cut } = piecewiseBody(bytes, {
      pieceBytes: PIECE_BYTES,
      stallMs: this.#options.stallMs,
      ended: () => {
        this.#cuts.delete(cut);
        // The memory is given back now, not when the collector finds it.
        bytes.buffer.transfer(0);
        room?.release();
      },
    });
    this.#cuts.add(cut);
    return stream;
  }
}
