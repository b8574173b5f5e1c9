/* The list of contents, and where it lies. The program's file is, one after the other:
 *
 *   the launcher itself
 *   the stored bytes of each part
 *   the list of contents: lines of fields separated by tabs, in this order
 *     part <directory> <offset> <stored bytes> <sha256 of them> zstd|stored
 *     file <size> <mode, octal> <path>              the files of the part above, in the order they are stored
 *     run <part directory>/<path>                   the program to execute
 *     arg <text>                                    its arguments; "%" at the start stands for the cache directory
 *   56 bytes: its offset and length, little endian, its SHA-256, "MURPACK1"
 *
 * Whoever can change this file can change the launcher as well, so the hash is no wall: it finds what a cut download or a
 * bad disk left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher.h"

enum { FOOTER_BYTES = 56 };

static const char DAMAGED[] = "download or install it again";

static int read_at(int fd, void *to, size_t length, uint64_t offset) {
  for (char *at = to; length > 0;) {
    ssize_t got = pread(fd, at, length, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    at += got;
    offset += (uint64_t)got;
    length -= (size_t)got;
  }
  return 1;
}

static uint64_t little_endian(const uint8_t *bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | bytes[i];
  return value;
}

/* The next field of a line; the last one holds the rest of it. */
static char *field(char **line) {
  char *start = *line;
  if (start == NULL) return NULL;
  char *end = strchr(start, '\t');
  if (end != NULL) *end++ = '\0';
  *line = end;
  return start;
}

static int number(const char *text, int base, uint64_t *value) {
  char *end;
  if (text == NULL || *text < '0' || *text > '9') return 0;
  errno = 0;
  *value = strtoull(text, &end, base);
  return errno == 0 && *end == '\0';
}

static int hash(const char *text, uint8_t digest[32]) {
  if (text == NULL || strlen(text) != 64) return 0;
  for (int i = 0; i < 32; i++) {
    unsigned value = 0;
    for (int j = 0; j < 2; j++) {
      const char *digits = "0123456789abcdef";
      const char *digit = strchr(digits, text[2 * i + j]);
      if (digit == NULL) return 0;
      value = value * 16 + (unsigned)(digit - digits);
    }
    digest[i] = (uint8_t)value;
  }
  return 1;
}

/* A path that stays below where it is taken. */
static int is_inner(const char *path) {
  if (path == NULL || *path == '\0') return 0;
  for (const char *at = path;; at++) {
    size_t length = strcspn(at, "/");
    if (length == 0 || (length == 1 && at[0] == '.') || (length == 2 && at[0] == '.' && at[1] == '.')) return 0;
    at += length;
    if (*at == '\0') return 1;
  }
}

static int take_line(struct contents *contents, char *line) {
  const char *kind = field(&line);
  if (strcmp(kind, "part") == 0) {
    if (contents->part_count == MAX_PARTS) return 0;
    struct part *part = &contents->parts[contents->part_count++];
    part->directory = field(&line);
    if (!is_inner(part->directory) || strchr(part->directory, '/') != NULL) return 0;
    if (!number(field(&line), 10, &part->offset) || !number(field(&line), 10, &part->stored)) return 0;
    if (!hash(field(&line), part->sha256)) return 0;
    const char *form = field(&line);
    if (form == NULL) return 0;
    part->compressed = strcmp(form, "zstd") == 0;
    part->files = contents->files + contents->file_count;
    return part->compressed || strcmp(form, "stored") == 0;
  }
  if (strcmp(kind, "file") == 0) {
    if (contents->part_count == 0 || contents->file_count == MAX_FILES) return 0;
    struct file *file = &contents->files[contents->file_count++];
    uint64_t mode;
    if (!number(field(&line), 10, &file->size) || !number(field(&line), 8, &mode) || (mode & ~0700u) != 0) return 0;
    file->mode = (mode_t)mode;
    file->path = line;
    contents->parts[contents->part_count - 1].file_count++;
    return is_inner(file->path);
  }
  if (strcmp(kind, "run") == 0) {
    contents->program = line;
    return is_inner(line);
  }
  if (strcmp(kind, "arg") == 0 && line != NULL && contents->argument_count < MAX_ARGUMENTS) {
    contents->arguments[contents->argument_count++] = line;
    return 1;
  }
  return 0;
}

void read_contents(int self, struct contents *contents) {
  uint8_t footer[FOOTER_BYTES], digest[32];
  off_t size = lseek(self, 0, SEEK_END);
  memset(contents, 0, sizeof *contents);
  if (size < FOOTER_BYTES || !read_at(self, footer, sizeof footer, (uint64_t)size - FOOTER_BYTES) ||
      memcmp(footer + 48, "MURPACK1", 8) != 0) {
    refuse("E-IO-003", DAMAGED, "this file is not whole: its end is missing");
  }
  uint64_t offset = little_endian(footer), length = little_endian(footer + 8);
  if (length == 0 || length > MAX_INDEX_BYTES || (contents->text = malloc(length + 1)) == NULL ||
      !read_at(self, contents->text, length, offset)) {
    refuse("E-IO-003", DAMAGED, "this file is damaged: its list of contents cannot be read");
  }
  contents->text[length] = '\0';
  struct sha256 sum;
  sha256_start(&sum);
  sha256_add(&sum, contents->text, length);
  sha256_end(&sum, digest);
  int whole = memcmp(digest, footer + 16, 32) == 0;
  for (char *line = contents->text; whole && *line != '\0';) {
    char *end = strchr(line, '\n');
    if (end == NULL) {
      whole = 0;
      break;
    }
    *end = '\0';
    whole = take_line(contents, line);
    line = end + 1;
  }
  if (!whole || contents->program == NULL || contents->part_count == 0) {
    refuse("E-IO-003", DAMAGED, "this file is damaged: its list of contents is not what was written");
  }
}
