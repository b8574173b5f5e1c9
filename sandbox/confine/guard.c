/*
 * guard: starts one program so that it, and all it started, ends when the one who asked for it is gone, and puts walls
 * around it as far as the kernel offers them (spec containment 19.12).
 *
 *   mur-confine guard [option...] -- /absolute/program [argument...]
 *
 *   --profile NAME     component-host: every wall below that the kernel grants
 *   --rx PATH          the walls leave PATH readable and executable; likewise the program itself
 *   --r PATH           the walls leave PATH readable, a directory with all below it
 *   --memory N         a process with more than N bytes resident is killed
 *
 * The program reads this standard input; H watches it for hang-up and never reads it: its end means that the runtime is
 * gone, and everything is killed.
 *
 * Signals: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go on to the program's group.
 *
 * Processes: H, this one, watches. Where the kernel grants a PID namespace, I is its init and C, the program, I's
 * child; elsewhere C is H's child. C's end ends everything, and H ends the way C did. When H itself is killed, I (with
 * all of its namespace) or C follows by its death signal.
 *
 * Environment and working directory are the caller's to set. Nothing here reads configuration, resolves a name or looks
 * at the environment.
 */
#include "confine.h"
#include <sys/signalfd.h>

/* Sent to H by the kernel when the thread that started it ends. Above the numbers libc keeps for itself. */
#define SIGNAL_PARENT_GONE 50

enum { MAX_RULES = 512 };

struct rule {
  const char *path;
  int execute;
};

static struct {
  int host_profile;
  struct watched watched;
  struct rule rules[MAX_RULES];
  int rule_count;
  char **argv;
} options;

static _Noreturn void usage(const char *what) {
  char line[256];
  static const char usage_line[] = "usage: mur-confine guard [option...] -- /absolute/program [argument...]";
  snprintf(line, sizeof line, "mur-confine: %s\n%s\n", what, usage_line);
  say(line);
  _exit(2);
}

/* ------------------------------------------------------------------------------------------------------ options --- */

static unsigned long long number(const char *text) {
  unsigned long long value;
  if (parse_number(text, &value) != 0) usage("a number is malformed");
  return value;
}

static void add_rule_option(const char *path, int execute) {
  if (path[0] != '/') usage("a path is not absolute");
  if (options.rule_count == MAX_RULES) usage("too many paths");
  options.rules[options.rule_count++] = (struct rule){path, execute};
}

static void read_options(int argc, char **argv) {
  int at = 2;
  for (; at < argc && strcmp(argv[at], "--") != 0; at += 2) {
    if (at + 1 >= argc) usage("an option lacks its value");
    const char *name = argv[at], *value = argv[at + 1];
    if (strcmp(name, "--profile") == 0) {
      if (strcmp(value, "component-host") != 0) usage("an unknown profile");
      options.host_profile = 1;
    } else if (strcmp(name, "--rx") == 0) {
      add_rule_option(value, 1);
    } else if (strcmp(name, "--r") == 0) {
      add_rule_option(value, 0);
    } else if (strcmp(name, "--memory") == 0) {
      options.watched.memory_bytes = number(value);
    } else {
      usage("an unknown option");
    }
  }
  if (at >= argc - 1) usage("no program");
  options.argv = argv + at + 1;
  if (options.argv[0][0] != '/') usage("the program's path is not absolute");
}

/* -------------------------------------------------------------------------------------------------------- walls --- */

/*
 * Everything the kernel can forbid is forbidden, but reading and executing what was named. A path that is not there
 * needs no right; every other failure refuses the whole wall.
 */
static int enter_landlock(void) {
  int abi = landlock_abi(INT_MAX), opened;
  int ruleset = abi < 1 ? -1 : create_ruleset(abi, 1);
  if (ruleset < 0) return -1;
  int result = 0;
  for (int i = -1; result == 0 && i < options.rule_count; i++) {
    const struct rule rule = i < 0 ? (struct rule){options.argv[0], 1} : options.rules[i];
    result = grant_path(ruleset, rule.path, rights_of(rule.execute ? RIGHTS_RXL : RIGHTS_RL, abi), &opened);
    if (result != 0 && !opened && errno == ENOENT) result = 0;
  }
  if (result == 0) result = enter_ruleset(ruleset);
  close(ruleset);
  return result;
}

