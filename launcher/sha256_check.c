/* Prints the SHA-256 of standard input, fed in pieces of changing length; with an argument by plain C alone. Included
 * whole, so that a test reaches both ways. */
#include <stdio.h>

#include "sha256.c"

int main(int argc, char **argv) {
  struct sha256 hash;
  uint8_t digest[32], piece[4096];
  size_t length, wanted = 1;
  (void)argc;
  (void)argv;
#ifdef __x86_64__
  if (argc > 1) has_instructions_known = -1;
#endif
  sha256_start(&hash);
  while ((length = fread(piece, 1, wanted, stdin)) > 0) {
    sha256_add(&hash, piece, length);
    wanted = wanted * 7 % 4093 + 1;
  }
  sha256_end(&hash, digest);
  for (int i = 0; i < 32; i++) printf("%02x", digest[i]);
  return 0;
}
