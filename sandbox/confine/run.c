/*
 * run: one command behind its walls (spec containment 19.4 to 19.6).
 *
 *   mur-confine run <control socket>
 *
 * Standard streams, environment and working directory are the command's own, set by the caller. Three processes:
 *
 *   H  this one, in the host's PID namespace: the control connection, sampling, killing.
 *   I  init of the command's PID namespace, H's child: the tree of files; starts C, reaps, tells how C ended. Never
 *      execs.
 *   C  the command: gives up everything, then execs.
 *
 * C's end ends I, and the kernel then kills whatever C left behind. H's end kills I by its death signal. So nothing of
 * a command outlives it, and no command outlives H.
 *
 * The file reads in the order things happen: H until it clones I, I until it forks C, C until exec, then H again.
 */
#include "confine.h"
#include <sys/file.h>
#include <sys/socket.h>

enum { MAX_CGROUPS = 16, MAX_HELD = 256 };

/* What H prepares for I and C. */
static struct {
  struct spec spec;
  int control;
  /* -1 where the tier has no Landlock. */
  int ruleset;
  struct filter filter;
  int cgroups[MAX_CGROUPS];
  size_t cgroup_count;
  int held[MAX_HELD];
  size_t held_count;
  int joined;
  /* Packets: a greeting from C, a failure from I or C. Its end without a failure is a successful exec. */
  int status[2];
  /* How C ended. */
  int ending[2];
  /* Nothing is sent. H holds one end as long as it lives, and I looks whether it still does. */
  int life[2];
} start;

/* How C ended, as I tells H. */
struct ending {
  int by_signal;
  int value;
};

static _Noreturn void refuse(const char *stage, int error, const char *step, const char *path) {
  struct failure failure;
  describe(&failure, stage, error, step, path);
  send_failure(start.control, &failure);
  _exit(EXIT_SETUP);
}

/* ------------------------------------------------------------------------------- H: what needs no namespace yet --- */

/*
 * The ruleset is made here, of the host's paths, before anything is mounted: a rule is on an inode and goes on working
 * wherever that is bound, and no descriptor has to be kept for it.
 */
static void prepare_ruleset(void) {
  const struct spec *spec = &start.spec;
  start.ruleset = -1;
  if (spec->tier != TIER_SEALED && spec->tier != TIER_FULL) return;
  int abi = landlock_abi(spec->abi_limit);
  if (abi < 1) refuse("landlock", ENOSYS, "version", NULL);
  start.ruleset = create_ruleset(abi, 0);
  if (start.ruleset < 0) refuse("landlock", errno, "create", NULL);
  for (size_t i = 0; i < spec->count; i++) {
    const struct record *record = &spec->records[i];
    if (record->operation != OP_RULE) continue;
    int opened;
    if (grant_path(start.ruleset, record->text[2], rights_of((enum right_set)record->value[0], abi), &opened) == 0) {
      continue;
    }
    if (opened) refuse("landlock", errno, "rule", record->text[2]);
    if (record->value[1] == REQUIRED) refuse("open-rules", errno, "open", record->text[2]);
  }
}

/* Opened outside: the right to write is judged by who opened it. */
static void open_cgroups(void) {
  for (size_t i = 0; i < start.spec.count; i++) {
    const struct record *record = &start.spec.records[i];
    if (record->operation != OP_CGROUP) continue;
    if (start.cgroup_count == MAX_CGROUPS) refuse("spec", E2BIG, "cgroup", record->text[0]);
    int fd = open(record->text[0], O_WRONLY | O_CLOEXEC);
    if (fd < 0) refuse("cgroup", errno, "open", record->text[0]);
    start.cgroups[start.cgroup_count++] = fd;
  }
}

/*
 * What keeps a trusted name taken must stay for as long as the command may take it, also when the session is over: nobody
 * removes one that somebody holds.
 */
