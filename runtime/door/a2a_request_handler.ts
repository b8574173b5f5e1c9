/**
 * The A2A library's request handler over a session's tasks (spec door 9 to 12). Transports know no rule, this knows no
 * bytes. Everything that decides is synchronous: a message is read, its references are rendered, it is routed and its
 * stream is subscribed to in one step.
 *
 * The module loads the library; the door imports it when the first request needs it.
 *
 * @module
 */
import {
  AgentCard,
  ListTasksRequest,
  type ListTasksResponse,
  SendMessageRequest,
  type StreamResponse,
  type SubscribeToTaskRequest,
  type Task,
} from "@a2a-js/sdk";
import { A2AError, type A2AErrorInfo } from "@a2a-js/sdk/errors";
import { type A2ARequestHandler, ServerCallContext } from "@a2a-js/sdk/server";
import type { JsonObject } from "../../base/json_value.ts";
import { newTokenKey } from "../../base/mac_token.ts";
import type { TaskStanding } from "../agent/task_origin.ts";
import { isFinalState } from "../session/frame_log.ts";
import type { TaskView } from "../session/task_registry.ts";
import {
  type A2aError,
  invalidParams,
  NO_EXTENDED_CARD,
  notWaitingForInput,
  PUSH_NOTIFICATIONS_NOT_SUPPORTED,
  taskEnded,
  taskNotCancelable,
  taskNotFound,
} from "./a2a_error.ts";
import { agentText } from "./agent_text.ts";
import type { DoorSession } from "./door_session.ts";
import { type IncomingMessage, type MessageParams, readMessageParams } from "./message_params.ts";
import type { StreamEvent } from "./stream_events.ts";
import { listPage } from "./task_list.ts";
import { readListQuery } from "./task_params.ts";
import { taskObject } from "./task_object.ts";
import { type OpenStream, rejectedStream, TaskSubscription } from "./task_stream.ts";

/** What a request brings beside its parameters. */
export interface CallFacts {
  /** Member of a formation that calls; it sees its own tasks only. */
  readonly viewer: string | null;
  readonly standing: TaskStanding;
  /** `traceparent` header. */
  readonly traceparent: string | null;
  /** From `Last-Event-ID`; `null` when it names none. */
  readonly lastEventId: number | null;
  /** The request is held now and works no more. */
  onHold(): void;
}

/** One call on its way through a transport of the library. */
export class DoorCall extends ServerCallContext {
  readonly facts: CallFacts;
  /**
   * Parameters of a message method, read from the JSON as it was sent, since the library's form of them loses what the checks
   * tell apart; `null` when the transport has another form.
   */
  readonly message: MessageParams | null;
  /** The stream this call opened. */
  stream: OpenStream<StreamEvent> | null = null;
  /** The task `GetTask` tells of. */
  told: TaskView | null = null;
  /** The event the transport is given last; it stands beside the transport's own events one to one. */
  event: StreamEvent | null = null;

  constructor(facts: CallFacts, message: MessageParams | null = null) {
    super();
    this.facts = facts;
    this.message = message;
  }
}

/** Names of the library's errors, by which its transports choose codes, statuses and whether details are told. */
const ERROR_NAMES: Readonly<Record<string, string>> = {
  TASK_NOT_FOUND: "TaskNotFoundError",
  TASK_NOT_CANCELABLE: "TaskNotCancelableError",
  PUSH_NOTIFICATION_NOT_SUPPORTED: "PushNotificationNotSupportedError",
  UNSUPPORTED_OPERATION: "UnsupportedOperationError",
  CONTENT_TYPE_NOT_SUPPORTED: "ContentTypeNotSupportedError",
  VERSION_NOT_SUPPORTED: "VersionNotSupportedError",
};

/** A refusal on its way through a transport, worded as the door words it. */
export class CallRefused extends A2AError {
  /** The library's mark of an error that brings its own code. */
  readonly transport = "jsonrpc";
  readonly envelopeCode: number;
  readonly refusal: A2aError;

  constructor(refusal: A2aError) {
    super(refusal.message);
    this.refusal = refusal;
    this.envelopeCode = refusal.code;
    const reason = refusal.data?.[0]?.reason;
    if (reason !== undefined) this.name = ERROR_NAMES[reason] ?? this.name;
  }

  override toErrorInfo(): A2AErrorInfo {
    return (this.refusal.data?.[0] ?? super.toErrorInfo()) as A2AErrorInfo;
  }
}

function orRefuse<T>(value: T | A2aError): T {
  if (typeof value === "object" && value !== null && "code" in value) throw new CallRefused(value);
  return value as T;
}

/** Tasks of one session, as the A2A library asks for them. */
export class DoorRequestHandler implements A2ARequestHandler {
  readonly #session: DoorSession;
  /** Aborted when the door shuts: held answers are written with the state then reached. */
  readonly #shutting: AbortSignal;
  readonly #pageKey = newTokenKey();

  constructor(session: DoorSession, shutting: AbortSignal) {
    this.#session = session;
    this.#shutting = shutting;
  }