static int enter_host_filter(void) {
  struct filter filter;
  build_filter(&filter, &(struct filter_options){.kind = FILTER_HOST, .sampled_memory = 1});
  return enter_filter(&filter);
}

/* --------------------------------------------------------------------------------------------------- C, program --- */

static const char *const wall_names[] = {"pid-namespace", "network-namespace", "read-only-mounts", "capabilities",
                                         "no-new-privileges", "landlock", "seccomp"};
enum { WALL_PID, WALL_NETWORK, WALL_MOUNTS, WALL_CAPABILITIES, WALL_PRIVILEGES, WALL_LANDLOCK, WALL_SECCOMP, WALLS };

static int walls[WALLS];

/* `mur-confine: walls: a b c`: the first line of standard error under a profile, before the program writes anything. */
static void say_walls(void) {
  char line[256] = "mur-confine: walls:";
  for (int i = 0; i < WALLS; i++) {
    if (!walls[i]) continue;
    strcat(line, " ");
    strcat(line, wall_names[i]);
  }
  strcat(line, "\n");
  say(line);
}

/* What a failed start tells H: stage and error number. */
static _Noreturn void report_failure(int fd, const char *stage) {
  struct failure failure;
  describe(&failure, stage, errno, "", NULL);
  ssize_t ignored = write(fd, &failure, sizeof failure);
  (void)ignored;
  _exit(EXIT_EXEC);
}

/* From fork to exec. `parent` is the process that must still be there; 0 where its number can't be seen from here. */
static _Noreturn void become_program(int failure_fd, pid_t parent) {
  /* H's or I's end is the program's end; then make sure it has not come already. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) report_failure(failure_fd, "death-signal");
  if (parent != 0 && getppid() != parent) _exit(EXIT_SETUP);
  reset_signals();
  /* Its own session: no controlling terminal, and a group that can be signalled as one. */
  if (setsid() < 0) report_failure(failure_fd, "session");
  if (lower_limit(RLIMIT_CORE, NO_CORE) != 0) report_failure(failure_fd, "rlimit");
  /* A kernel without the call: what is open here was opened to be closed by exec, and H closed the rest. */
  if (close_on_exec() != 0 && errno != ENOSYS) report_failure(failure_fd, "fds");
  if (options.host_profile) {
    walls[WALL_CAPABILITIES] = drop_capabilities() == 0;
    walls[WALL_PRIVILEGES] = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    /* Both need no_new_privs. */
    if (walls[WALL_PRIVILEGES]) walls[WALL_LANDLOCK] = enter_landlock() == 0;
    if (walls[WALL_PRIVILEGES]) walls[WALL_SECCOMP] = enter_host_filter() == 0;
    say_walls();
  }
  execv(options.argv[0], options.argv);
  report_failure(failure_fd, "exec");
}

/* ------------------------------------------------------------------------------------------------------ I, init --- */

/*
 * First process of its PID namespace: starts C, reaps whatever is left to it, tells H how C ended and ends, whereupon
 * the kernel kills what is left. As a first process it takes no signal but SIGKILL from outside.
 */
static _Noreturn void be_init(int go_fd, int failure_fd, int ending_fd, int with_mounts) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) report_failure(failure_fd, "death-signal");
  char go;
  if (read(go_fd, &go, 1) != 1) _exit(EXIT_SETUP);
  /* H may have ended before the death signal was asked for. It holds the other end of this pipe as long as it lives. */
  struct pollfd life = {go_fd, 0, 0};
  if (poll(&life, 1, 0) != 0) _exit(EXIT_SETUP);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  close(go_fd);
  if (with_mounts) walls[WALL_MOUNTS] = make_mounts_read_only() == 0;
  pid_t child = fork();
  if (child < 0) report_failure(failure_fd, "fork");
  if (child == 0) {
    close(ending_fd);
    become_program(failure_fd, 0); /* I's end ends the namespace */
  }
  /* H must see the end of these pipes when C closes them. */
  close(failure_fd);
  for (int fd = 0; fd <= 2; fd++) close(fd);
  drop_capabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  for (;;) {
    int status;
    pid_t ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) _exit(EXIT_SETUP);
    if (ended != child) continue;
    ssize_t ignored = write(ending_fd, &status, sizeof status);
    (void)ignored;
    _exit(0);
  }
}

