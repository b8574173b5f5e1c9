/**
 * The endpoints that decide: bodies, tokens, the order of checks (seed roost "Endpoints"; spec roost 3). The decisions
 * themselves are the ledger's and the envelope's.
 *
 * A request is answered in one turn of the event loop unless its artifact has to be read first; then everything that was
 * decided before is decided again, so that no two requests take the same slot.
 *
 * @module
 */
import { reasonOf } from "../base/errors.ts";
import { newTokenKey, sameText } from "../base/mac_token.ts";
import {
  APPROVAL_HEADER,
  CREDENTIAL_HEADER,
  LIVE_CAPSULES_HEADER,
  type RegisterRequest,
  type SpawnRequest,
} from "../base/roost_client.ts";
import { mintApproval, mintCredential, newTokenId, openApproval, openCredential } from "../base/spawn_token.ts";
import { envelopeExcess } from "./envelope.ts";
import type { Grants } from "./grants.ts";
import { EMPTY, refused } from "./front.ts";
import type { HttpAnswer, HttpRequest } from "./http_server.ts";
import { type Ledger, MAX_SESSIONS } from "./ledger.ts";
import {
  APPROVAL_EXPIRED,
  APPROVAL_REDEEMED,
  boundReached,
  noRoom,
  NOT_AUTHORISED,
  NOT_FOUND,
  notInOperatorsList,
  notInParentsList,
  notResolved,
  otherBytes,
  otherCoordinates,
  outsideEnvelope,
  SESSION_NOT_FOUND,
} from "./refusals.ts";
import type { JudgedArtifact, Registry } from "./registry.ts";
import { SlotMap } from "./slot_map.ts";
import { BadBody, readDeregisterRequest, readRegisterRequest, readSpawnRequest } from "./request_body.ts";
import type { RunningCensus } from "./running_census.ts";

/** What the referee stands on. */
export interface RefereeParts {
  readonly ledger: Ledger<Grants>;
  readonly registry: Registry;
  readonly census: Pick<RunningCensus, "gone" | "register" | "forget">;
  /** How long an approval lives, in milliseconds: what its answer tells; the ledger decides. */
  readonly approvalMs: number;
  /** `--spawn-allow`. */
  readonly spawnAllow: ReadonlySet<string>;
  /** Takes what is to be logged; never a token. */
  readonly log: (event: RefereeEvent) => void;
}

/** One line of the log. */
export interface RefereeEvent {
  readonly event: "spawn" | "register" | "deregister" | "died" | "gone";
  readonly status?: number;
  readonly session_id?: string;
  readonly capsule?: string;
  readonly version?: string;
  readonly outcome?: string;
  /** Why it was refused. */
  readonly error?: string;
}

const NO_ENDPOINT = refused(404, NOT_FOUND);
const NO_SESSION = refused(404, SESSION_NOT_FOUND);
const UNIDENTIFIED = refused(403, NOT_AUTHORISED);

/** Moment of what is decided after a wait, later than that of any request that has come. */
const LATER = Infinity;

/** An artifact, or why there is none. */
type Resolution = JudgedArtifact | { readonly problem: string };

/** A session that may ask for one more child, and when it was judged. */
interface Asking {
  readonly id: string;
  readonly grants: Grants;
  readonly now: number;
}

/** Answers requests. */
export class Referee {
  readonly #parts: RefereeParts;
  readonly #credentialKey = newTokenKey();
  readonly #approvalKey = newTokenKey();
  /**
   * Sessions by the credentials whose code was verified before, while they run: a text that equals one of those needs no
   * second code. Any other goes through the code's comparison, whose time tells nothing.
   */
  readonly #verified = new SlotMap<string>();
  /**
   * The one credential of each running session: an id that was given out again after its record had gone is another
   * session, and what the first one held is nothing to it.
   */
  readonly #credentials = new SlotMap<string>();
  /** The last moment whose requests the processes were looked at for. */
  #lookedAt = -Infinity;

  constructor(parts: RefereeParts) {
    this.#parts = parts;
  }

