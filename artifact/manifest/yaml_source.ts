/**
 * A YAML file as its readers see it: one bounded document, its nodes with their places (spec manifest 2.1).
 *
 * The file may come with an artifact somebody else made, so everything is bounded before anything walks the tree: bytes,
 * depth, and the number of nodes once every alias is followed. An alias inside its own anchor is refused, so no walk of a
 * {@linkcode YamlSource} can run in a circle.
 *
 * @module
 */
import {
  type Alias,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import type { SourcePlace } from "../../base/errors.ts";
import { isReferenceText, isSecretKey, maskLine } from "./secret_mask.ts";
import { shownValue } from "./shown_value.ts";

/** Largest file that is parsed, in bytes. Parsing takes at most about a second at this size. */
export const MAX_YAML_BYTES = 512 * 1024;
/** Deepest nesting, aliases followed. */
export const MAX_YAML_DEPTH = 64;
/** Most nodes, aliases followed. */
export const MAX_YAML_NODES = 100_000;

/** Longest line shown with an error, in UTF-16 units. */
const MAX_SHOWN_LINE = 300;

/** A node with every alias followed. */
export type YamlNode = Scalar | YAMLMap | YAMLSeq;

/** Why a text is no document, with the offset where that shows. */
export class YamlProblem extends Error {
  override readonly name = "YamlProblem";
  constructor(readonly reason: string, readonly place: SourcePlace | undefined) {
    super(reason);
  }
}

/** One entry of a mapping. */
export interface YamlEntry {
  /** Text of the key; `null` when the key is no scalar. */
  readonly key: string | null;
  /** Whether the key is a YAML string, rather than a number, a boolean or null. */
  readonly stringKey: boolean;
  readonly keyOffset: number;
  readonly value: YamlNode | null;
  /** Where the value is written; for an alias, where the alias is. */
  readonly valueOffset: number;
}

const CORE_TAGS = new Set(
  ["str", "int", "float", "bool", "null", "map", "seq"].map((tag) => `tag:yaml.org,2002:${tag}`),
);

/** c-printable of YAML 1.2; everything else must be escaped inside a quoted scalar. */
// deno-lint-ignore no-control-regex
const NOT_PRINTABLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

/** The library's message without its position and without the text of the file it quotes, which may be a secret. */
function libraryReason(message: string): string {
  if (/call stack/i.test(message)) return `nested more than ${MAX_YAML_DEPTH} levels deep`;
  const reason = message.split("\n", 1)[0]!
    .replace(/(?<=\S): .*$/, "")
    .replace(/^(Unresolved plain scalar|Unknown directive|Unsupported YAML version) .*$/, "$1")
    .replace(/^The .* tag has no suffix$/, "A tag has no suffix")
    .trim();
  return reason.charAt(0).toLowerCase() + shownValue(reason.slice(1));
}

/**
 * Where the quoted scalar opens that ends at an offset, `null` without one. The library reports a quote that is missing
 * where the text it would hold ends, which can be the end of the file. A tree with errors may be nested as deep as it likes.
 */
function quoteEndingAt(root: Node | null, end: number): number | null {
  const pending: unknown[] = [root];
  while (pending.length > 0) {
    const node = pending.pop();
    if (isPair(node)) pending.push(node.key, node.value);
    else if (isMap(node) || isSeq(node)) { for (const item of node.items) pending.push(item); }
    else if (isScalar(node) && (node.type === "QUOTE_DOUBLE" || node.type === "QUOTE_SINGLE")) {
      if (node.range?.[1] === end) return node.range[0];
    }
  }
  return null;
}

/** A parsed file. Made by {@linkcode readYamlSource}. */
export class YamlSource {
  /** The root, `null` for an empty document. */
  readonly root: YamlNode | null;
  readonly #anchors = new Map<string, YamlNode>();
  readonly #aliases = new Map<Alias, YamlNode>();
  /** Where secrets stand: start and end offset of each. */
  readonly #secrets: [number, number][] = [];
  readonly #lines: LineCounter;

  constructor(readonly file: string, readonly text: string) {
    this.#lines = new LineCounter();
    const control = NOT_PRINTABLE.exec(text);
    if (control !== null) {
      // The counter has seen no line yet: it is filled here as the parser would do it.
      this.#countLines();
      const code = control[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
      throw this.problem(`the character U+${code} is not allowed in YAML`, control.index);
    }
    const documents = parseAllDocuments(text, {
      version: "1.2",
      schema: "core",
      merge: false,
      // Checked below: the library compares every key with every other one.
      uniqueKeys: false,
      prettyErrors: false,
      logLevel: "silent",
      lineCounter: this.#lines,
    });
    if (this.#lines.lineStarts.length === 0) this.#countLines();
    const [first, second] = "empty" in documents ? [undefined, undefined] : documents;
    this.#findSecrets(first?.contents ?? null);
    const error = first?.errors[0] ?? second?.errors[0] ?? ("empty" in documents ? documents.errors[0] : undefined);
    if (error !== undefined) {
      const opening = error.code === "MISSING_CHAR" ? quoteEndingAt(first?.contents ?? null, error.pos[0]) : null;
      if (opening !== null) throw this.problem("the quote that opens here is never closed", opening);
      throw this.problem(libraryReason(error.message), error.pos[0]);
    }
    if (second !== undefined) {
      throw this.problem("the file holds more than one document", second.range[0]);
    }
    const warning = first?.warnings[0];
    if (warning !== undefined) throw this.problem(libraryReason(warning.message), warning.pos[0]);
    const contents: Node | null = first?.contents ?? null;
    if (contents !== null) this.#measure(contents);
    this.root = contents === null ? null : this.follow(contents);
  }

  /**
   * Finds the scalars under secret keys, also in a document with errors, which may be nested as deep as it likes. What
   * an alias stands for is found by its anchor's name.
   */
  #findSecrets(root: Node | null): void {
    const anchored = new Map<string, Node>();
    const secretAliases: string[] = [];
    const pending: unknown[] = [root];
    while (pending.length > 0) {
      const node = pending.pop();
      if (isPair(node)) {
        const { key, value } = node;
        pending.push(key, value);
        if (!isScalar(key) || !isSecretKey(scalarText(key))) continue;
        if (isAlias(value)) secretAliases.push(value.source);
        else this.#addSecret(value);
      } else if (isMap(node) || isSeq(node)) pending.push(...node.items.slice(0, MAX_YAML_NODES));
      if ((isScalar(node) || isMap(node) || isSeq(node)) && node.anchor !== undefined) anchored.set(node.anchor, node);
    }
    for (const name of secretAliases) this.#addSecret(anchored.get(name));
  }

  #addSecret(node: unknown): void {
    if (!isScalar(node) || typeof node.value !== "string" || isReferenceText(node.value) || !node.range) return;
    this.#secrets.push([node.range[0], node.range[1]]);
  }

  #countLines(): void {
    this.#lines.addNewLine(0);
    for (let i = this.text.indexOf("\n"); i >= 0; i = this.text.indexOf("\n", i + 1)) this.#lines.addNewLine(i + 1);
  }

  /** A problem at an offset. */
  problem(reason: string, offset: number): YamlProblem {
    return new YamlProblem(reason, this.placeAt(offset));
  }

  /** The place of an offset, its line masked and cut for showing. */
  placeAt(offset: number): SourcePlace {
    const at = Math.max(0, Math.min(offset, this.text.length));
    const { line, col } = this.#lines.linePos(at);
    const row = Math.max(1, line);
    const start = this.#lines.lineStarts[row - 1] ?? 0;
    const end = this.text.indexOf("\n", start);
    // Cut before it is masked, so that masking a long line takes no longer than a short one.
    const written = this.text.slice(start, end < 0 ? undefined : end).slice(0, 2 * MAX_SHOWN_LINE).replace(/\r$/, "");
    let masked = written;
    for (const [from, to] of this.#secrets) {
      if (from >= start + written.length || to <= start) continue;
      const [left, right] = [Math.max(0, from - start), Math.min(written.length, to - start)];
      masked = masked.slice(0, left) + masked.slice(left, right).replace(/\S/g, "*") + masked.slice(right);
    }
    const shown = maskLine(masked);
    return {
      file: this.file,
      line: row,
      column: Math.max(1, col),
      text: shown.length > MAX_SHOWN_LINE ? `${shown.slice(0, MAX_SHOWN_LINE)}…` : shown,
    };
  }

  /** The node an alias stands for, or the node itself. */
  follow(node: Node): YamlNode {
    if (isAlias(node)) {
      const target = this.#aliases.get(node);
      if (target === undefined) throw this.problem("alias without an anchor", node.range?.[0] ?? 0);
      return target;
    }
    return node as YamlNode;
  }

  /** The items of a list. */
  items(list: YAMLSeq): YamlNode[] {
    return list.items.map((item) => this.follow(item as Node));
  }

  /** Offset of an item as it is written. */
  itemOffset(list: YAMLSeq, index: number): number {
    return (list.items[index] as Node | undefined)?.range?.[0] ?? list.range?.[0] ?? 0;
  }

  /** The entries of a mapping, in the order they are written. A null value is `null`. */
  entries(map: YAMLMap): YamlEntry[] {
    return map.items.map((pair) => {
      const key = this.follow(pair.key as Node);
      const written = pair.value as Node | null;
      const value = written === null ? null : this.follow(written);
      const keyOffset = (pair.key as Node).range?.[0] ?? 0;
      return {
        key: isScalar(key) ? scalarText(key) : null,
        stringKey: isScalar(key) && typeof key.value === "string",
        keyOffset,
        value: value === null || isNull(value) ? null : value,
        valueOffset: written?.range?.[0] ?? keyOffset,
      };
    });
  }

  /** The entry of a key, `undefined` when it is not written. */
  entry(map: YAMLMap, key: string): YamlEntry | undefined {
    return this.entries(map).find((entry) => entry.key === key);
  }

  /**
   * The place of a value by dotted path with `[i]` list positions: the value itself when it is a scalar, its key when it
   * is a block or nothing. `undefined` when it is not written.
   */
  place(path: string): SourcePlace | undefined {
    let node: YamlNode | null = this.root;
    let offset = 0;
    for (const [step] of path.matchAll(/[^.[\]]+|\[\d+\]/g)) {
      if (step.startsWith("[")) {
        const index = Number(step.slice(1, -1));
        if (!isSeq(node) || index >= node.items.length) return undefined;
        offset = this.itemOffset(node, index);
        const item = this.items(node)[index]!;
        node = isNull(item) ? null : item;
      } else {
        if (!isMap(node)) return undefined;
        const entry = this.entry(node, step);
        if (entry === undefined) return undefined;
        offset = isScalar(entry.value) ? entry.valueOffset : entry.keyOffset;
        node = entry.value;
      }
    }
    return this.placeAt(offset);
  }

  /**
   * Resolves aliases and refuses what is too deep, too much, tagged beyond the core schema or keyed twice. Nodes are
   * visited once each; what an alias adds is the size its target was found to have.
   */
  #measure(root: Node): void {
    const measured = new Map<Node, { nodes: number; depth: number }>();
    const open = new Set<Node>();
    const walk = (node: Node, level: number): { nodes: number; depth: number } => {
      const at = node.range?.[0] ?? 0;
      if (level > MAX_YAML_DEPTH) throw this.problem(`nested more than ${MAX_YAML_DEPTH} levels deep`, at);
      if (isAlias(node)) {
        const target = this.#anchors.get(node.source);
        if (target === undefined) throw this.problem("alias without an anchor before it", at);
        const size = measured.get(target);
        if (size === undefined || open.has(target)) throw this.problem("alias inside its own anchor", at);
        this.#aliases.set(node, target);
        return size;
      }
      if (node.tag !== undefined && !CORE_TAGS.has(node.tag)) {
        throw this.problem("only the tags of the YAML core schema are allowed", at);
      }
      const own = node as YamlNode;
      if (own.anchor !== undefined) this.#anchors.set(own.anchor, own);
      open.add(node);
      let nodes = 1;
      let depth = 1;
      const add = (child: Node): void => {
        const size = walk(child, level + 1);
        nodes += size.nodes;
        depth = Math.max(depth, size.depth + 1);
        if (nodes > MAX_YAML_NODES) {
          throw this.problem(`more than ${MAX_YAML_NODES} values, aliases counted as often as they are used`, at);
        }
        if (level + depth > MAX_YAML_DEPTH + 1) {
          throw this.problem(`nested more than ${MAX_YAML_DEPTH} levels deep`, child.range?.[0] ?? at);
        }
      };
      if (isMap(own)) {
        const seen = new Set<string>();
        for (const pair of own.items as Pair<Node, Node | null>[]) {
          add(pair.key);
          const key = this.follow(pair.key);
          if (isScalar(key)) {
            const identity = `${typeof key.value}:${String(key.value)}`;
            if (seen.has(identity)) {
              throw this.problem(
                `the key '${shownValue(scalarText(key))}' is written twice in one block`,
                pair.key.range?.[0] ?? at,
              );
            }
            seen.add(identity);
          }
          if (pair.value !== null) add(pair.value);
        }
      } else if (isSeq(own)) {
        for (const item of own.items as Node[]) add(item);
      }
      open.delete(node);
      const size = { nodes, depth };
      measured.set(node, size);
      return size;
    };
    walk(root, 1);
  }
}