/* --------------------------------------------------------------------------------------------------- H, watcher --- */

static struct {
  pid_t parent;
  /* H's own child: I where there is a PID namespace, else C. */
  pid_t child;
  /* C as H sees it; its number is that of its group too. 0 while unknown. */
  pid_t program;
  int has_init;
  int ending_fd;
} watch;

static struct {
  /* Name of the limit that something was killed for. */
  const char *exceeded;
  unsigned long long next_ms;
} sampling;

/*
 * Kills everything below H and waits until it is gone. A namespace dies with its init. Elsewhere the group goes at
 * once; what left the group falls to H, the subreaper, as its parents die, and is killed then. What hangs in the kernel
 * is waited for up to ten seconds.
 */
static void kill_everything(void) {
  /* 0 would be H's own group. */
  if (!watch.has_init && watch.program > 0) kill(-watch.program, SIGKILL);
  if (watch.child > 0) kill(watch.child, SIGKILL);
  watch.child = watch.program = 0;
  kill_below();
}

/* Ends the way the program ended. */
static _Noreturn void end_like(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(signal_number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal_number);
  kill(getpid(), signal_number);
  sigprocmask(SIG_UNBLOCK, &only, NULL);
  _exit(128 + signal_number);
}

static _Noreturn void end_killed(void) {
  kill_everything();
  end_like(SIGKILL);
}

static void signal_program(int signal_number) {
  if (watch.program > 0) kill(-watch.program, signal_number);
}

/* Standard error ends with a line for the runtime, after everything else is silent. */
static void say_exceeded(const char *limit) {
  if (limit == NULL) return;
  char line[64];
  snprintf(line, sizeof line, "mur-confine: limit: %s\n", limit);
  say(line);
}

/* Takes ended children. Never returns when the program was among them. */
static void reap(void) {
  for (;;) {
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    int is_child = info.si_pid == watch.child;
    /* While it is not taken its number, which is its group's, can't be another's. */
    if (is_child && !watch.has_init) kill(-watch.program, SIGKILL);
    int status;
    if (waitpid(info.si_pid, &status, 0) < 0) return;
    if (!is_child) continue;
    watch.child = watch.program = 0;
    if (watch.has_init) {
      int of_program;
      /* Without a word about the program the namespace was killed as a whole. */
      status = read(watch.ending_fd, &of_program, sizeof of_program) == sizeof of_program ? of_program : SIGKILL;
    }
    /* What it left behind ends with it. */
    kill_everything();
    say_exceeded(sampling.exceeded);
    end_like(status);
  }
}

static void sample(void) {
  int all;
  /* Init is no process of the program's. */
  const char *exceeded = sample_tree(&options.watched, watch.has_init ? watch.child : getpid(), &all);
  if (exceeded != NULL) sampling.exceeded = exceeded;
}

static _Noreturn void watch_program(int signal_fd) {
  for (;;) {
    /* The input belongs to the program: hang-up is reported without asking for anything. */
    struct pollfd polled[2] = {{signal_fd, POLLIN, 0}, {0, 0, 0}};
    int ready = poll(polled, 2, is_watched(&options.watched) ? SAMPLE_MS : -1);
    if (ready < 0 && errno != EINTR) end_killed();
    /* By the clock: a program that keeps H busy must not escape it. */
    if (is_watched(&options.watched) && now_ms() >= sampling.next_ms) {
      sample();
      sampling.next_ms = now_ms() + SAMPLE_MS;
    }
    if (ready <= 0) continue;
    if (polled[1].revents & (POLLHUP | POLLERR | POLLNVAL)) end_killed();
    if (!(polled[0].revents & POLLIN)) continue;
    struct signalfd_siginfo info;
    while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
      int signal_number = (int)info.ssi_signo;
      if (signal_number == SIGCHLD) continue;
      if (signal_number == SIGNAL_PARENT_GONE) {
        /* It speaks of a thread; only the process counts. */
        if (getppid() != watch.parent) end_killed();
        continue;
      }
      signal_program(signal_number);
    }
    reap();
  }
}

