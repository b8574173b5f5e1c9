/* The directory programs are unpacked into. What lies in it is executed, so it must be such that nobody but this user,
 * or root, can have put anything there: it is owned by this user, with mode 0700, and so is everything in it; and no
 * directory above it lets another user put something else in its place between the look and the use. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#ifdef __APPLE__
#define CACHES "Library/Caches"
#define MODIFIED(info) ((info).st_mtimespec)
#else
#define CACHES ".cache"
#define MODIFIED(info) ((info).st_mtim)
#endif

static const char ELSEWHERE[] = "set MURMUR_CACHE_DIR to a directory of your own that may be written";

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? value : NULL;
}

static void join(char path[PATH_BYTES], const char *directory, const char *name) {
  int length = snprintf(path, PATH_BYTES, "%s/%s", directory, name);
  if (length < 0 || length >= PATH_BYTES) refuse("E-IO-003", ELSEWHERE, "the path %s/%s is too long", directory, name);
}

/* Root with the home of somebody else, as sudo may leave it: what lies there is not for root to run, and what root wrote
 * there would be in its owner's way. */
static int is_for_another(const char *directory) {
  struct stat info;
  return geteuid() == 0 && stat(directory, &info) == 0 && info.st_uid != 0;
}

/* Where the cache is wanted. */
static void choose(char path[PATH_BYTES]) {
  const char *own = variable("MURMUR_CACHE_DIR"), *caches = variable("XDG_CACHE_HOME"), *home = variable("HOME");
  if (own != NULL) {
    if (*own != '/') refuse("E-IO-003", "give an absolute path", "MURMUR_CACHE_DIR is '%s', which is no absolute path", own);
    if (snprintf(path, PATH_BYTES, "%s", own) >= PATH_BYTES) {
      refuse("E-IO-003", ELSEWHERE, "MURMUR_CACHE_DIR is too long");
    }
    return;
  }
  /* A relative one is to be ignored, says the XDG specification. */
  if (caches != NULL && *caches == '/' && !is_for_another(caches)) return join(path, caches, "murmur");
  if (home != NULL && *home == '/' && !is_for_another(home)) return join(path, home, CACHES "/murmur");
  if (geteuid() == 0) return join(path, "/var/cache", "murmur");
  if (home == NULL) {
    refuse("E-IO-001", "set HOME to a directory of your own, or MURMUR_CACHE_DIR to where files may be kept",
           "HOME is not set, so there is no place to unpack this program into");
  }
  refuse("E-IO-003", "set HOME to a directory of your own, or MURMUR_CACHE_DIR to where files may be kept",
         "HOME is '%s', which is no absolute path", home);
}

/* Makes a directory and those above it; answers why one could not be made, 0 when all are there. */
static int make(const char *path) {
  char partial[PATH_BYTES];
  int error = 0;
  size_t length = strlen(path);
  memcpy(partial, path, length + 1);
  for (size_t at = 1; at <= length; at++) {
    if (partial[at] != '/' && partial[at] != '\0') continue;
    char kept = partial[at];
    partial[at] = '\0';
    /* The parents of one that is there may not be writable, so only what failed last counts; that one of them is missing
     * then follows from it. */
    if (mkdir(partial, 0700) == 0 || errno == EEXIST) error = 0;
    else if (errno != ENOENT || error == 0) error = errno;
    partial[at] = kept;
  }
  return error;
}

/* Whether this is a user namespace that has no name for some users, root outside of it among them: what they own shows as
 * belonging to one stand-in user. Whoever made the namespace decided what is seen in it. */
static int is_stand_in(uid_t uid) {
#ifdef __linux__
  char text[64] = "";
  int map = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
  ssize_t length = map < 0 ? -1 : read(map, text, sizeof text - 1);
  if (map >= 0) close(map);
  unsigned long inner, outer, count;
  int whole = length > 0 && sscanf(text, "%lu %lu %lu", &inner, &outer, &count) == 3 && count == 4294967295ul;
  return uid == 65534 && length > 0 && !whole;
#else
  (void)uid;
  return 0;
#endif
}