static void hold_placeholders(void) {
  for (size_t i = 0; i < start.spec.count; i++) {
    const struct record *record = &start.spec.records[i];
    if (record->operation != OP_HOLD) continue;
    const char *path = record->text[0];
    if (start.held_count == MAX_HELD) refuse("spec", E2BIG, "hold", path);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) refuse("open-rules", errno, "hold", path);
    /* The runtime holds it in the same way, so that nobody can have it alone. */
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) refuse("open-rules", errno, "hold", path);
    start.held[start.held_count++] = fd;
  }
}

static void release_placeholders(void) {
  while (start.held_count > 0) close(start.held[--start.held_count]);
}

/*
 * Without Landlock's right to truncate the filter has to refuse what needs no right to write. Memory files, namespaces,
 * sockets: see there.
 */
static void prepare_filter(void) {
  struct filter_options options = {.kind = FILTER_COMMAND, .unix_sockets = start.spec.unix_sockets};
  options.sampled_memory = start.spec.watched.tree_memory_bytes > 0;
  options.refuse_truncation = start.ruleset < 0 || landlock_abi(start.spec.abi_limit) < 3;
  build_filter(&start.filter, &options);
}

/* Before any user namespace: the value also bounds what the namespace as a whole may have of this user. */
static void limit_processes(void) {
  for (size_t i = 0; i < start.spec.count; i++) {
    const struct record *record = &start.spec.records[i];
    if (record->operation != OP_RLIMIT || record->value[0] != RLIMIT_NPROC) continue;
    if (lower_limit(RLIMIT_NPROC, record->value[1]) != 0) refuse("rlimit", errno, record->text[0], NULL);
  }
}

/* --------------------------------------------------------------------------------------------------- H: network --- */

/* The session's network, 1; 0 when its keeper is gone. */
static int join_keeper(void) {
  const struct spec *spec = &start.spec;
  if (spec->keeper == 0) return 0;
  int keeper = (int)syscall(NR_pidfd_open, spec->keeper, 0);
  if (keeper < 0 && errno == ESRCH) return 0;
  if (keeper < 0) refuse("join", errno, "pidfd_open", NULL);
  /* The descriptor holds the process; now its number can't become another's unseen. */
  if (network_of(spec->keeper) != spec->keeper_network) {
    close(keeper);
    return 0;
  }
  /*
   * Both in one call: the network alone is refused to a user, and joining one after the other is refused where the
   * keeper's namespaces are nested.
   */
  if (setns(keeper, CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    if (errno != ESRCH) refuse("join", errno, "setns", NULL);
    close(keeper);
    return 0;
  }
  close(keeper);
  if (network_of(0) != spec->keeper_network) refuse("join", ESTALE, "verify", NULL);
  return 1;
}

static void enter_network(void) {
  start.joined = join_keeper();
  if (start.joined) return;
  /* Alone: nothing listens, nothing leaves. */
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) refuse("netns", errno, "unshare", NULL);
  if (map_own_ids(start.spec.uid, start.spec.gid) != 0) refuse("netns", errno, "id maps", NULL);
  if (raise_loopback() != 0) refuse("netns", errno, "loopback", NULL);
}

/* ----------------------------------------------------------------------------------------------- C, the command --- */

static _Noreturn void report(const char *stage, const char *step) {
  struct failure failure;
  describe(&failure, stage, errno, step, NULL);
  ssize_t ignored = write(start.status[1], &failure, sizeof failure);
  (void)ignored;
  _exit(EXIT_EXEC);
}

static void set_limits(int last) {
  if (!last && lower_limit(RLIMIT_CORE, NO_CORE) != 0) report("rlimit", "core");
  for (size_t i = 0; i < start.spec.count; i++) {
    const struct record *record = &start.spec.records[i];
    if (record->operation != OP_RLIMIT || record->value[0] == RLIMIT_NPROC) continue;
    if ((record->value[0] == RLIMIT_NOFILE) != last) continue;
    if (lower_limit((int)record->value[0], record->value[1]) != 0) report("rlimit", record->text[0]);
  }
}

