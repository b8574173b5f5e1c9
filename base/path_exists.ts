/**
 * Whether something is at a path.
 *
 * @module
 */

/**
 * Whether a path names anything, a symbolic link that leads nowhere included.
 *
 * @throws {Deno.errors.PermissionDenied} and the like when it cannot be told.
 */
export async function pathExists(path: string): Promise<boolean> {
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
