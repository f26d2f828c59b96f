/* Options, clocks and errors of the load programs. */
#include "common.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int count;
static char **words;

void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

void options_init(int argc, char **argv) {
  count = argc;
  words = argv;
}

const char *option(const char *name, const char *otherwise) {
  for (int i = 1; i + 1 < count; i++)
    if (strncmp(words[i], "--", 2) == 0 && strcmp(words[i] + 2, name) == 0) return words[i + 1];
  return otherwise;
}

int64_t option_number(const char *name, int64_t otherwise) {
  const char *text = option(name, NULL);
  if (!text) return otherwise;
  char *end;
  errno = 0;
  int64_t value = strtoll(text, &end, 10);
  if (errno || *end || end == text) die("--%s %s: not a number", name, text);
  return value;
}

const char *option_property(int *at) {
  for (int i = *at ? *at : 1; i + 1 < count; i++)
    if (strcmp(words[i], "--property") == 0) {
      *at = i + 2;
      return words[i + 1];
    }
  return NULL;
}

double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void sleep_until(double monotonic_s) {
  struct timespec t = {.tv_sec = (time_t)monotonic_s, .tv_nsec = (long)((monotonic_s - (double)(time_t)monotonic_s) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

static void too_late(int signal_number) {
  (void)signal_number;
  static const char text[] = "the time limit is over\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(3);
  _exit(3);
}

void limit_seconds(int64_t seconds) {
  signal(SIGALRM, too_late);
  alarm((unsigned)seconds);
}