static _Noreturn void become_command(void) {
  const struct spec *spec = &start.spec;
  const int walls = spec->tier != TIER_ENV;
  /* I's end is C's end, also where no namespace sees to it. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) report("pidns", "death signal");
  /* The packet carries who sent it, and the kernel translates that to H's namespace. */
  if (write(start.status[1], "C", 1) != 1) report("pidns", "greeting");
  reset_signals();
  /* Its own session: no controlling terminal, and a group that can be signalled as one. */
  if (setsid() < 0) report("pidns", "setsid");
  set_limits(0);
  /* Anew, by path: what the caller's directory was may be covered, or outside the new root. */
  if (chdir(spec->cwd) != 0) report("mounts", "chdir");
  if (close_on_exec() != 0) report("fds", "close_range");
  if (walls) {
    /* While dropping from the bounding set is still allowed. */
    if (drop_capabilities() != 0) report("caps", "");
    /* Landlock and the filter both ask for it. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) report("nnp", "");
    if (start.ruleset >= 0 && enter_ruleset(start.ruleset) != 0) report("landlock", "restrict");
  }
  /* Late, so that a tight one does not break what comes before. */
  set_limits(1);
  /* Last: from here on this process needs write, execve and exit_group alone. */
  if (walls && enter_filter(&start.filter) != 0) report("seccomp", "");
  execv(spec->program, spec->argv);
  report("exec", "");
}

/* -------------------------------------------------------------------------------------------------- I, the init --- */

static _Noreturn void wait_for_command(pid_t command) {
  for (;;) {
    siginfo_t info;
    info.si_pid = 0;
    /* C is not taken: as long as it is not, its number is no other's, and H may signal its group. */
    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      _exit(EXIT_SETUP);
    }
    if (info.si_pid != command) {
      waitpid(info.si_pid, NULL, 0);
      continue;
    }
    struct ending ending = {info.si_code != CLD_EXITED, info.si_status};
    if (!start.spec.pid_namespace) {
      /* Without a namespace that dies with I: the group, then what was left to I, its subreaper. */
      kill(-command, SIGKILL);
      kill_below();
    }
    ssize_t ignored = write(start.ending[1], &ending, sizeof ending);
    (void)ignored;
    _exit(0);
  }
}

static _Noreturn void be_init(void) {
  const struct spec *spec = &start.spec;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) report("pidns", "death signal");
  close(start.life[1]);
  /* The connection is H's alone: its end must be seen when H ends. So is what H holds. */
  close(start.control);
  release_placeholders();
  /* H may have ended before the death signal was asked for. */
  struct pollfd life = {start.life[0], 0, 0};
  if (poll(&life, 1, 0) != 0) _exit(EXIT_SETUP);
  close(start.life[0]);
  /* By itself: waiting for H to do it would cost a turn of both. */
  if (spec->tier != TIER_ENV && map_own_ids(spec->uid, spec->gid) != 0) report("pidns", "id maps");
  if (!spec->pid_namespace) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  /* Before C exists, so that all of the tree is inside from its first moment. 0 is who writes. */
  for (size_t i = 0; i < start.cgroup_count; i++) {
    if (write(start.cgroups[i], "0", 1) != 1) report("cgroup", "join");
    close(start.cgroups[i]);
  }
  if (spec->mount_namespace) {
    struct failure failure;
    if (enter_tree(spec, &failure) != 0) {
      ssize_t ignored = write(start.status[1], &failure, sizeof failure);
      (void)ignored;
      _exit(EXIT_SETUP);
    }
  }
  pid_t command = fork();
  if (command < 0) report("pidns", "fork");
  if (command == 0) become_command();
  /* H must see the ends of these when C's are closed. */
  close(start.status[1]);
  if (start.ruleset >= 0) close(start.ruleset);
  for (int fd = 0; fd <= 2; fd++) close(fd);
  if (spec->tier != TIER_ENV) {
    /* I is all that stands between the command and the namespace's end: it keeps what it needs for waiting. */
    clear_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && spec->pid_namespace) {
      build_filter(&start.filter, &(struct filter_options){.kind = FILTER_INIT});
      enter_filter(&start.filter);
    }
  }
  wait_for_command(command);
}

