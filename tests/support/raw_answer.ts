/**
 * Requests to the planes as bytes over a socket, which no client normalises, and their answers taken apart.
 *
 * @module
 */

/** A request without a body. @param headers Whole lines, each with its end. */
export function rawRequest(path: string, method = "GET", headers = ""): string {
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`;
}

/** An answer. */
export interface RawAnswer {
  readonly status: number;
  /** In their order, names lower-cased; `date` is left out. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
  /** The first field of that name; `null` without one. */
  header(name: string): string | null;
}

/** Takes an answer apart. */
export function rawAnswer(answer: string): RawAnswer {
  const end = answer.indexOf("\r\n\r\n");
  const [first = "", ...lines] = answer.slice(0, end).split("\r\n");
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  }).filter(([name]) => name !== "date");
  return {
    status: Number(first.split(" ")[1]),
    headers,
    body: answer.slice(end + 4),
    header: (name) => headers.find(([each]) => each === name)?.[1] ?? null,
  };
}