/** Whether a node is a YAML null. */
export function isNull(node: YamlNode): boolean {
  return isScalar(node) && node.value === null;
}

/** The text of a scalar as it was written, escapes and folding resolved: `1.10` stays `1.10`. */
export function scalarText(scalar: Scalar): string {
  return scalar.source ?? (scalar.value === null ? "" : String(scalar.value));
}

/** Name of a node's YAML type, for messages. */
export function yamlType(node: YamlNode | null): string {
  if (node === null || isNull(node)) return "null";
  if (isMap(node)) return "mapping";
  if (isSeq(node)) return "sequence";
  switch (typeof (node as Scalar).value) {
    case "boolean":
      return "boolean";
    case "number":
    case "bigint":
      return "number";
    default:
      return "string";
  }
}

/**
 * Decodes and parses a file.
 *
 * @param file Path as the operator would name it.
 * @throws {YamlProblem} When it is not one bounded YAML document in UTF-8.
 */
export function readYamlSource(source: Uint8Array | string, file: string): YamlSource {
  const size = typeof source === "string" ? source.length : source.byteLength;
  if (size > MAX_YAML_BYTES) {
    throw new YamlProblem(`the file is larger than ${MAX_YAML_BYTES} bytes`, undefined);
  }
  let text: string;
  if (typeof source === "string") {
    text = source.replace(/^\ufeff/, "");
  } else {
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(source);
    } catch {
      throw new YamlProblem("the file is not UTF-8", undefined);
    }
  }
  return new YamlSource(file, text);
}
