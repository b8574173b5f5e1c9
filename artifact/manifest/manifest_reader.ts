/**
 * Typed reading of `murmur.yaml` along the table of blocks (spec manifest 2.2, 4): first every type is checked and
 * every unknown key collected, then values are read through {@linkcode BlockReader}, which can only ask for keys of the
 * table, as the type the table gives them.
 *
 * @module
 */
import { isMap, isScalar, isSeq, type Scalar, type YAMLMap } from "yaml";
import { type Block, findKey, type Key, type Shape } from "./manifest_blocks.ts";
import { Refusals } from "./manifest_error.ts";
import { shownValue } from "./shown_value.ts";
import { scalarText, type YamlEntry, type YamlNode, type YamlSource, yamlType } from "./yaml_source.ts";

const MAX_U64 = (1n << 64n) - 1n;

/** A key no field claims. */
export interface UnknownKey {
  readonly key: string;
  /** Dotted path of its block; empty at the top level. */
  readonly path: string;
  /** Keys the block knows, in table order. */
  readonly known: readonly string[];
}

/** The integer a node is, or `null` when it is no plain, non-negative YAML integer of 64 bits. */
export function plainInteger(node: YamlNode): number | null {
  if (!isScalar(node) || node.type !== "PLAIN" || typeof node.value !== "number") return null;
  const text = scalarText(node).replace(/^\+/, "");
  if (!/^(?:[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400})$/.test(text)) return null;
  const value = BigInt(/^0[0-9]/.test(text) ? text.replace(/^0+(?=[0-9])/, "") : text);
  return value > MAX_U64 ? null : Math.min(Number(value), Number.MAX_SAFE_INTEGER);
}

/** Checks types below `root` and collects unknown keys in the order of spec manifest 4. @throws {MurError} `E-MAN-002`. */
export function checkTypes(source: YamlSource, block: Block): UnknownKey[] {
  const refuse = new Refusals(source);
  const unknown: UnknownKey[] = [];

  const walkBlock = (map: YAMLMap, table: Block, path: string, typed: boolean): void => {
    const entries = source.entries(map);
    const byName = new Map<string, YamlEntry>();
    const strangers: string[] = [];
    const known = table.keys.filter((key) => key.artifactOnly !== true);
    for (const entry of entries) {
      if (entry.key === null) {
        if (!typed) continue;
        throw refuse.type(path, "a mapping whose keys are names", "a mapping with a key that is no scalar");
      }
      byName.set(entry.key, entry);
      if (!known.some((key) => key.name === entry.key)) strangers.push(entry.key);
    }
    for (const key of strangers.sort()) unknown.push({ key, path, known: known.map((each) => each.name) });
    for (const key of known) {
      const value = byName.get(key.name)?.value ?? null;
      if (value !== null) walkValue(value, key.shape, path === "" ? key.name : `${path}.${key.name}`);
    }
  };

  const walkValue = (node: YamlNode, shape: Shape, path: string): void => {
    switch (shape.kind) {
      case "ignored":
        return;
      case "judged":
        if (shape.block !== undefined && isMap(node)) walkBlock(node, shape.block, path, false);
        return;
      case "string":
        if (!isScalar(node) || node.value === null) throw refuse.type(path, "string", yamlType(node));
        if (scalarText(node).includes("\0")) throw refuse.type(path, "string", "a text with a NUL character");
        return;
      case "boolean":
        if (!isScalar(node) || typeof node.value !== "boolean") throw refuse.type(path, "boolean", yamlType(node));
        return;
      case "integer": {
        const value = plainInteger(node);
        if (value !== null && value <= shape.max) return;
        const range = shape.max === Number.MAX_SAFE_INTEGER
          ? "a whole number from 0"
          : `a whole number from 0 to ${shape.max}`;
        throw refuse.type(
          path,
          range,
          isScalar(node) && typeof node.value === "number" ? scalarText(node).slice(0, 40) : yamlType(node),
        );
      }
      case "float":
        if (!isScalar(node) || typeof node.value !== "number" || node.type !== "PLAIN") {
          throw refuse.type(path, "number", yamlType(node));
        }
        return;
      case "word":
        if (!isScalar(node) || typeof node.value !== "string" || !shape.words.includes(node.value)) {
          const got = isScalar(node) && node.value !== null ? `'${shownValue(scalarText(node))}'` : yamlType(node);
          throw refuse.type(path, `one of: ${shape.words.join(", ")}`, got);
        }
        return;
      case "list":
        if (!isSeq(node)) throw refuse.type(path, "list", yamlType(node));
        source.items(node).forEach((item, index) => walkValue(item, shape.item, `${path}[${index}]`));
        return;
      case "block":
        if (!isMap(node)) throw refuse.type(path, "mapping", yamlType(node));
        walkBlock(node, shape.block, path, true);
        return;
      case "names":
        if (!isMap(node)) throw refuse.type(path, "mapping", yamlType(node));
        for (const entry of source.entries(node)) {
          if (entry.key === null) {
            throw refuse.type(path, "a mapping whose keys are names", "a mapping with a key that is no scalar");
          }
          if (entry.value !== null) walkValue(entry.value, shape.value, `${path}.${entry.key}`);
        }
    }
  };

  const root = source.root;
  if (!isMap(root)) throw refuse.type("", "a mapping", yamlType(root));
  walkBlock(root, block, "", true);
  return unknown;
}