/* --------------------------------------------------------------------------------------------------- H, serving --- */

static struct {
  pid_t init;
  int init_fd;
  /* C as H sees it, its group's number too; 0 while unknown. */
  pid_t command;
  int released;
  const char *exceeded;
  unsigned long long next_sample_ms;
  /* Read ends of the command's output, for when the runtime that reads it is gone in order. */
  int drains[2];
  unsigned char inbox[64];
  size_t inbox_length;
} serving;

static void start_init(void) {
  const struct spec *spec = &start.spec;
  const int namespaces = (spec->tier == TIER_ENV ? 0 : CLONE_NEWUSER) | (spec->pid_namespace ? OWN_PROCESSES : 0) |
                         (spec->mount_namespace ? CLONE_NEWNS : 0);
  pid_t pid = (pid_t)syscall(SYS_clone, namespaces | CLONE_PIDFD | SIGCHLD, 0, &serving.init_fd, 0, 0);
  if (pid == 0) be_init();
  if (pid < 0) refuse("pidns", errno, "clone", NULL);
  serving.init = pid;
  close(start.life[0]);
}

/* Output that nobody reads any more must not end a released command: H holds read ends, and drains them then. */
static int reopen_for_reading(int fd) {
  char path[32];
  struct stat stat;
  if (fstat(fd, &stat) != 0 || !S_ISFIFO(stat.st_mode)) return -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Whatever there is of the command goes. Without a namespace what it left behind falls to H, its subreaper. */
static void kill_command(void) {
  if (!start.spec.pid_namespace && serving.command > 0) kill(-serving.command, SIGKILL);
  kill(serving.init, SIGKILL);
}

static _Noreturn void end_now(void) {
  kill_command();
  if (!start.spec.pid_namespace) kill_below();
  _exit(0);
}

static void put_number(unsigned char **at, unsigned long long value, int bytes) {
  for (int i = 0; i < bytes; i++) *(*at)++ = (unsigned char)(value >> 8 * i & 0xff);
}

static unsigned long long microseconds(struct timeval time) {
  return (unsigned long long)time.tv_sec * 1000000 + (unsigned long long)time.tv_usec;
}

/* I has ended, and with it everything in its namespace: there is nothing left to watch. */
static _Noreturn void report_end(void) {
  int status;
  struct rusage usage;
  if (wait4(serving.init, &status, 0, &usage) != serving.init) end_now();
  if (!start.spec.pid_namespace) kill_below();
  struct ending ending;
  if (read(start.ending[0], &ending, sizeof ending) != (ssize_t)sizeof ending) {
    /* It was killed, by H or by the kernel, and all of the namespace with it. */
    ending = (struct ending){1, SIGKILL};
  }
  /* Before the runtime hears of the end, and may want to remove them. */
  release_placeholders();
  unsigned char payload[96], *at = payload;
  put_number(&at, (unsigned)ending.by_signal, 1);
  put_number(&at, (unsigned)ending.value, 4);
  put_number(&at, microseconds(usage.ru_utime), 8);
  put_number(&at, microseconds(usage.ru_stime), 8);
  put_number(&at, (unsigned long long)usage.ru_maxrss * 1024, 8);
  const char *limit = serving.exceeded == NULL ? "" : serving.exceeded;
  memcpy(at, limit, strlen(limit) + 1);
  at += strlen(limit) + 1;
  send_frame(start.control, FRAME_EXITED, payload, (size_t)(at - payload));
  _exit(0);
}

static void obey(enum frame_type type, const unsigned char *payload, size_t length) {
  switch (type) {
    case FRAME_SIGNAL:
      if (length != 1 || payload[0] < 1 || payload[0] > 64) end_now();
      /* C is taken by nobody before I's end, so the number is still its group's. */
      if (serving.command > 0) kill(-serving.command, payload[0]);
      return;
    case FRAME_KILL:
      kill_command();
      return;
    case FRAME_RELEASE:
      serving.released = 1;
      return;
    default:
      /* STOP, or a word nobody knows: the connection can't be trusted any more. */
      end_now();
  }
}

static void read_control(void) {
  ssize_t length = recv(start.control, serving.inbox + serving.inbox_length,
                        sizeof serving.inbox - serving.inbox_length, MSG_DONTWAIT);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) {
    if (!serving.released) end_now();
    close(start.control);
    start.control = -1;
    return;
  }
  serving.inbox_length += (size_t)length;
  size_t at = 0;
  while (serving.inbox_length - at >= FRAME_HEADER) {
    const unsigned char *frame = serving.inbox + at;
    size_t size = frame[0];
    if (size > sizeof serving.inbox - FRAME_HEADER || frame[1] != 0 || frame[2] != 0 || frame[3] != 0) end_now();
    if (serving.inbox_length - at < FRAME_HEADER + size) break;
    obey((enum frame_type)frame[4], frame + FRAME_HEADER, size);
    at += FRAME_HEADER + size;
  }
  serving.inbox_length -= at;
  memmove(serving.inbox, serving.inbox + at, serving.inbox_length);
}

