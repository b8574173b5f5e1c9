/**
 * Sends one HTTP request and shows its answer.
 *
 * @module
 */
import { config } from "murmur/environment";
import { files } from "murmur/files";
import { defineTool, ToolFailure } from "murmur/tool";
import { decodeText, fileName, isText, parseMediaType } from "./media_type.ts";

interface Input {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly save_to?: string;
  readonly max_bytes?: number;
  readonly timeout_seconds?: number;
}

interface Config {
  readonly max_text_bytes?: number;
  readonly max_file_bytes?: number;
  readonly timeout_seconds?: number;
}

const MAX_TEXT_BYTES = 100_000;
const MAX_FILE_BYTES = 100 * 1024 * 1024;
const TIMEOUT_SECONDS = 60;
const FOLDER = "fetched";
const PREVIEW_BYTES = 2_000;

function targetOf(text: unknown): URL {
  const url = typeof text === "string" ? URL.parse(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new ToolFailure(`url must be an http or https address, not ${JSON.stringify(text)}`);
  }
  return url;
}

function freeName(name: string): string {
  const dot = name.lastIndexOf(".");
  const [stem, extension] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
  for (let number = 1;; number++) {
    const path = `${FOLDER}/${stem}${number === 1 ? "" : `-${number}`}${extension}`;
    if (!files.exists(path)) return path;
  }
}

function parentOf(path: string): string | null {
  const slash = path.lastIndexOf("/");
  return slash <= 0 ? null : path.slice(0, slash);
}

/** Writes what was read and the rest of the stream; tells how many bytes there are. */
async function save(path: string, start: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>, max: number) {
  const parent = parentOf(path);
  if (parent !== null) files.mkdir(parent, { recursive: true });
  files.write(path, "");
  let bytes = 0;
  const add = (chunk: Uint8Array) => {
    bytes += chunk.length;
    if (bytes > max) {
      files.remove(path);
      throw new ToolFailure(`the body is larger than ${max} bytes; nothing was kept`);
    }
    files.append(path, chunk);
  };
  for (const chunk of start) add(chunk);
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) add(next.value);
  return bytes;
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(chunks.reduce((length, chunk) => length + chunk.length, 0));
  let offset = 0;
  for (const chunk of chunks) {
    all.set(chunk, offset);
    offset += chunk.length;
  }
  return all;
}

async function run(input: Input) {
  const limits = config<Config>() ?? {};
  const url = targetOf(input.url);
  const seconds = input.timeout_seconds ?? limits.timeout_seconds ?? TIMEOUT_SECONDS;
  const maxText = Math.min(input.max_bytes ?? Infinity, limits.max_text_bytes ?? MAX_TEXT_BYTES);
  const maxFile = limits.max_file_bytes ?? MAX_FILE_BYTES;
  let response: Response;
  try {
    response = await fetch(url, {
      method: input.method ?? (input.body === undefined ? "GET" : "POST"),
      ...(input.headers === undefined ? {} : { headers: input.headers }),
      ...(input.body === undefined ? {} : { body: input.body }),
      signal: AbortSignal.timeout(seconds * 1000),
    });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw new ToolFailure(error.name === "TimeoutError" ? `no answer within ${seconds} s` : error.message);
  }
  const header = response.headers.get("content-type");
  const type = parseMediaType(header);
  const head = [
    `HTTP ${response.status}`,
    ...(response.redirected ? [`url: ${response.url}`] : []),
    `content-type: ${header ?? "not given"}`,
  ];
  const method = (input.method ?? "").toUpperCase();
  const metadata = {
    state_effect: /^(?:|GET|HEAD|OPTIONS)$/.test(method) && input.body === undefined ? "read" : "mutate",
  };
  const status = response.ok || (response.status >= 300 && response.status < 400)
    ? "passed" as const
    : "failed" as const;
  const summary = `HTTP ${response.status} from ${url.host}`;

  const chunks: Uint8Array[] = [];
  const body = (response.body ?? ReadableStream.from<Uint8Array>([]))[Symbol.asyncIterator]();
  let length = 0;
  let ended = false;
  if (input.save_to === undefined) {
    while (length <= maxText) {
      const next = await body.next();
      if (next.done === true) {
        ended = true;
        break;
      }
      chunks.push(next.value);
      length += next.value.length;
    }
  }
  const start = joined(chunks);
  const text = isText(type, start.subarray(0, PREVIEW_BYTES));
  if (input.save_to === undefined && ended && text && length <= maxText) {
    return { status, summary, metadata, data: `${head.join("\n")}\n\n${decodeText(start, type.charset)}` };
  }
  const path = input.save_to ?? freeName(fileName(new URL(response.url), type));
  const bytes = await save(path, chunks, body, maxFile);
  const preview = text && input.save_to === undefined
    ? `\n\nThe first ${PREVIEW_BYTES} bytes:\n${decodeText(start.subarray(0, PREVIEW_BYTES), type.charset)}`
    : "";
  return {
    status,
    summary,
    metadata,
    dataPath: path,
    truncated: preview !== "",
    data: `${head.join("\n")}\n${bytes} bytes written to ${path}${preview}`,
  };
}

export default defineTool<Input>({ run });
