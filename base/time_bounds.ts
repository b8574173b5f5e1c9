/**
 * Every time bound of the product in one table, in milliseconds. Programs that embed the entry points (tests do) hand in
 * a changed table; no environment variable moves one of these.
 *
 * @module
 */

/** Time bounds in milliseconds. */
export interface TimeBounds {
  /** Foreground poll of a shell command (spec containment 13.4). */
  readonly shellPoll: number;
  /** Grace between SIGTERM and SIGKILL of a child tree (spec session 17.5). */
  readonly childStopGrace: number;
  /** How long a task waits for a delegation's outcome beyond the time its child may run (spec roost 17). */
  readonly delegationBackstop: number;
  /** How long a child that reported its end may take to exit. */
  readonly reportedExit: number;
  /** One report of a child's end to its parent's door. */
  readonly completionPost: number;
  /** Between two looks at the task of a plan's child (spec roost 15). */
  readonly stepPoll: number;
  /** From the first SIGTERM to a forced exit (spec session 17.3). */
  readonly teardown: number;
  /** Longest write-out of an open door connection at shutdown (spec door 1). */
  readonly doorDrain: number;
  /** Reading the body of one request at the door (spec door 15). */
  readonly doorBody: number;
  /** Between two comments that keep a stream of the door from looking idle (spec door 12.7). */
  readonly doorHeartbeat: number;
  /** How long a large file of a plane waits for room in memory before it is refused. */
  readonly planeRoom: number;
  /** Longest time in which a plane hashes the files of one listing. */
  readonly planeListing: number;
  /** Silence of a peer while its card or a file of its is fetched. */
  readonly peerSilence: number;
  /** Connecting to the spawn daemon. */
  readonly roostConnect: number;
  /** The spawn daemon's answer, which may have to read an archive first. */
  readonly roostAnswer: number;
  /** At the spawn daemon: one request, from the connection or the answer before it to its last byte (spec roost 2.4). */
  readonly roostRequest: number;
  /** Telling the spawn daemon that a session ended, all of it: the session does not wait longer for it. */
  readonly roostRetire: number;
  /** From the start of a delegated child to its readiness line (spec roost 17). */
  readonly childLaunch: number;
  /** From the first try to hand a child its task to its acceptance (spec roost 17). */
  readonly childDelivery: number;
  /** First wait before a child's door is tried again; doubled up to eight times as much. */
  readonly childRetry: number;
  /** What is left to hear of a child's errors once its process is gone. */
  readonly childLastWords: number;
  /** Reading the approval a session is launched with from its standard input. */
  readonly spawnGrant: number;
  /** Life of a spawn approval (spec roost 3.2). */
  readonly spawnApproval: number;
  /** Interval of the workdir size walk (spec session 21). */
  readonly workdirWalk: number;
  /** Wait for hooks that are told events in the background, at the end of a session (spec components 10.6). */
  readonly hookDrain: number;
  /** Idle component processes are let go after this (spec components 3.9). */
  readonly componentIdle: number;
  /** How long after a call the next reserve is begun while another process could take a call. */
  readonly componentReserve: number;
  /** Longest wait for a component host to report ready. */
  readonly componentHostStart: number;
  /** Longest wait for the containment helper to connect, and for a keeper's listeners (spec containment 19.2). */
  readonly confineStart: number;
  /** A connection to a keeper's socket presents its token within this, or is closed. */
  readonly keeperPreamble: number;
  /** One request to a registry or install source (spec cli 8.3). */
  readonly registryRequest: number;
  /** Name resolution of one host at launch (spec manifest 9.1). */
  readonly resolveName: number;
  /** Reply of one name server before the next is asked (spec containment 9.4). */
  readonly nameserverReply: number;
  /** Connect of a command's connection to where it dialled (spec containment 9.3). */
  readonly egressConnect: number;
  /** A relayed connection of a command with a side on which nothing moves ends after this (spec containment 9.3). */
  readonly egressStall: number;
  /** TCP and TLS connect of an outgoing request. */
  readonly httpConnect: number;
  /** An idle connection of the HTTP client is closed after this. */
  readonly httpIdleConnection: number;
  /** Connecting to the door of a running capsule (spec cli 4.3). */
  readonly doorConnect: number;
  /** Silence of a door that is asked for its agent card, or to stop its session (spec cli 4.3). */
  readonly doorCard: number;
  /** Silence of a door before it answers any other request. */
  readonly doorAnswer: number;
  /** All doors that `mur ps` asks, together. */
  readonly listedDoors: number;
  /** Silence of a stream that counts as its loss; a door sends a heartbeat every 15 s (spec door 12.7). */
  readonly streamSilence: number;
  /** First wait before a lost stream is opened again; doubled up to eight times as much (spec cli 13.3). */
  readonly streamReopen: number;
  /** How long a lost stream is tried to be opened again. */
  readonly streamLost: number;
  /** Poll of a process or a trace while `mur stop` waits (spec cli 13.2). */
  readonly stopPoll: number;
  /** Longest wait for the endings of canceled tasks in the trace (spec cli 13.2). */
  readonly stopTaskEnds: number;
  /** Longest wait for a process after SIGKILL (spec cli 13.2). */
  readonly stopKilled: number;
}

/** The bounds the product ships with. */
export const DEFAULT_TIME_BOUNDS: TimeBounds = {
  shellPoll: 20,
  childStopGrace: 5_000,
  delegationBackstop: 30_000,
  reportedExit: 20_000,
  completionPost: 10_000,
  stepPoll: 500,
  teardown: 20_000,
  doorDrain: 500,
  doorBody: 30_000,
  doorHeartbeat: 15_000,
  planeRoom: 10_000,
  planeListing: 60_000,
  peerSilence: 30_000,
  roostConnect: 2_000,
  roostAnswer: 30_000,
  roostRequest: 10_000,
  roostRetire: 3_000,
  childLaunch: 180_000,
  childDelivery: 30_000,
  childRetry: 50,
  childLastWords: 500,
  spawnGrant: 10_000,
  spawnApproval: 60_000,
  workdirWalk: 10_000,
  hookDrain: 15_000,
  componentIdle: 30_000,
  componentReserve: 200,
  componentHostStart: 20_000,
  confineStart: 10_000,
  keeperPreamble: 5_000,
  registryRequest: 30_000,
  resolveName: 5_000,
  nameserverReply: 2_000,
  egressConnect: 15_000,
  egressStall: 300_000,
  httpConnect: 10_000,
  httpIdleConnection: 15_000,
  doorConnect: 2_000,
  doorCard: 5_000,
  doorAnswer: 30_000,
  listedDoors: 5_000,
  streamSilence: 45_000,
  streamReopen: 1_000,
  streamLost: 60_000,
  stopPoll: 100,
  stopTaskEnds: 5_000,
  stopKilled: 5_000,
};
