/* What the load programs share: options of the form `--name value`, clocks, CPU time, and dying loudly. */
#ifndef STRANDLINE_BENCH_COMMON_H
#define STRANDLINE_BENCH_COMMON_H

#include <stdint.h>

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Options are looked up in argv each time; there are few. */
void options_init(int argc, char **argv);
const char *option(const char *name, const char *otherwise);
int64_t option_number(const char *name, int64_t otherwise);
/* The next `--property key=value` after *at (start with 0), or NULL. */
const char *option_property(int *at);

double now_s(void);      /* monotonic seconds */
double cpu_s(void);      /* user and system seconds of this process, all threads */
void sleep_until(double monotonic_s);

/* A time limit for the whole program: it ends with an error when it is over. */
void limit_seconds(int64_t seconds);

#endif
