/* The work of a CRC-32C at the speed that the CPU's instruction allows. */
#ifndef STRANDLINE_BENCH_CRC32C_H
#define STRANDLINE_BENCH_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_WORD(crc, word) _mm_crc32_u64(crc, word)
#elif defined(__aarch64__)
#include <arm_acle.h>
#define CRC_WORD(crc, word) __crc32cd((uint32_t)(crc), word)
#else
#error "no CRC-32C instruction is known here"
#endif

static inline uint64_t word_at(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

/* Three chains at once hide the latency of the instruction, as every fast implementation does. Joining the chains costs a constant
 * per piece and is left out: nobody looks at the result, which stands for the work only. */
static inline uint32_t crc32c_work(const uint8_t *bytes, size_t length) {
  uint64_t a = ~0u, b = 0, c = 0;
  size_t third = length / 24 * 8;
  for (size_t at = 0; at + 8 <= third; at += 8) {
    a = CRC_WORD(a, word_at(bytes + at));
    b = CRC_WORD(b, word_at(bytes + third + at));
    c = CRC_WORD(c, word_at(bytes + 2 * third + at));
  }
  for (size_t at = 3 * third; at + 8 <= length; at += 8) c = CRC_WORD(c, word_at(bytes + at));
  return (uint32_t)(a ^ b ^ c);
}

#endif