/* Starts I with as many namespaces as the kernel grants; -1 when it grants not even a PID namespace. */
static pid_t start_init(const int go[2], int failure_fd, int ending_fd) {
  static const int choices[][2] = {
      {CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS, 1},
      {CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS, 1},
      {CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET, 0},
      {CLONE_NEWUSER | CLONE_NEWPID, 0},
  };
  uid_t uid = geteuid();
  gid_t gid = getegid();
  for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    pid_t pid = (pid_t)syscall(SYS_clone, choices[i][0] | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
      close(go[1]);
      walls[WALL_PID] = 1;
      /* A fresh network namespace has a loopback that is down and nothing else. */
      walls[WALL_NETWORK] = (choices[i][0] & CLONE_NEWNET) != 0;
      be_init(go[0], failure_fd, ending_fd, choices[i][1]);
    }
    int mapped = pid > 0 && map_ids(pid, uid, gid) == 0;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (pid < 0) continue;
    if (mapped && write(go[1], "g", 1) == 1) return pid;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  return -1;
}

/* What an unprivileged process may ask for where nobody changed pipe-max-size. */
enum { HOST_PIPE_BYTES = 1 << 20 };

_Noreturn void guard(int argc, char **argv) {
  read_options(argc, argv);
  close_inherited();
  check_streams();
  /* Nobody else of this user attaches to H or reads its memory. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  signal(SIGPIPE, SIG_IGN);
  watch.parent = getppid();
  /* No part of the terminal's group: what is typed there is the runtime's to hear. Fails only for a group's leader. */
  setsid();
  /* What loses its parent below falls to H. */
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

  sigset_t caught;
  sigfillset(&caught);
  sigprocmask(SIG_SETMASK, &caught, NULL);
  sigset_t served;
  sigemptyset(&served);
  static const int heard[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof heard / sizeof heard[0]; i++) sigaddset(&served, heard[i]);
  sigaddset(&served, SIGCHLD);
  sigaddset(&served, SIGNAL_PARENT_GONE);
  int signal_fd = signalfd(-1, &served, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd < 0) fail("signals", errno);
  if (prctl(PR_SET_PDEATHSIG, SIGNAL_PARENT_GONE, 0, 0, 0) != 0) fail("death-signal", errno);

  int failure[2], go[2], ending[2];
  if (pipe2(failure, O_CLOEXEC) != 0 || pipe2(go, O_CLOEXEC) != 0 || pipe2(ending, O_CLOEXEC | O_NONBLOCK) != 0) {
    fail("pipe", errno);
  }
  pid_t self = getpid();
  if (options.host_profile) {
    /*
     * Code comes in megabytes, and the writer gets one turn of its event loop a fill: fewer, larger ones. Best effort.
     */
    for (int fd = 0; fd <= 1; fd++) (void)fcntl(fd, F_SETPIPE_SZ, HOST_PIPE_BYTES);
    watch.child = start_init(go, failure[1], ending[1]);
    watch.has_init = watch.child > 0;
  }
  if (!watch.has_init) {
    watch.child = fork();
    if (watch.child < 0) fail("fork", errno);
    if (watch.child == 0) become_program(failure[1], self);
    watch.program = watch.child;
  }
  watch.ending_fd = ending[0];
  close(failure[1]);
  close(go[0]);
  close(ending[1]);

  struct failure told;
  ssize_t length;
  do {
    length = read(failure[0], &told, sizeof told);
  } while (length < 0 && errno == EINTR);
  if (length == (ssize_t)sizeof told) {
    kill_everything();
    told.stage[sizeof told.stage - 1] = '\0';
    say_failure(told.stage, told.error);
    _exit(EXIT_EXEC);
  }
  close(failure[0]);
  if (watch.has_init && children_of(watch.child, &watch.program, 1) != 1) watch.program = 0;
  watch_program(signal_fd);
}
