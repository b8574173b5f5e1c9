/* The launcher of a program in one file: what its parts share. launcher.c says how they work together. */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Longest path that is put together. */
enum { PATH_BYTES = 4096 };

/* Longest list of the contents that is believed, and most files, parts and arguments in it. */
enum { MAX_INDEX_BYTES = 1 << 20, MAX_FILES = 4096, MAX_PARTS = 4, MAX_ARGUMENTS = 64 };

/* Time of last change every unpacked file is given: one that was written to since has another. */
enum { UNPACKED_AT = 1000000000 };

/* One file of a part, as the list of contents gives it. */
struct file {
  const char *path; /* relative, without "." and ".." */
  uint64_t size;
  mode_t mode;
};

/* Files that are unpacked together into a directory named for their contents. */
struct part {
  const char *directory; /* name in the cache: "<name>-<hash>" */
  uint64_t offset;       /* where the stored bytes lie in the program's own file */
  uint64_t stored;       /* how many there are */
  uint8_t sha256[32];    /* of the stored bytes */
  int compressed;        /* whether they are a zstd frame */
  struct file *files;
  size_t file_count;
};

/* The list of contents. */
struct contents {
  char *text; /* holds every string below */
  struct part parts[MAX_PARTS];
  size_t part_count;
  struct file files[MAX_FILES];
  size_t file_count;
  const char *program;   /* the file to execute: "<part directory>/<path>" */
  const char *arguments[MAX_ARGUMENTS]; /* "%" at the start stands for the cache directory */
  size_t argument_count;
};

/* launcher.c */
/* Says why the program cannot start, and what to do about it, and exits with 1. */
__attribute__((noreturn, format(printf, 3, 4))) void refuse(const char *code, const char *hint, const char *format, ...);

/* Tells whoever waits at a terminal, once, when a second has gone by since it was first called. */
void tell_waiting(const char *cache_path);

/* contents.c */
/* Reads the list of contents at the end of the program's own file. Exits when it is not whole. */
void read_contents(int self, struct contents *contents);

/* cache.c */
/* Opens the directory programs are unpacked into, made when it is not there, and gives its absolute path. Exits unless it
 * is the user's own and nobody else can put anything into it or in its place. */
int open_cache(char path[PATH_BYTES]);
/* Whether a part lies in the cache as it was unpacked. */
int holds_part(int cache, const struct part *part);

/* unpack.c */
/* Unpacks a part into the cache unless another process did so meanwhile. Exits when that fails; then nothing is left. */
void unpack_part(int self, int cache, const char *cache_path, const struct part *part);

/* sha256.c */
struct sha256 {
  uint32_t state[8];
  uint64_t length;
  uint8_t block[64];
};
void sha256_start(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t length);
void sha256_end(struct sha256 *hash, uint8_t digest[32]);

#endif