  getAgentCard(): Promise<AgentCard> {
    return Promise.resolve(AgentCard.fromJSON(this.#session.publicCard()));
  }

  getAuthenticatedExtendedAgentCard(): Promise<AgentCard> {
    if (!this.#session.authenticated) throw new CallRefused(NO_EXTENDED_CARD);
    return Promise.resolve(AgentCard.fromJSON(this.#session.extendedCard()));
  }

  async sendMessage(params: SendMessageRequest, context: ServerCallContext): Promise<Task> {
    const call = callOf(context);
    const { message, answer } = messageOf(params, call);
    const { task } = this.#route(message, call);
    if (answer === "at_once" || isFinalState(task.state)) return taskObject(task);
    call.facts.onHold();
    return taskObject(await this.#session.tasks.settled(task.id, this.#shutting) ?? task);
  }

  sendMessageStream(
    params: SendMessageRequest,
    context: ServerCallContext,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const call = callOf(context);
    const { message } = messageOf(params, call);
    const subscription = new TaskSubscription(this.#session, message.taskId);
    if (message.taskId !== null) subscription.replay(call.facts.lastEventId);
    try {
      const { accepted, task } = this.#route(message, call);
      if (!accepted) subscription.abandon();
      return handOver(call, accepted ? subscription.open(task) : rejectedStream(task));
    } catch (error) {
      subscription.abandon();
      throw error;
    }
  }

  resubscribe(
    { id }: SubscribeToTaskRequest,
    context: ServerCallContext,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const call = callOf(context);
    const task = this.#find(id, call);
    if (isFinalState(task.state)) throw new CallRefused(taskEnded(id, task.state));
    const subscription = new TaskSubscription(this.#session, id);
    subscription.replay(call.facts.lastEventId);
    return handOver(call, subscription.open(task));
  }

  getTask({ id }: { id: string }, context: ServerCallContext): Promise<Task> {
    const call = callOf(context);
    call.told = this.#find(id, call);
    return Promise.resolve(taskObject(call.told));
  }

  cancelTask({ id }: { id: string }, context: ServerCallContext): Promise<Task> {
    const { state } = this.#find(id, callOf(context));
    const canceled = this.#session.tasks.cancel(id);
    if (canceled === null) throw new CallRefused(taskNotCancelable(id, state));
    return Promise.resolve(taskObject(canceled.task, { residue: canceled.residue }));
  }

  listTasks(params: ListTasksRequest, context: ServerCallContext): Promise<ListTasksResponse> {
    const { facts } = callOf(context);
    const query = orRefuse(readListQuery(ListTasksRequest.toJSON(params) as JsonObject));
    const page = orRefuse(listPage(this.#session.tasks.list(facts.viewer), query, this.#pageKey));
    return Promise.resolve({
      tasks: page.tasks.map((task) => taskObject(task, { timestamp: true, artifacts: query.includeArtifacts })),
      nextPageToken: page.nextPageToken,
      pageSize: query.pageSize,
      totalSize: page.totalSize,
    });
  }

  createTaskPushNotificationConfig(): never {
    throw new CallRefused(PUSH_NOTIFICATIONS_NOT_SUPPORTED);
  }

  getTaskPushNotificationConfig(): never {
    throw new CallRefused(PUSH_NOTIFICATIONS_NOT_SUPPORTED);
  }

  listTaskPushNotificationConfigs(): never {
    throw new CallRefused(PUSH_NOTIFICATIONS_NOT_SUPPORTED);
  }

  deleteTaskPushNotificationConfig(): never {
    throw new CallRefused(PUSH_NOTIFICATIONS_NOT_SUPPORTED);
  }

  /** A task the caller may see. */
  #find(id: string, { facts }: DoorCall): TaskView {
    const task = this.#session.tasks.find(id, facts.viewer);
    if (task === null) throw new CallRefused(taskNotFound(id));
    return task;
  }

  /** Where a message goes (spec door 9.1). */
  #route(message: IncomingMessage, call: DoorCall): { readonly accepted: boolean; readonly task: TaskView } {
    const { tasks } = this.#session;
    const { viewer, standing, traceparent } = call.facts;
    const text = () => agentText(message, (id) => tasks.find(id, viewer));
    if (message.taskId === null) {
      return tasks.offer({
        contextId: message.contextId,
        text: text(),
        standing,
        door: {
          messageId: message.messageId,
          traceparent,
          submitter: viewer,
          referenceTaskIds: message.referenceTaskIds,
          partKinds: message.parts.map(({ kind }) => kind),
        },
      });
    }
    const task = this.#find(message.taskId, call);
    if (task.state !== "input-required") {
      throw new CallRefused(notWaitingForInput(task.id, task.state, isFinalState(task.state)));
    }
    if (message.contextId !== null && message.contextId !== task.contextId) {
      throw new CallRefused(invalidParams("Invalid params: message.contextId is not the context of message.taskId"));
    }
    tasks.reply(task.id, text());
    return { accepted: true, task: this.#find(task.id, call) };
  }
}

function callOf(context: ServerCallContext): DoorCall {
  return context as DoorCall;
}

/** A message's parameters: as sent, else as another form's transport made them. */
function messageOf(params: SendMessageRequest, { message }: DoorCall): MessageParams {
  return message ?? orRefuse(readMessageParams(SendMessageRequest.toJSON(params) as JsonObject));
}

/** Gives a stream to the transport, noting each event beside it. */
function handOver(call: DoorCall, stream: OpenStream<StreamEvent>): AsyncGenerator<StreamResponse, void, undefined> {
  call.stream = stream;
  return responsesOf(call, stream.events);
}

async function* responsesOf(
  call: DoorCall,
  events: AsyncIterable<StreamEvent>,
): AsyncGenerator<StreamResponse, void, undefined> {
  for await (const event of events) {
    call.event = event;
    yield event.response;
  }
}
