/*
 * Starts a program again and again and takes the time, as little in the way as can be: the measuring side of
 * bench/confine.ts. Prints the milliseconds of each round, or, with several lanes, of all together.
 *
 *   confine_rounds <rounds> <lanes> plain <program> <argument...>
 *   confine_rounds <rounds> <lanes> confined <helper> <file with a SPEC frame> <directory for sockets>
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void die(const char *what) {
  perror(what);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static pid_t start(char *const argv[]) {
  pid_t pid;
  if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0) die(argv[0]);
  return pid;
}

static void finish(pid_t pid, int must_succeed) {
  int status;
  if (waitpid(pid, &status, 0) != pid) die("waitpid");
  if (must_succeed && status != 0) {
    fprintf(stderr, "it failed: %x\n", status);
    exit(1);
  }
}

static void plain(char *const argv[]) { finish(start(argv), 1); }

static char spec[1 << 20];
static size_t spec_length;

static void confined(char *helper, const char *directory) {
  static int count;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s/%d-%d", directory, getpid(), count++);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 8) != 0) die("listen");
  char *argv[] = {helper, "run", address.sun_path, NULL};
  pid_t pid = start(argv);
  int control = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (control < 0) die("accept");
  close(listener);
  unlink(address.sun_path);
  if (write(control, spec, spec_length) != (ssize_t)spec_length) die("write");
  /* Frames until the one that says how it ended. */
  unsigned char bytes[4096];
  size_t have = 0, at = 0;
  for (;;) {
    ssize_t length = read(control, bytes + have, sizeof bytes - have);
    if (length <= 0) die("the helper hung up");
    have += (size_t)length;
    while (have - at >= 5 && have - at >= 5u + bytes[at]) {
      if (bytes[at + 4] == 4) die("the helper failed");
      if (bytes[at + 4] == 5) {
        if (bytes[at + 5] != 0 || bytes[at + 6] != 0) die("the command failed");
        close(control);
        finish(pid, 0);
        return;
      }
      at += 5u + bytes[at];
    }
  }
}

static void round_of(char **argv) {
  if (strcmp(argv[0], "plain") == 0) plain(argv + 1);
  else confined(argv[1], argv[3]);
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  int rounds = atoi(argv[1]), lanes = atoi(argv[2]);
  char **what = argv + 3;
  if (strcmp(what[0], "confined") == 0) {
    int file = open(what[2], O_RDONLY | O_CLOEXEC);
    ssize_t length = read(file, spec, sizeof spec);
    if (length <= 0) die("spec");
    spec_length = (size_t)length;
    close(file);
  }
  if (lanes == 1) {
    for (int i = 0; i < rounds; i++) {
      double begun = now();
      round_of(what);
      printf("%.4f\n", now() - begun);
    }
    return 0;
  }
  double begun = now();
  for (int lane = 0; lane < lanes; lane++) {
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid > 0) continue;
    for (int i = lane; i < rounds; i += lanes) round_of(what);
    _exit(0);
  }
  for (int lane = 0; lane < lanes; lane++) {
    int status;
    if (wait(&status) < 0 || status != 0) return 1;
  }
  printf("%.4f\n", now() - begun);
  return 0;
}
