/*
 * Fills memory that none of its processes is seen to have, so much at most, and says how much it got: a line with MiB.
 *
 *   memory_attack files <MiB>     in memory files, which are written and not mapped
 *   memory_attack shares <MiB>    in System V shares, which are let go of once they are full
 *   memory_attack plain <MiB>     in its own pages: what every way of counting sees
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static char full[MIB];

static int fill_file(void) {
  static int file = -1;
  /* One that may not be executed. */
  if (file < 0) file = (int)syscall(SYS_memfd_create, "x", 8);
  return file >= 0 && write(file, full, MIB) == MIB;
}

static int fill_share(void) {
  int share = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
  char *at = share < 0 ? (char *)-1 : shmat(share, NULL, 0);
  if (at == (char *)-1) return 0;
  memset(at, 1, MIB);
  return shmdt(at) == 0;
}

static int fill_own(void) {
  /* Where the compiler can't see that nobody reads it. */
  static char *volatile last;
  last = malloc(MIB);
  if (last != NULL) memset(last, 1, MIB);
  return last != NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int (*fill)(void) = strcmp(argv[1], "files") == 0 ? fill_file : strcmp(argv[1], "shares") == 0 ? fill_share : fill_own;
  int filled = 0;
  memset(full, 1, sizeof full);
  while (filled < atoi(argv[2]) && fill()) filled++;
  /* Whoever looks four times a second has looked. */
  nanosleep(&(struct timespec){0, 700000000}, NULL);
  printf("%d\n", filled);
  /* A share outlives who made it, but not the namespace; without one it must go here. */
  for (int id = 0; strcmp(argv[1], "shares") == 0 && id < 4096; id++) {
    struct shmid_ds state;
    int share = shmctl(id, SHM_STAT, &state);
    if (share >= 0 && state.shm_cpid == getpid()) shmctl(share, IPC_RMID, NULL);
  }
  return 0;
}
