/*
 * init: stands in for a program that is the first process of its PID namespace, as in a container.
 *
 *   mur-confine init /absolute/program name [argument...]
 *
 * Whatever loses its parent there becomes the child of the first process, and stays a zombie until that reaps it; and a
 * signal the first process does not handle does nothing to it, so that neither Ctrl-C nor `docker stop` would end it. The
 * program runs as a child of this process, which stays the first: it reaps, hands on the signals it gets, and ends as the
 * program did, with which the kernel ends all that is left.
 *
 * Environment, working directory and descriptors go to the program as they are.
 */
#include "confine.h"

/* Reaps all that has ended; the program's end is this process's. */
static void reap_ended(pid_t program) {
  pid_t ended;
  int status;
  while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
    if (ended != program) continue;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

_Noreturn void stand_first(char **argv) {
  /* The environment holds what no other process of this user is to read. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (argv[2][0] != '/') {
    say("mur-confine: a path is not absolute\n");
    _exit(EXIT_USAGE);
  }
  /* Only a blocked signal is kept for a first process that does not handle it. */
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  pid_t program = fork();
  if (program < 0) fail("fork", errno);
  if (program == 0) {
    /* What is typed at a terminal, or sent to a whole group, is to reach it once: from here alone, or without. */
    setpgid(0, 0);
    (void)tcsetpgrp(STDIN_FILENO, getpid());
    reset_signals();
    execv(argv[2], argv + 3);
    say_failure("exec", errno);
    _exit(EXIT_EXEC);
  }
  for (;;) {
    int number = sigwaitinfo(&all, NULL);
    if (number == SIGCHLD) reap_ended(program);
    else if (number > 0) kill(program, number);
  }
}
