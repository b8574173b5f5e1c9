/*
 * Feeds the record parser what comes in on standard input: length as 32 bits little-endian, a byte that says whose
 * records they are, the bytes. Prints how many were taken and how many refused. Built with sanitizers by the tests.
 */
#include "confine.h"

static int read_fully(void *to, size_t length) {
  char *at = to;
  while (length > 0) {
    ssize_t got = read(0, at, length);
    if (got <= 0) return -1;
    at += got;
    length -= (size_t)got;
  }
  return 0;
}

/* Everything that the parser says is there is looked at, so that a wrong pointer is a fault here. */
static size_t touch(const struct spec *spec) {
  size_t sum = 0;
  for (size_t i = 0; i < spec->count; i++) {
    for (size_t j = 0; j < MAX_OPERANDS; j++) {
      if (spec->records[i].text[j] != NULL) sum += strlen(spec->records[i].text[j]);
    }
  }
  for (char **argument = spec->argv; argument != NULL && *argument != NULL; argument++) sum += strlen(*argument);
  return sum;
}

int main(void) {
  unsigned char header[5];
  size_t taken = 0, refused = 0, sum = 0;
  while (read_fully(header, sizeof header) == 0) {
    size_t length = (size_t)header[0] | (size_t)header[1] << 8 | (size_t)header[2] << 16 | (size_t)header[3] << 24;
    /* Exactly as long as it is: one byte further is a fault. */
    char *bytes = malloc(length == 0 ? 1 : length);
    if (bytes == NULL || read_fully(bytes, length) != 0) return 1;
    struct spec spec;
    const char *wrong = parse_spec(bytes, length, header[4] ? SPEC_KEEPER : SPEC_COMMAND, &spec);
    if (wrong == NULL) {
      taken++;
      sum += touch(&spec);
      free_spec(&spec);
    } else {
      refused++;
    }
    free(bytes);
  }
  printf("%zu taken, %zu refused, %zu bytes\n", taken, refused, sum);
  return 0;
}
