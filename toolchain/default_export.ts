/**
 * What an author's file has to export for its role, judged by its types before a component is made of it. The component
 * itself loads the file at its first call, and would find out only there.
 *
 * @module
 */
import type ts from "typescript";
import type { ComponentRole } from "./bundle.ts";

interface RoleExport {
  /** The function of the guest library that declares it. */
  readonly define: string;
  /** Type that function gives. */
  readonly type: string;
  /** Members the runtime calls; one of them is enough. */
  readonly methods: readonly string[];
  /** An example of the whole statement. */
  readonly example: string;
}

const ROLE_EXPORTS: Readonly<Record<ComponentRole, RoleExport>> = {
  tool: {
    define: "defineTool",
    type: "Tool",
    methods: ["run"],
    example: "export default defineTool({ run(input, ctx) { … } });",
  },
  driver: {
    define: "defineDriver",
    type: "Driver",
    methods: ["infer"],
    example: "export default defineDriver({ infer(request, ctx) { … } });",
  },
  capsule: {
    define: "defineCapsule",
    type: "Capsule",
    methods: ["run"],
    example: "export default defineCapsule({ run(ctx) { … } });",
  },
  hook: {
    define: "defineHook",
    type: "Hook",
    methods: [
      "onStage",
      "onSessionStart",
      "onTaskStart",
      "onInference",
      "onToolCall",
      "onShell",
      "onCompaction",
      "onTaskEnd",
      "onSessionEnd",
    ],
    example: "export default defineHook({ onToolCall(event, ctx) { … } });",
  },
};

/** Why a file is no component of its role. */
export interface ExportProblem {
  readonly problem: string;
  readonly hint: string;
  /** The export that is wrong, `null` where there is none. */
  readonly node: ts.Node | null;
}

/**
 * Judges the default export of a file. What has no type (`any`, as untyped JavaScript gives) is left to the first call.
 *
 * @param isLibrary Whether a source file belongs to the guest library.
 */
export function defaultExportProblem(
  typescript: typeof ts,
  program: ts.Program,
  entry: ts.SourceFile,
  role: ComponentRole,
  isLibrary: (file: ts.SourceFile) => boolean,
): ExportProblem | null {
  const { define, type: wanted, methods, example } = ROLE_EXPORTS[role];
  const hint = `write: import { ${define} } from "murmur/${role}"; ${example}`;
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(entry);
  const exported = module === undefined ? undefined : checker.tryGetMemberInModuleExports("default", module) ??
    checker.tryGetMemberInModuleExports("export=", module);
  if (exported === undefined) return { problem: `has no default export, and a ${role} is one`, hint, node: null };
  const node = exported.declarations?.[0] ?? null;
  const symbol = (exported.flags & typescript.SymbolFlags.Alias) === 0 ? exported : checker.getAliasedSymbol(exported);
  if ((symbol.flags & typescript.SymbolFlags.Value) === 0) {
    return { problem: `has only a type as its default export, and a ${role} is a value`, hint, node };
  }
  const type = checker.getTypeOfSymbol(symbol);
  if ((type.flags & typescript.TypeFlags.Any) !== 0) return null;

  const declared = type.getSymbol();
  const ofLibrary = declared?.declarations?.some((each) => isLibrary(each.getSourceFile())) ?? false;
  const other = Object.entries(ROLE_EXPORTS).find(([, each]) => ofLibrary && each.type === declared?.name);
  if (other !== undefined && other[1].type !== wanted) {
    return { problem: `is a ${other[0]} by its default export, and a ${role} by its manifest`, hint, node };
  }
  const callable = methods.some((method) => {
    const member = checker.getPropertyOfType(type, method);
    if (member === undefined) return false;
    const memberType = checker.getTypeOfSymbol(member);
    // A hook has some of its functions, so none is sure to be there.
    const called = role === "hook" ? checker.getNonNullableType(memberType) : memberType;
    return called.getCallSignatures().length > 0;
  });
  return callable ? null : { problem: `has a default export that is not made by ${define}`, hint, node };
}