/* Reads what I and C have to say until C execs. All of it at once: a greeting alone is nothing to wake up for. */
static void await_exec(void) {
  struct failure failure;
  for (;;) {
    struct pollfd polled[] = {{start.status[0], 0, 0}, {start.control, POLLIN, 0}};
    if (poll(polled, LENGTH_OF(polled), -1) < 0) continue;
    if (polled[0].revents != 0) break;
    /* A mount may take its time, and the runtime may end meanwhile. */
    if (polled[1].revents != 0) read_control();
  }
  for (;;) {
    char control_data[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec vector = {&failure, sizeof failure};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control_data,
                             .msg_controllen = sizeof control_data};
    ssize_t length = recvmsg(start.status[0], &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && errno == EINTR) continue;
    if (length == 1) {
      const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
      if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
        struct ucred sender;
        memcpy(&sender, CMSG_DATA(header), sizeof sender);
        serving.command = sender.pid;
      }
      continue;
    }
    if (length == 0 && serving.command > 0) break;
    if (length != (ssize_t)sizeof failure) describe(&failure, "pidns", ECHILD, "init ended", NULL);
    failure.stage[sizeof failure.stage - 1] = failure.step[sizeof failure.step - 1] = '\0';
    kill_command();
    waitpid(serving.init, NULL, 0);
    release_placeholders();
    send_failure(start.control, &failure);
    _exit(EXIT_SETUP);
  }
  close(start.status[0]);
}

static void drain(int *fd) {
  char nowhere[16384];
  ssize_t length = read(*fd, nowhere, sizeof nowhere);
  if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR))) return;
  close(*fd);
  *fd = -1;
}

static void sample(void) {
  if (now_ms() < serving.next_sample_ms) return;
  int all;
  const char *exceeded = sample_tree(&start.spec.watched, serving.init, &all);
  /* The first that is told of all counts, else the last of a single process. */
  if (exceeded != NULL) serving.exceeded = exceeded;
  if (all) kill_command();
  serving.next_sample_ms = now_ms() + SAMPLE_MS;
}

/*
 * H lives as long as the command and reads what the runtime sends: it gives up what it does not need for that. The
 * walls are its second line, so one that the kernel does not offer is done without.
 */