  /**
   * Answers a request that the front let through.
   *
   * @param path Of its target, as it was sent.
   */
  answer(request: HttpRequest, path: string): HttpAnswer | Promise<HttpAnswer> {
    const { method, fields, moment } = request;
    if (method === "GET") {
      return path.startsWith(STATUS) ? this.#status(path.slice(STATUS.length), moment) : NO_ENDPOINT;
    }
    if (method !== "POST") return NO_ENDPOINT;
    try {
      switch (path) {
        case "/spawn":
          return this.#spawn(readSpawnRequest(request.content), fields.get(CREDENTIAL_HEADER), moment);
        case "/register":
          return this.#register(readRegisterRequest(request.content), fields.get(APPROVAL_HEADER), moment);
        case "/deregister":
          return this.#deregister(
            readDeregisterRequest(request.content).outcome,
            fields.get(CREDENTIAL_HEADER),
            moment,
          );
      }
    } catch (error) {
      if (error instanceof BadBody) return refused(400, error.message);
      throw error;
    }
    return NO_ENDPOINT;
  }

  #status(segment: string, moment: number): HttpAnswer {
    this.#look(moment);
    const { ledger } = this.#parts;
    const now = performance.now();
    const id = decoded(segment);
    const figures = id === null ? null : ledger.figures(id, now);
    // The count is the same whoever is asked for, and there may be nobody to ask for: after a restart, for instance.
    if (figures === null) return { ...NO_SESSION, field: [LIVE_CAPSULES_HEADER, String(ledger.census(now))] };
    const { status, depthRemaining, liveChildren, liveCapsules } = figures;
    // Numbers and one of three words: nothing that JSON would escape.
    return {
      status: 200,
      body:
        `{"status":"${status}","depth_remaining":${depthRemaining},"live_children":${liveChildren},"live_capsules":${liveCapsules}}`,
    };
  }

  #spawn(request: SpawnRequest, token: string | undefined, moment: number): HttpAnswer | Promise<HttpAnswer> {
    const asked = this.#judgeAsking(request, token, moment);
    if ("refusal" in asked) return asked.refusal;
    const resolving = this.#resolve(request, moment);
    return resolving instanceof Promise
      // Sessions may have ended and slots been taken meanwhile.
      ? resolving.then((resolution) => {
        const again = this.#judgeAsking(request, token, LATER);
        return "refusal" in again ? again.refusal : this.#grant(request, again, resolution);
      })
      : this.#grant(request, asked, resolving);
  }

  /** Everything about a spawn that comes before the registry: who asks, whether the name is theirs, the bounds. */
  #judgeAsking(
    request: SpawnRequest,
    token: string | undefined,
    moment: number,
  ): { readonly refusal: HttpAnswer } | Asking {
    this.#look(moment);
    const id = this.#runningSession(token);
    if (id === null) return { refusal: this.#log(UNIDENTIFIED, "spawn", request) };
    const refuse = (message: string) => ({
      refusal: this.#log(refused(403, message), "spawn", request, { session_id: id, error: message }),
    });
    const { ledger } = this.#parts;
    const grants = ledger.grantsOf(id)!;
    if (!grants.spawn.includes(request.name)) return refuse(notInParentsList(request.name));
    const now = performance.now();
    const bound = ledger.judgeSpawn(id, now);
    return bound === null ? { id, grants, now } : refuse(boundReached(bound));
  }

  #grant(request: SpawnRequest, { id, grants, now }: Asking, artifact: Resolution): HttpAnswer {
    const { name, version } = request;
    if ("problem" in artifact) return this.#unresolved(request, artifact.problem, "spawn", id);
    const excess = envelopeExcess(grants, artifact.grants);
    if (excess !== null) {
      const message = outsideEnvelope(excess);
      return this.#log(refused(403, message), "spawn", request, { session_id: id, error: message });
    }
    const approvalId = newTokenId();
    const depth = this.#parts.ledger.reserve(id, approvalId, now);
    const { sha256 } = artifact;
    const expiresAtMs = Date.now() + this.#parts.approvalMs;
    const approval = mintApproval(this.#approvalKey, {
      sessionId: id,
      name,
      version,
      sha256,
      depth,
      expiresAtMs,
      id: approvalId,
    });
    // A token, a full name and a hash hold nothing that JSON would escape; a version is any text.
    const body =
      `{"approval":"${approval}","name":"${name}","version":${JSON.stringify(version)},"sha256":"${sha256}",` +
      `"expires_at_ms":${expiresAtMs}}`;
    return this.#log({ status: 200, body }, "spawn", request, { session_id: id });
  }

  #register(request: RegisterRequest, token: string | undefined, moment: number): HttpAnswer | Promise<HttpAnswer> {
    if (token === undefined && !this.#parts.spawnAllow.has(request.name)) {
      const message = notInOperatorsList(request.name);
      return this.#log(refused(403, message), "register", request, { error: message });
    }
    const resolving = this.#resolve(request, moment);
    const go = (resolution: Resolution, moment: number) => {
      if ("problem" in resolution) return this.#unresolved(request, resolution.problem, "register", request.session_id);
      this.#look(moment);
      return token === undefined
        ? this.#registerRoot(request, resolution)
        : this.#registerChild(request, token, resolution);
    };
    return resolving instanceof Promise ? resolving.then((resolution) => go(resolution, LATER)) : go(resolving, moment);
  }

  #registerRoot(request: RegisterRequest, { grants }: JudgedArtifact): HttpAnswer {
    const { ledger } = this.#parts;
    if (ledger.knows(request.session_id)) return this.#log(UNIDENTIFIED, "register", request);
    if (!ledger.hasRoom()) return this.#full(request);
    ledger.registerRoot(request.session_id, grants);
    return this.#registered(request);
  }

  #registerChild(request: RegisterRequest, token: string, resolved: JudgedArtifact): HttpAnswer {
    const { ledger } = this.#parts;
    const approval = openApproval(this.#approvalKey, token);
    if (approval === null || ledger.grantsOf(approval.sessionId) === null || ledger.knows(request.session_id)) {
      return this.#log(UNIDENTIFIED, "register", request);
    }
    const refuse = (message: string) => this.#log(refused(403, message), "register", request, { error: message });
    const state = ledger.approvalState(approval.id, performance.now());
    // The ledger's clock never goes back, but stands still while the host is suspended; what the token says is absolute.
    if (state === "expired" || approval.expiresAtMs <= Date.now()) return refuse(APPROVAL_EXPIRED);
    if (state === "spent") return refuse(APPROVAL_REDEEMED);
    if (!ledger.hasRoom()) return this.#full(request);
    ledger.spend(approval.id);
    if (request.name !== approval.name || request.version !== approval.version) {
      return refuse(otherCoordinates(approval, request));
    }
    if (resolved.sha256 !== approval.sha256) return refuse(otherBytes(request, approval.sha256, resolved.sha256));
    ledger.redeem(request.session_id, approval.id, approval.depth, resolved.grants);
    return this.#registered(request);
  }

  #registered(request: RegisterRequest): HttpAnswer {
    this.#parts.census.register(request.session_id);
    const credential = mintCredential(this.#credentialKey, request.session_id);
    this.#credentials.set(request.session_id, credential);
    return this.#log({ status: 200, body: JSON.stringify({ credential }) }, "register", request);
  }

  #full(request: RegisterRequest): HttpAnswer {
    const message = noRoom(MAX_SESSIONS);
    return this.#log(refused(503, message), "register", request, { error: message });
  }

  #deregister(outcome: "complete" | "failed", token: string | undefined, moment: number): HttpAnswer {
    this.#look(moment);
    const id = this.#runningSession(token);
    if (id === null) return this.#log(UNIDENTIFIED, "deregister", {});
    this.#parts.ledger.end(id, outcome);
    this.#parts.census.forget(id);
    this.#forget(id);
    return this.#log(EMPTY, "deregister", { session_id: id }, { outcome });
  }

  /** The running session that a credential names; `null` for anything else. */
  #runningSession(token: string | undefined): string | null {
    if (token === undefined) return null;
    const known = this.#verified.get(token);
    if (known !== undefined) return known;
    const id = openCredential(this.#credentialKey, token);
    if (id === null || this.#parts.ledger.grantsOf(id) === null) return null;
    if (!sameText(token, this.#credentials.get(id)!)) return null;
    this.#verified.set(token, id);
    return id;
  }

  #forget(id: string): void {
    const token = this.#credentials.get(id);
    if (token === undefined) return;
    this.#credentials.delete(id);
    this.#verified.delete(token);
  }

  /** Looks at the processes of all sessions, as before every decision that counts them: once for the requests of a moment. */
  #look(moment: number): void {
    if (this.#lookedAt >= moment) return;
    if (moment < LATER) this.#lookedAt = moment;
    const { ledger, census, log } = this.#parts;
    const { found, registered } = census.gone();
    for (const id of found) {
      ledger.foundIsGone(id);
      log({ event: "gone", session_id: id });
    }
    for (const id of registered) {
      ledger.end(id, "failed");
      this.#forget(id);
      log({ event: "died", session_id: id });
    }
  }

  #resolve({ name, version }: SpawnRequest, moment: number): Resolution | Promise<Resolution> {
    const resolving = this.#parts.registry.resolve(name, version, moment);
    if (!(resolving instanceof Promise)) return resolving;
    return resolving.catch((cause) => ({ problem: reasonOf(cause) }));
  }

  #unresolved(
    request: SpawnRequest,
    problem: string,
    event: "spawn" | "register",
    sessionId: string,
  ): HttpAnswer {
    const message = notResolved(request, problem);
    return this.#log(refused(500, message), event, request, { session_id: sessionId, error: message });
  }

  /** Notes an answer and passes it on. */
  #log(
    answer: HttpAnswer,
    event: RefereeEvent["event"],
    request: Partial<RegisterRequest>,
    more: Partial<RefereeEvent> = {},
  ): HttpAnswer {
    const { session_id, name, version } = request;
    const error = answer === UNIDENTIFIED ? "not authorised" : undefined;
    // What is undefined is left out of the line.
    this.#parts.log({ event, status: answer.status, session_id, capsule: name, version, error, ...more });
    return answer;
  }
}

const STATUS = "/status/";

/** A path segment; `null` when it is not percent-encoded text. */
function decoded(segment: string): string | null {
  try {
    return decodeURIComponent(segment);
  } catch {
    return null;
  }
}
