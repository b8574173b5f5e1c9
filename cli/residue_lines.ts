/**
 * What a session still runs after a cancel or a stop, one line each (spec cli 13.2, door 10.3).
 *
 * @module
 */
import { isJsonObject, type JsonValue } from "../base/json_value.ts";

/** Lines of the items a door reported. Items of a kind nobody knows are shown by that kind. */
export function residueLines(items: readonly JsonValue[]): string[] {
  return items.filter(isJsonObject).map((item) => {
    const said = (key: string) => typeof item[key] === "string" ? item[key].replaceAll(/\s+/g, " ").trim() : "-";
    switch (item.kind) {
      case "detached_shell":
        return `running: ${said("work_id")}  detached shell  ${said("command")}`;
      case "delegation":
        return `running: ${said("delegation_id")}  delegation  ${said("capsule")}@${said("version")}`;
      default:
        return `running: ${said("kind")}`;
    }
  });
}