static void confine_self(void) {
  clear_capabilities();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  /* No further than ABI 5: the next one would keep H from killing I. */
  int abi = landlock_abi(5), opened;
  int ruleset = abi < 1 ? -1 : create_ruleset(abi, 1);
  if (ruleset >= 0 && grant_path(ruleset, "/proc", rights_of(RIGHTS_RL, abi), &opened) == 0) enter_ruleset(ruleset);
  if (ruleset >= 0) close(ruleset);
#if !defined(__SANITIZE_ADDRESS__)
  build_filter(&start.filter, &(struct filter_options){.kind = FILTER_WATCHER});
  enter_filter(&start.filter);
#endif
}

/* Most commands are over before this. It spares them what it costs, and those that last are the ones it is for. */
enum { CONFINE_AFTER_MS = 20 };

static _Noreturn void serve(void) {
  const int watched = is_watched(&start.spec.watched);
  const unsigned long long begun = now_ms();
  int confined = 0;
  for (;;) {
    if (!confined && now_ms() - begun >= CONFINE_AFTER_MS) {
      confine_self();
      confined = 1;
    }
    struct pollfd polled[] = {
        {start.control, POLLIN, 0},
        {serving.init_fd, POLLIN, 0},
        {serving.released ? serving.drains[0] : -1, POLLIN, 0},
        {serving.released ? serving.drains[1] : -1, POLLIN, 0},
    };
    int ready = poll(polled, LENGTH_OF(polled), !confined ? CONFINE_AFTER_MS : watched ? SAMPLE_MS : -1);
    if (ready < 0 && errno != EINTR) end_now();
    /* First of all: once I has ended the numbers of its processes may be others'. */
    if (ready > 0 && polled[1].revents != 0) report_end();
    /* By the clock: a command that keeps H busy must not escape it. */
    if (watched) sample();
    if (ready <= 0) continue;
    if (polled[0].revents != 0) read_control();
    for (int i = 0; i < 2; i++) {
      if (polled[2 + i].revents != 0) drain(&serving.drains[i]);
    }
  }
}

/* ----------------------------------------------------------------------------------------------------- H, start --- */

_Noreturn void run_command(const char *control_path) {
  close_inherited();
  check_streams();
  signal(SIGPIPE, SIG_IGN);
  /* Nobody else of this user attaches to H or reads its memory. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  /* What is typed at the runtime's terminal is the runtime's to hear. Fails only for a group's leader. */
  setsid();
  start.control = connect_control(control_path);
  if (start.control < 0) fail("control", errno);
  size_t length;
  char *bytes = read_spec(start.control, &length);
  if (bytes == NULL) fail("control", EPROTO);
  const char *wrong = parse_spec(bytes, length, SPEC_COMMAND, &start.spec);
  if (wrong != NULL) refuse("spec", 0, wrong, NULL);

  prepare_ruleset();
  open_cgroups();
  hold_placeholders();
  prepare_filter();
  int passing = 1;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, start.status) != 0 ||
      setsockopt(start.status[0], SOL_SOCKET, SO_PASSCRED, &passing, sizeof passing) != 0 ||
      pipe2(start.ending, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(start.life, O_CLOEXEC) != 0) {
    refuse("pidns", errno, "channels", NULL);
  }
  limit_processes();
  if (start.spec.tier != TIER_ENV) enter_network();
  if (!start.spec.pid_namespace) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  start_init();

  close(start.status[1]);
  close(start.ending[1]);
  if (start.ruleset >= 0) close(start.ruleset);
  for (size_t i = 0; i < start.cgroup_count; i++) close(start.cgroups[i]);
  for (int i = 0; i < 2; i++) serving.drains[i] = reopen_for_reading(1 + i);
  /* Else the runtime would never see the end of the command's output. */
  for (int fd = 0; fd <= 2; fd++) close(fd);
  await_exec();
  unsigned char started[5], *at = started;
  put_number(&at, (unsigned)serving.command, 4);
  put_number(&at, (unsigned)start.joined, 1);
  /* A runtime that is gone already may have released the command before: that is read next. */
  (void)send_frame(start.control, FRAME_STARTED, started, sizeof started);
  free_spec(&start.spec);
  free(bytes);
  serve();
}
