/* Unpacking a part: into a directory beside its place, which is renamed when every byte is there and has the right hash.
 * One process unpacks parts of a name at a time; the others wait and find it done. */
#define _GNU_SOURCE /* sync_file_range */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_ZSTD
#include <zstd.h>
#endif

#include "launcher.h"

enum { CHUNK_BYTES = 1 << 20 };

/* Where unpacking is. */
struct unpacking {
  const struct part *part;
  int cache;
  const char *cache_path;
  char staging[PATH_BYTES];
  int directory;
  size_t next; /* file that is written next */
  int fd;      /* file that is being written, -1 without one */
  uint64_t left;
};

/* Removes an entry of a directory and everything below it, without following links. */
static void remove_tree(int directory, const char *name) {
  if (unlinkat(directory, name, 0) == 0) return;
  int inner = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *entries = inner < 0 ? NULL : fdopendir(inner);
  if (entries != NULL) {
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) remove_tree(inner, entry->d_name);
    }
    closedir(entries);
  }
  unlinkat(directory, name, AT_REMOVEDIR);
}

/* Gives up: nothing half written stays. */
__attribute__((noreturn)) static void fail(struct unpacking *state, const char *what, int error) {
  remove_tree(state->cache, state->staging);
  if (error == ENOSPC || error == EDQUOT) {
    uint64_t needed = 0;
    for (size_t i = 0; i < state->part->file_count; i++) needed += state->part->files[i].size;
    refuse("E-IO-003", "free some room there, or set MURMUR_CACHE_DIR to a directory on another disk",
           "this program cannot be unpacked into %s: the disk is full (%llu MB are needed)", state->cache_path,
           (unsigned long long)(needed / 1000000 + 1));
  }
  if (error == 0) {
    refuse("E-IO-003", "download or install it again", "this file is damaged: %s", what);
  }
  refuse(error == EACCES || error == EPERM ? "E-IO-002" : "E-IO-003",
         "set MURMUR_CACHE_DIR to a directory of your own that may be written",
         "this program cannot be unpacked into %s: %s: %s", state->cache_path, what, strerror(error));
}

/* Makes the directories above a file of the part. */
static void make_parents(struct unpacking *state, const char *path) {
  char partial[PATH_BYTES];
  if (strlen(path) >= sizeof partial) fail(state, "a name in it is too long", 0);
  for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
    memcpy(partial, path, (size_t)(slash - path));
    partial[slash - path] = '\0';
    if (mkdirat(state->directory, partial, 0700) != 0 && errno != EEXIST) fail(state, partial, errno);
  }
}

/* Ends the file that is being written. */
static void close_file(struct unpacking *state) {
  const struct file *file = &state->part->files[state->next - 1];
  const struct timespec times[2] = {{.tv_sec = UNPACKED_AT}, {.tv_sec = UNPACKED_AT}};
  if (fchmod(state->fd, file->mode) != 0 || futimens(state->fd, times) != 0 || close(state->fd) != 0) {
    fail(state, file->path, errno);
  }
  state->fd = -1;
}

/* Waits until every file is on the disk. After a loss of power one that was renamed into place before would have the right
 * size and time, and other bytes. All of them at the end: one wait then serves most. */
static void wait_for_disk(struct unpacking *state) {
  for (size_t i = 0; i < state->part->file_count; i++) {
    const char *path = state->part->files[i].path;
    int fd = openat(state->directory, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) fail(state, path, errno);
    close(fd);
  }
  if (fsync(state->directory) != 0 && errno != EINVAL) fail(state, "a directory in it", errno);
}

