/**
 * The network of a session's commands, whole: the keeper that holds it and the relay that is its only way out (spec
 * containment 9). A keeper that is gone is replaced before the next command; names that were resolved stay so.
 *
 * @module
 */
import type { NetworkRule } from "../artifact/network_rules.ts";
import { type NameResolver, systemNameResolver } from "../base/name_resolver.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../base/time_bounds.ts";
import type { JoinRecord } from "./confine_records.ts";
import { EgressRelay } from "./egress_relay.ts";
import { resolveLaunchAddresses } from "./launch_addresses.ts";
import { NetworkKeeper } from "./network_keeper.ts";

/** How a session's network is opened. */
export interface SessionNetworkOptions {
  /** Path of `mur-confine`. */
  readonly helper: string;
  /** Where control sockets lie, as `makeControlDirectory` made it. */
  readonly controlDirectory: string;
  /** The capsule's `network.allow`. */
  readonly rules: readonly NetworkRule[];
  readonly resolver?: NameResolver;
  readonly bounds?: TimeBounds;
}

/** A session's network. */
export class SessionNetwork implements AsyncDisposable {
  /** Hosts of the rules that no name server answered for at launch, and why: a line for the operator each. */
  readonly unanswered: readonly string[];
  readonly #relay: EgressRelay;
  readonly #start: () => Promise<NetworkKeeper>;
  #keeper: Promise<NetworkKeeper>;

  private constructor(
    unanswered: readonly string[],
    relay: EgressRelay,
    start: () => Promise<NetworkKeeper>,
    keeper: NetworkKeeper,
  ) {
    this.unanswered = unanswered;
    this.#relay = relay;
    this.#start = start;
    this.#keeper = Promise.resolve(keeper);
  }

  /**
   * Resolves the rules' hosts, then makes the network.
   *
   * @throws {MurError} `E-CAP-005` when this host gives no network namespace; `E-IO-…` when the helper can't be used.
   * @throws The reason of `signal` when it aborts while names are resolved.
   */
  static async open(options: SessionNetworkOptions, signal?: AbortSignal): Promise<SessionNetwork> {
    const { rules, helper, controlDirectory } = options;
    const resolver = options.resolver ?? systemNameResolver();
    const bounds = options.bounds ?? DEFAULT_TIME_BOUNDS;
    const launch = await resolveLaunchAddresses(rules, resolver, signal);
    const relay = new EgressRelay({ rules, launch: launch.addresses, resolver, bounds });
    const start = () =>
      NetworkKeeper.start({
        helper,
        controlDirectory,
        ports: relay.ports,
        onConnection: (connection) => relay.relay(connection),
        onQuery: (message) => relay.answerQuery(message),
        startMs: bounds.confineStart,
        preambleMs: bounds.keeperPreamble,
      });
    return new SessionNetwork(launch.unanswered, relay, start, await start());
  }

  /**
   * The record that puts a command into this network.
   *
   * @throws {MurError} As {@linkcode open}, when another keeper is needed and none can be started.
   */
  async join(): Promise<JoinRecord> {
    const known = this.#keeper;
    const keeper = await known.catch(() => null);
    if (keeper?.alive) return keeper.join;
    // Those who wait for the same one start one between them.
    if (this.#keeper === known) this.#keeper = this.#start();
    return (await this.#keeper).join;
  }

  /** Ends the network: connections close, and what still runs in it reaches nothing. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#relay[Symbol.asyncDispose]();
    const keeper = await this.#keeper.catch(() => null);
    await keeper?.stop();
  }
}