/* Refuses a directory on the way to the cache in which another user could replace what is below. */
static void judge_above(const char *cache) {
  char path[PATH_BYTES];
  memcpy(path, cache, strlen(cache) + 1);
  for (char *end; (end = strrchr(path, '/')) != NULL;) {
    struct stat info;
    end[end == path] = '\0';
    if (lstat(path, &info) != 0) refuse("E-IO-003", ELSEWHERE, "%s cannot be looked at: %s", path, strerror(errno));
    if (info.st_uid != 0 && info.st_uid != geteuid() && !is_stand_in(info.st_uid)) {
      refuse("E-IO-003", ELSEWHERE, "%s belongs to another user, who could replace what is unpacked below it", path);
    }
    /* In a directory with the sticky bit only the owner of an entry replaces it. Where homes are open to their group, that
     * is the user's own, with the user's own number, and nobody else is in it. */
    int is_own_group = info.st_uid == geteuid() && info.st_gid == getegid() && info.st_gid == info.st_uid;
    mode_t open_to = info.st_mode & (is_own_group ? S_IWOTH : S_IWOTH | S_IWGRP);
    if (open_to != 0 && (info.st_mode & S_ISVTX) == 0) {
      refuse("E-IO-003", ELSEWHERE, "%s can be written by others, who could replace what is unpacked below it", path);
    }
    if (path[1] == '\0') return;
  }
}

int open_cache(char path[PATH_BYTES]) {
  char wanted[PATH_BYTES];
  choose(wanted);
  for (size_t length = strlen(wanted); length > 1 && wanted[length - 1] == '/';) wanted[--length] = '\0';
  int cache = open(wanted, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (cache < 0 && errno == ENOENT) {
    int error = make(wanted);
    if (error != 0) {
      refuse(error == EACCES || error == EPERM ? "E-IO-002" : "E-IO-003", ELSEWHERE,
             "this program cannot be unpacked: the directory %s cannot be made: %s", wanted, strerror(error));
    }
    cache = open(wanted, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }
  if (cache < 0) {
    refuse("E-IO-003", ELSEWHERE, "%s cannot be used to unpack into: %s", wanted,
           errno == ELOOP || errno == ENOTDIR ? "it is not a directory" : strerror(errno));
  }
  struct stat info, named;
  if (fstat(cache, &info) != 0) refuse("E-IO-003", ELSEWHERE, "%s cannot be looked at: %s", wanted, strerror(errno));
  if (info.st_uid != geteuid()) {
    refuse("E-IO-003", ELSEWHERE, "%s belongs to another user: what lies in it is not run", wanted);
  }
  if (info.st_mode & (S_IWGRP | S_IWOTH)) {
    refuse("E-IO-003", "remove it, and what is in it; it is made again",
           "%s can be written by others: what lies in it is not run", wanted);
  }
  /* Nobody else has any business in it; one on a read-only file system stays as it is. */
  if ((info.st_mode & 0777) != 0700) (void)fchmod(cache, 0700);
  if (realpath(wanted, path) == NULL) refuse("E-IO-003", ELSEWHERE, "%s cannot be found: %s", wanted, strerror(errno));
  judge_above(path);
  if (lstat(path, &named) != 0 || named.st_dev != info.st_dev || named.st_ino != info.st_ino) {
    refuse("E-IO-003", ELSEWHERE, "%s was replaced while it was looked at", wanted);
  }
  return cache;
}

int holds_part(int cache, const struct part *part) {
  struct stat info;
  int directory = openat(cache, part->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) return 0;
  int holds = fstat(directory, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 0077) == 0;
  for (size_t i = 0; holds && i < part->file_count; i++) {
    const struct file *file = &part->files[i];
    holds = fstatat(directory, file->path, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
            info.st_uid == geteuid() && (info.st_mode & 07777) == file->mode && (uint64_t)info.st_size == file->size &&
            MODIFIED(info).tv_sec == UNPACKED_AT && MODIFIED(info).tv_nsec == 0;
  }
  close(directory);
  return holds;
}
