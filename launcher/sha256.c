/* SHA-256 (FIPS 180-4), with the processor's own instructions for it where it has them: the first start hashes tens of
 * megabytes. */
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "launcher.h"

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t value, int by) { return value >> by | value << (32 - by); }

static void compress_plainly(uint32_t state[8], const uint8_t *block) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++) {
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
           block[4 * i + 3];
  }
  for (int i = 16; i < 64; i++) {
    uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; i++) {
    uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
    uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

#ifdef __x86_64__
/* 1: it has them, -1: it has not, 0: not asked yet. */
static int has_instructions_known;

static int has_instructions(void) {
  unsigned a, b = 0, c = 0, d;
  if (has_instructions_known == 0) {
    int extended = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29) != 0;
    has_instructions_known =
        extended && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) != 0 && (c & bit_SSSE3) != 0 ? 1 : -1;
  }
  return has_instructions_known == 1;
}

/* Four rounds at a time. The instructions keep the state as the words a, b, e, f and c, d, g, h. */
__attribute__((target("sha,sse4.1,ssse3"))) static void compress_by_instruction(uint32_t state[8], const uint8_t *block) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
  const __m128i abef_before = abef, cdgh_before = cdgh;
  __m128i w[4];
  for (int i = 0; i < 4; i++) {
    w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), big_endian);
  }
  for (int i = 0; i < 16; i++) {
    if (i >= 4) {
      __m128i seven = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
      __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), seven);
      w[i % 4] = _mm_sha256msg2_epu32(sum, w[(i + 3) % 4]);
    }
    __m128i rounds = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(K + 4 * i)));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, rounds);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(rounds, 0x0e));
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  low = _mm_shuffle_epi32(abef, 0x1b);
  high = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
  _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}
#endif

static void compress(uint32_t state[8], const uint8_t *block) {
#ifdef __x86_64__
  if (has_instructions()) return compress_by_instruction(state, block);
#endif
  compress_plainly(state, block);
}

void sha256_start(struct sha256 *hash) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, start, sizeof start);
  hash->length = 0;
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  size_t held = hash->length % 64;
  hash->length += length;
  if (held > 0) {
    size_t taken = 64 - held < length ? 64 - held : length;
    memcpy(hash->block + held, at, taken);
    at += taken;
    length -= taken;
    if (held + taken < 64) return;
    compress(hash->state, hash->block);
  }
  for (; length >= 64; at += 64, length -= 64) compress(hash->state, at);
  memcpy(hash->block, at, length);
}

void sha256_end(struct sha256 *hash, uint8_t digest[32]) {
  uint64_t bits = hash->length * 8;
  uint8_t padding[72] = {0x80};
  size_t zeros = (119 - hash->length % 64) % 64 + 1;
  for (int i = 0; i < 8; i++) padding[zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
  sha256_add(hash, padding, zeros + 8);
  for (int i = 0; i < 8; i++) {
    for (int j = 0; j < 4; j++) digest[4 * i + j] = (uint8_t)(hash->state[i] >> (24 - 8 * j));
  }
}