/* Starts files until one wants bytes. */
static void open_files(struct unpacking *state) {
  while (state->fd < 0 && state->next < state->part->file_count) {
    const struct file *file = &state->part->files[state->next++];
    make_parents(state, file->path);
    state->fd = openat(state->directory, file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (state->fd < 0) fail(state, file->path, errno);
    state->left = file->size;
    if (state->left == 0) close_file(state);
  }
}

/* Writes the next bytes of the part. */
static void take(struct unpacking *state, const uint8_t *bytes, size_t length) {
  while (length > 0) {
    if (state->fd < 0) fail(state, "it holds more than it lists", 0);
    ssize_t written = write(state->fd, bytes, length < state->left ? length : state->left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(state, state->part->files[state->next - 1].path, errno);
    bytes += written;
    length -= (size_t)written;
    state->left -= (uint64_t)written;
#ifdef __linux__
    /* The disk begins while the rest is still being unpacked. */
    (void)sync_file_range(state->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
    if (state->left > 0) continue;
    close_file(state);
    open_files(state);
  }
}

/* Reads the stored bytes and writes the files. */
static void copy(struct unpacking *state, int self) {
  static uint8_t in[CHUNK_BYTES];
  const struct part *part = state->part;
  struct sha256 sum;
  uint8_t digest[32];
  sha256_start(&sum);
  open_files(state);
#ifdef WITH_ZSTD
  static uint8_t out[CHUNK_BYTES];
  ZSTD_DStream *stream = ZSTD_createDStream();
  size_t wanted = 1;
  if (stream == NULL) fail(state, "unpacking", ENOMEM);
#else
  if (part->compressed) fail(state, "it is compressed, which this build of it cannot undo", 0);
#endif
  for (uint64_t at = 0; at < part->stored;) {
    uint64_t most = part->stored - at;
    ssize_t got = pread(self, in, most < sizeof in ? (size_t)most : sizeof in, (off_t)(part->offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(state, "reading the program's own file", errno);
    if (got == 0) fail(state, "it ends too early", 0);
    at += (uint64_t)got;
    sha256_add(&sum, in, (size_t)got);
#ifdef WITH_ZSTD
    if (part->compressed) {
      ZSTD_inBuffer input = {in, (size_t)got, 0};
      int full = 0;
      while (input.pos < input.size || full) {
        ZSTD_outBuffer output = {out, sizeof out, 0};
        wanted = ZSTD_decompressStream(stream, &output, &input);
        if (ZSTD_isError(wanted)) fail(state, "its contents do not decompress", 0);
        take(state, out, output.pos);
        full = output.pos == output.size && wanted != 0;
      }
      tell_waiting(state->cache_path);
      continue;
    }
#endif
    take(state, in, (size_t)got);
    tell_waiting(state->cache_path);
  }
#ifdef WITH_ZSTD
  ZSTD_freeDStream(stream);
  if (part->compressed && wanted != 0) fail(state, "its contents end too early", 0);
#endif
  if (state->fd >= 0 || state->next < part->file_count) fail(state, "it holds less than it lists", 0);
  sha256_end(&sum, digest);
  if (memcmp(digest, part->sha256, sizeof digest) != 0) fail(state, "its contents do not have their hash", 0);
}

/* Removes what processes that were killed while unpacking left. Only whoever holds the name's lock may. */
static void remove_leftovers(int cache, const char *prefix) {
  int again = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) remove_tree(cache, entry->d_name);
  }
  closedir(entries);
}

void unpack_part(int self, int cache, const char *cache_path, const struct part *part) {
  struct unpacking state = {.part = part, .cache = cache, .cache_path = cache_path, .fd = -1, .directory = -1};
  /* The name without the hash behind it. No name holds an "@", so none begins another's. */
  char prefix[PATH_BYTES], lock_name[PATH_BYTES], old[PATH_BYTES];
  const char *dash = strrchr(part->directory, '-');
  int name = dash == NULL ? (int)strlen(part->directory) : (int)(dash - part->directory);
  if (name > 200) refuse("E-IO-003", "download or install it again", "this file is damaged: a name in it is too long");
  snprintf(lock_name, sizeof lock_name, ".lock-%.*s", name, part->directory);
  snprintf(prefix, sizeof prefix, ".unpacking-%.*s@", name, part->directory);
  snprintf(state.staging, sizeof state.staging, ".unpacking-%.*s@%ld", name, part->directory, (long)getpid());
  snprintf(old, sizeof old, ".unpacking-%.*s@%ld-old", name, part->directory, (long)getpid());
  int lock = openat(cache, lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0) {
    refuse(errno == EACCES || errno == EPERM ? "E-IO-002" : "E-IO-003",
           "set MURMUR_CACHE_DIR to a directory of your own that may be written",
           "this program cannot be unpacked into %s: %s", cache_path, strerror(errno));
  }
  for (int waited = 0; flock(lock, LOCK_EX | LOCK_NB) != 0; waited++) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      refuse("E-IO-003", "set MURMUR_CACHE_DIR to a directory on a local disk",
             "this program cannot be unpacked into %s: its lock cannot be taken: %s", cache_path, strerror(errno));
    }
    tell_waiting(cache_path);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  if (holds_part(cache, part)) {
    close(lock);
    return;
  }
  remove_leftovers(cache, prefix);
  if (mkdirat(cache, state.staging, 0700) != 0) fail(&state, "a directory in it cannot be made", errno);
  state.directory = openat(cache, state.staging, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (state.directory < 0) fail(&state, "a directory in it cannot be opened", errno);
  copy(&state, self);
  wait_for_disk(&state);
  close(state.directory);
  /* What stands there was changed or is half gone, or is not a directory at all. It goes aside first: a program that runs
   * from it still has its files open. */
  if (renameat(cache, part->directory, cache, old) != 0 && errno != ENOENT) {
    fail(&state, "what stands in its place cannot be moved", errno);
  }
  if (renameat(cache, state.staging, cache, part->directory) != 0) fail(&state, "a directory cannot be renamed", errno);
  remove_tree(cache, old);
  close(lock);
}
