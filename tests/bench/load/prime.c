/* prime MIB: touches so much memory and gives it back. A virtual machine whose free memory goes back to its host pays 1 to 2 CPU
 * seconds per GB for the first touch of a page that the host has taken; what was touched a moment ago costs a fifth of that. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
  long mib = argc > 1 ? atol(argv[1]) : 0;
  if (mib <= 0) die("usage: prime MIB");
  size_t length = (size_t)mib << 20;
  char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("no memory");
  /* Huge pages come from the large free blocks, which are the ones that are given to the host. Without them it works less well. */
  madvise(memory, length, MADV_HUGEPAGE);
  double cpu = cpu_s();
  for (size_t at = 0; at < length; at += 4096) memory[at] = 1;
  printf("{\"cpu_s_per_gb\":%.4f}\n", (cpu_s() - cpu) / ((double)length / 1e9));
  return 0;
}