/** Reads the keys of one block whose types were checked. A block that is not written reads as an empty one. */
export class BlockReader {
  readonly #entries: ReadonlyMap<string, YamlEntry>;

  constructor(
    readonly source: YamlSource,
    readonly block: Block,
    map: YAMLMap | null,
    /** Dotted path of the block; empty at the top level. */
    readonly path: string,
  ) {
    this.#entries = new Map(map === null ? [] : source.entries(map).map((entry) => [entry.key ?? "", entry]));
  }

  /** Reads the top level of a file. */
  static root(source: YamlSource, block: Block): BlockReader {
    return new BlockReader(source, block, isMap(source.root) ? source.root : null, "");
  }

  /** Dotted path of a key. */
  at(key: string): string {
    return this.path === "" ? key : `${this.path}.${key}`;
  }

  #shape<K extends Shape["kind"]>(name: string, kind: K): Extract<Shape, { kind: K }> {
    const key: Key | undefined = findKey(this.block, name);
    if (key === undefined || key.shape.kind !== kind) {
      throw new Error(`the manifest table has no ${kind} '${this.at(name)}'`);
    }
    return key.shape as Extract<Shape, { kind: K }>;
  }

  #value(key: string): YamlNode | null {
    return this.#entries.get(key)?.value ?? null;
  }

  /** Whether the key is there, with or without a value. */
  written(key: string): boolean {
    return this.#entries.has(key);
  }

  /** Whether the key has a value other than null. */
  present(key: string): boolean {
    return this.#value(key) !== null;
  }

  /** A string as it is written. */
  text(key: string): string | null {
    this.#shape(key, "string");
    const node = this.#value(key);
    return node === null ? null : scalarText(node as Scalar);
  }

  /** A string whose blank form counts as absent. Not trimmed. */
  filled(key: string): string | null {
    const value = this.text(key);
    return value === null || value.trim() === "" ? null : value;
  }

  /** One of the words of a `word` field. */
  word<W extends string>(key: string, fallback: W): W {
    this.#shape(key, "word");
    const node = this.#value(key);
    return node === null ? fallback : (node as Scalar).value as W;
  }

  integer(key: string): number | null {
    this.#shape(key, "integer");
    const node = this.#value(key);
    return node === null ? null : plainInteger(node);
  }

  float(key: string): number | null {
    this.#shape(key, "float");
    const node = this.#value(key);
    return node === null ? null : (node as Scalar).value as number;
  }

  boolean(key: string): boolean | null {
    this.#shape(key, "boolean");
    const node = this.#value(key);
    return node === null ? null : (node as Scalar).value as boolean;
  }

  /** A list of strings as they are written; `null` when it is not there. */
  texts(key: string): string[] | null {
    const shape = this.#shape(key, "list");
    if (shape.item.kind !== "string") throw new Error(`'${this.at(key)}' is no list of strings`);
    const node = this.#value(key);
    return isSeq(node) ? this.source.items(node).map((item) => scalarText(item as Scalar)) : null;
  }

  /** A block below this one; an absent one reads as empty. */
  child(key: string): BlockReader {
    const shape = this.#shape(key, "block");
    const node = this.#value(key);
    return new BlockReader(this.source, shape.block, isMap(node) ? node : null, this.at(key));
  }

  /** The blocks of a list. */
  children(key: string): BlockReader[] {
    const shape = this.#shape(key, "list");
    const { item } = shape;
    if (item.kind !== "block") throw new Error(`'${this.at(key)}' is no list of blocks`);
    const node = this.#value(key);
    if (!isSeq(node)) return [];
    return this.source.items(node).map((each, index) =>
      new BlockReader(this.source, item.block, isMap(each) ? each : null, `${this.at(key)}[${index}]`)
    );
  }

  /** The blocks of a mapping with chosen names, in the order they are written. */
  named(key: string): [string, BlockReader][] {
    const { value } = this.#shape(key, "names");
    if (value.kind !== "block") throw new Error(`'${this.at(key)}' names no blocks`);
    const node = this.#value(key);
    if (!isMap(node)) return [];
    return this.source.entries(node).map((entry) => {
      const name = entry.key ?? "";
      const map = isMap(entry.value) ? entry.value : null;
      return [name, new BlockReader(this.source, value.block, map, `${this.at(key)}.${name}`)];
    });
  }

  /** The node of a key judged as a value; `null` when it is absent or null. */
  judged(key: string): YamlNode | null {
    this.#shape(key, "judged");
    return this.#value(key);
  }
}
