/* floor MODE …: the least that any broker must do with the same bytes, over loopback on this machine; prints CPU seconds per GB of
 * the process that plays the broker, and its speed. The other end is a child process, whose CPU time is not counted.
 *   receive  read pieces from a socket, CRC-32C, write them to a file  (--file PATH; --prealloc 1: blocks reserved by fallocate)
 *   memory   send the same pieces from memory to a socket
 *   sendfile send a file (--file PATH) from the page cache to a socket
 *   --bytes N --piece BYTES */
#define _GNU_SOURCE
#include "common.h"
#include "crc32c.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t piece;
static int64_t total;
static uint8_t *buffer;

static void check(int64_t result, const char *what) {
  if (result < 0) die("%s: %s", what, strerror(errno));
}

/* The child: sends or receives `total` bytes and ends. */
static void peer(uint16_t port, int sends) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int s = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(s, (struct sockaddr *)&address, sizeof address), "connect");
  size_t size = 1 << 20;
  uint8_t *bytes = malloc(size);
  if (!bytes) die("no memory");
  memset(bytes, 0x5A, size);
  for (int64_t left = total; left > 0;) {
    size_t next = left < (int64_t)size ? (size_t)left : size;
    ssize_t moved = sends ? send(s, bytes, next, 0) : recv(s, bytes, next, 0);
    if (moved == 0) break;
    check(moved, sends ? "send" : "recv");
    left -= moved;
  }
  if (sends) close(s);
  _exit(0);
}

static int connected_to_peer(int peer_sends) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  check(bind(listener, (struct sockaddr *)&address, length), "bind");
  check(listen(listener, 1), "listen");
  check(getsockname(listener, (struct sockaddr *)&address, &length), "getsockname");
  pid_t child = fork();
  check(child, "fork");
  if (child == 0) peer(ntohs(address.sin_port), peer_sends);
  int s = accept(listener, NULL, NULL);
  check(s, "accept");
  close(listener);
  /* As the broker does for connections within the machine: the least includes not to pace them. */
  check(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), "TCP_CONGESTION");
  return s;
}

/* Whole pieces only: what a read brings is added up first, as a broker does that waits for the end of a frame. */
static void receive(int s, int file) {
  static volatile uint32_t sum;
  for (int64_t left = total; left > 0;) {
    size_t want = left < (int64_t)piece ? (size_t)left : piece, have = 0;
    while (have < want) {
      ssize_t got = recv(s, buffer + have, want - have, 0);
      if (got <= 0) die("recv: %s", got ? strerror(errno) : "closed");
      have += (size_t)got;
    }
    sum ^= crc32c_work(buffer, have);
    if (file >= 0 && write(file, buffer, have) != (ssize_t)have) die("write: %s", strerror(errno));
    left -= (int64_t)have;
  }
}

static void serve_memory(int s) {
  for (int64_t left = total; left > 0;) {
    ssize_t sent = send(s, buffer, left < (int64_t)piece ? (size_t)left : piece, 0);
    check(sent, "send");
    left -= sent;
  }
}

static void serve_file(int s, int file, off_t size) {
  off_t at = 0;
  for (int64_t left = total; left > 0;) {
    if (at >= size) at = 0;
    size_t want = left < (int64_t)piece ? (size_t)left : piece;
    ssize_t sent = sendfile(s, file, &at, want);
    check(sent, "sendfile");
    left -= sent;
  }
}

/* A file in the page cache for serve_file. */
static off_t fill(int file) {
  off_t size = total < (256 << 20) ? (off_t)total : (256 << 20);
  for (off_t at = 0; at < size; at += (off_t)piece) check(write(file, buffer, piece), "write");
  return size;
}

int main(int argc, char **argv) {
  options_init(argc, argv);
  limit_seconds(option_number("limit", 120));
  const char *mode = argc > 1 ? argv[1] : "", *path = option("file", NULL);
  piece = (size_t)option_number("piece", 128 << 10);
  total = option_number("bytes", 1000000000);
  buffer = malloc(piece);
  if (!buffer || piece == 0 || total <= 0) die("--piece and --bytes must be positive");
  memset(buffer, 0xA5, piece);
  int receives = strcmp(mode, "receive") == 0, file = -1;
  if (path) check(file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), path);
  off_t size = strcmp(mode, "sendfile") == 0 && path ? fill(file) : 0;
  int s = connected_to_peer(receives);
  double cpu = cpu_s(), started = now_s();
  if (receives) {
    if (file >= 0 && option_number("prealloc", 0)) check(fallocate(file, FALLOC_FL_KEEP_SIZE, 0, total), "fallocate");
    receive(s, file);
  } else if (strcmp(mode, "memory") == 0) {
    serve_memory(s);
  } else if (size > 0) {
    serve_file(s, file, size);
  } else {
    die("usage: floor receive|memory|sendfile [--file PATH] [--bytes N] [--piece BYTES] [--prealloc 1]");
  }
  double spent = cpu_s() - cpu, took = now_s() - started;
  close(s);
  if (path) unlink(path);
  while (wait(NULL) > 0) continue;
  printf("{\"cpu_s_per_gb\":%.4f,\"mb_per_s\":%.1f}\n", spent / ((double)total / 1e9), (double)total / 1e6 / took);
  return 0;
}
