import assert from "node:assert/strict";
import { murmurHomeAt } from "./murmur_home.ts";
import { makePrivate, prepareMurmurHome } from "./private_directory.ts";

Deno.test("the home is created closed, and closed again when it was open", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const home = murmurHomeAt(directory);
    prepareMurmurHome(home);
    assert.equal((await Deno.stat(home.root)).mode! & 0o777, 0o700);
    await Deno.chmod(home.root, 0o755);
    prepareMurmurHome(home);
    assert.equal((await Deno.stat(home.root)).mode! & 0o777, 0o700);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("an owner's own closing of the home is left alone", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const home = murmurHomeAt(directory);
    await Deno.mkdir(home.root);
    await Deno.chmod(home.root, 0o577);
    prepareMurmurHome(home);
    assert.equal((await Deno.stat(home.root)).mode! & 0o777, 0o500);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("every component that is made is the owner's alone, whatever the umask", async () => {
  const directory = await Deno.makeTempDir();
  const umask = Deno.umask(0o277);
  try {
    makePrivate(`${directory}/a/b/c`);
    for (const path of ["a", "a/b", "a/b/c"]) {
      assert.equal((await Deno.stat(`${directory}/${path}`)).mode! & 0o777, 0o700, path);
    }
  } finally {
    Deno.umask(umask);
    await Deno.remove(directory, { recursive: true });
  }
});
