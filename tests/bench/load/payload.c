/* The pool of record values. It is larger than the caches of a CPU, so that the client reads memory as a real one does. */
#include "payload.h"

#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 32 << 20 };

static uint8_t *pool;
static size_t size, windows;
static uint64_t state = 0x9E3779B97F4A7C15u;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void fill_random(void) {
  for (size_t at = 0; at + 8 <= POOL; at += 8) {
    uint64_t word = next_random();
    memcpy(pool + at, &word, 8);
  }
}

static void fill_json(void) {
  static const char *const carriers[] = {"UA", "AA", "B6", "DL", "EV", "MQ", "US", "WN", "VX", "FL", "AS", "9E", "F9", "HA", "YV", "OO"};
  static const char *const places[] = {"EWR", "JFK", "LGA", "ATL", "ORD", "LAX", "BOS", "MCO", "CLT", "SFO", "FLL", "MIA", "DCA", "DTW", "DFW", "RDU"};
  size_t at = 0;
  while (at < POOL) {
    uint64_t r = next_random();
    char line[256];
    int length = snprintf(line, sizeof line,
                          "{\"time_hour\":\"2013-%02d-%02dT%02d:00:00Z\",\"carrier\":\"%s\",\"flight\":%d,\"tailnum\":\"N%05d\",\"origin\":\"%s\","
                          "\"dest\":\"%s\",\"dep_delay\":%d,\"arr_delay\":%d,\"air_time\":%d,\"distance\":%d}\n",
                          (int)(r % 12) + 1, (int)(r >> 4) % 28 + 1, (int)(r >> 9 & 15) + 5, carriers[r >> 14 & 15], (int)(r >> 18 & 4095),
                          (int)(r >> 30 & 65535), places[(r >> 46) % 3], places[r >> 48 & 15], (int)(r >> 52 & 63) - 10,
                          (int)(r >> 54 & 127) - 20, (int)(r >> 56 & 255) + 40, (int)(r >> 48 & 2047) + 90);
    size_t room = POOL - at;
    size_t part = (size_t)length < room ? (size_t)length : room;
    memcpy(pool + at, line, part);
    at += part;
  }
}

void payload_init(const char *kind, size_t record_size) {
  if (record_size == 0 || record_size > POOL / 2) die("--size %zu: allowed are 1 to %d", record_size, POOL / 2);
  pool = malloc(POOL);
  if (!pool) die("no memory for the payload");
  size = record_size;
  windows = POOL / record_size;
  if (strcmp(kind, "random") == 0)
    fill_random();
  else if (strcmp(kind, "json") == 0)
    fill_json();
  else
    die("--payload %s: allowed are random and json", kind);
}

void *payload_of(uint64_t number) { return pool + number % windows * size; }
