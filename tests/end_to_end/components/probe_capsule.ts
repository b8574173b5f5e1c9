/**
 * A script capsule for tests: does what its standard input asks for, a JSON object.
 *
 * @module
 */
import { defineCapsule } from "murmur/capsule";
import { environment } from "murmur/environment";
import { files } from "murmur/files";

interface Wish {
  readonly print?: string;
  readonly complain?: string;
  readonly environment?: boolean;
  readonly invoke?: { readonly name: string; readonly input?: unknown };
  readonly write?: { readonly path: string; readonly text: string };
  readonly throws?: string;
  readonly loop?: boolean;
}

export default defineCapsule({
  async run(context) {
    const wish = JSON.parse(await context.readStdin()) as Wish;
    if (wish.print !== undefined) console.log(wish.print);
    if (wish.complain !== undefined) console.error(wish.complain);
    if (wish.environment === true) console.log(JSON.stringify(environment()));
    if (wish.invoke !== undefined) {
      try {
        console.log(JSON.stringify(context.invoke(wish.invoke.name, wish.invoke.input)));
      } catch (error) {
        console.log(`refused: ${(error as Error).message}`);
      }
    }
    if (wish.write !== undefined) files.write(wish.write.path, wish.write.text);
    if (wish.throws !== undefined) throw new Error(wish.throws);
    while (wish.loop === true);
  },
});
