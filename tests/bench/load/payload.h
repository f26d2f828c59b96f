/* What the records carry: a pool of bytes, of which each record is a window. */
#ifndef STRANDLINE_BENCH_PAYLOAD_H
#define STRANDLINE_BENCH_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

/* kind `random` (does not compress) or `json` (text of records with few distinct words, compresses about four times). */
void payload_init(const char *kind, size_t record_size);
/* The value of record `number`; valid for the life of the program. */
void *payload_of(uint64_t number);

#endif
