/**
 * The tokens of a door: one key a session, held in memory only, and one token a credential (spec door 3.2). They die with
 * the session.
 *
 * @module
 */
import { DOOR_SCOPES, type DoorScope } from "../../artifact/manifest/door_scopes.ts";
import { mintToken, newTokenKey, openToken, type TokenFamily } from "../../base/mac_token.ts";

const DOOR_TOKEN: TokenFamily = { tag: "mdt1", domain: "murmur-door-token-v1" };

/** Name of the credential that always exists and holds every scope. */
export const OPERATOR = "operator";

/** Who holds a token, and what it reaches. */
export interface TokenHolder {
  readonly credential: string;
  readonly scopes: ReadonlySet<DoorScope>;
}

const SCOPES: ReadonlySet<string> = new Set(DOOR_SCOPES);

/** Mints and recognises the tokens of one session. */
export class DoorTokens {
  readonly #key = newTokenKey();
  readonly #declared: ReadonlyMap<string, readonly string[]>;
  /**
   * Tokens that were verified once, so at most one for each credential. A wrong guess is compared with none of them byte by
   * byte: its hash differs.
   */
  readonly #verified = new Map<string, TokenHolder>();

  /** @param credentials Declared credentials with their scopes, as the manifest parser checked them. */
  constructor(credentials: ReadonlyMap<string, readonly string[]>) {
    this.#declared = credentials;
  }

  /** Token of the operator. */
  operator(): string {
    return this.#mint(OPERATOR, DOOR_SCOPES);
  }

  /** Tokens of the declared credentials, by name in order. */
  credentials(): ReadonlyMap<string, string> {
    const names = [...this.#declared.keys()].sort();
    return new Map(names.map((name) => [name, this.#mint(name, this.#declared.get(name)!)]));
  }

  /** The holder of a token; `null` when this session did not mint it. */
  holderOf(token: string): TokenHolder | null {
    const known = this.#verified.get(token);
    if (known !== undefined) return known;
    const payload = openToken(DOOR_TOKEN, this.#key, token);
    if (payload === null) return null;
    const { credential, scopes } = payload;
    if (typeof credential !== "string" || !Array.isArray(scopes)) return null;
    if (!scopes.every((scope) => SCOPES.has(scope as string))) return null;
    const holder: TokenHolder = { credential, scopes: new Set(scopes as readonly DoorScope[]) };
    this.#verified.set(token, holder);
    return holder;
  }

  #mint(credential: string, scopes: readonly string[]): string {
    return mintToken(DOOR_TOKEN, this.#key, { credential, scopes });
  }
}
