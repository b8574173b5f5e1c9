/*
 * harden-check: the tables held against each other and against what they are for, without any privilege. For the build
 * and the tests. Prints what it checked; the first contradiction ends it with status 1.
 */
#include "confine.h"
#include <linux/seccomp.h>

#define ALLOWED SECCOMP_RET_ALLOW
#define REFUSED(error) (SECCOMP_RET_ERRNO | (uint32_t)(error))

static int checked;

static void check(int holds, const char *what, long value) {
  checked++;
  if (holds) return;
  char line[160];
  snprintf(line, sizeof line, "mur-confine: %s (%ld)\n", what, value);
  say(line);
  _exit(1);
}

static struct filter filter;

static uint32_t answer_with(int call, uint64_t first, uint64_t second, uint64_t third, uint64_t fourth) {
  const uint64_t arguments[6] = {first, second, third, fourth, 0, 0};
  return evaluate_filter(&filter, native_architecture, call, arguments);
}

static uint32_t answer_to(int call, uint64_t first, uint64_t second, uint64_t third) {
  return answer_with(call, first, second, third, 0);
}

static void check_forbidden(void) {
  for (size_t i = 0; i < forbidden_count; i++) {
    int call = forbidden_calls[i];
    check(answer_to(call, 0, 0, 0) == REFUSED(EPERM), "a forbidden call is let through", call);
  }
  check(answer_to(100000, 0, 0, 0) == REFUSED(EPERM), "an unknown call is let through", 100000);
  check(answer_to(0x40000000, 0, 0, 0) == REFUSED(EPERM), "a call of another interface is let through", 0x40000000);
  const uint64_t none[6] = {0};
  check(evaluate_filter(&filter, native_architecture ^ 1, SYS_write, none) == SECCOMP_RET_KILL_PROCESS,
        "another architecture is let through", 0);
}

static void check_sockets(int kind, int unix_sockets) {
  static const struct {
    unsigned family;
    int error;
  } families[] = {{2, 0}, {10, 0}, {16, EACCES}, {17, EACCES}, {0, EPERM}, {3, EPERM}, {38, EPERM}, {40, EPERM}};
  for (size_t i = 0; i < LENGTH_OF(families); i++) {
    int error = kind == FILTER_HOST ? EACCES : families[i].error;
    check(answer_to(SYS_socket, families[i].family, 1, 0) == (error == 0 ? ALLOWED : REFUSED(error)), "socket family",
          families[i].family);
  }
  check(answer_to(SYS_socket, 1, 1, 0) == (unix_sockets ? ALLOWED : REFUSED(EACCES)), "unix socket", unix_sockets);
  /* The kernel reads the low half of a family alone. */
  check(answer_to(SYS_socket, 0x100000001ull, 1, 0) == (unix_sockets ? ALLOWED : REFUSED(EACCES)), "unix socket", 32);
  static const struct {
    unsigned type, protocol;
    int admitted;
  } kinds[] = {{1, 0, 1},   {1, 6, 1},  {2, 0, 1},  {2, 17, 1},  {0x80801, 0, 1}, {1, 17, 0},
               {1, 262, 0}, {1, 132, 0}, {2, 1, 0}, {2, 6, 0},   {2, 136, 0},     {3, 0, 0},
               {3, 1, 0},   {5, 0, 0},  {6, 0, 0},  {10, 0, 0},  {0, 0, 0}};
  static const unsigned internet[] = {2, 10};
  for (size_t i = 0; i < LENGTH_OF(kinds) * LENGTH_OF(internet); i++) {
    unsigned family = internet[i % 2], type = kinds[i / 2].type, protocol = kinds[i / 2].protocol;
    int admitted = kind == FILTER_COMMAND && kinds[i / 2].admitted;
    check(answer_to(SYS_socket, family, type, protocol) == (admitted ? ALLOWED : REFUSED(EACCES)), "protocol", protocol);
  }
  static const struct {
    unsigned family, type;
    int admitted;
  } pairs[] = {{1, 1, 1}, {1, 5, 1}, {1, 0x80801, 1}, {1, 2, 0}, {1, 3, 0}, {1, 0x80802, 0}, {2, 1, 0}, {30, 1, 0}};
  for (size_t i = 0; i < LENGTH_OF(pairs); i++) {
    int admitted = pairs[i].admitted || (unix_sockets && pairs[i].family == 1);
    check(answer_to(SYS_socketpair, pairs[i].family, pairs[i].type, 0) == (admitted ? ALLOWED : REFUSED(EACCES)),
          "pair", pairs[i].type);
  }
}

static void check_limits(void) {
  check(answer_to(SYS_setrlimit, RLIMIT_CORE, 1, 0) == REFUSED(0), "the limit of core files", 0);
  check(answer_to(SYS_setrlimit, RLIMIT_NOFILE, 1, 0) == ALLOWED, "another limit", RLIMIT_NOFILE);
  check(answer_to(SYS_prlimit64, 0, RLIMIT_CORE, 4096) == REFUSED(0), "the limit of core files", 1);
  check(answer_to(SYS_prlimit64, 0, RLIMIT_CORE, 1ull << 40) == REFUSED(0), "the limit of core files", 2);
  check(answer_to(SYS_prlimit64, 0, RLIMIT_CORE, 0) == ALLOWED, "the limit of core files is asked for", 0);
  check(answer_to(SYS_prlimit64, 0, RLIMIT_NPROC, 4096) == ALLOWED, "another limit", RLIMIT_NPROC);
}

/* What a descriptor for reading is good for, and room that no limit counts. */
static void check_files(void) {
  check(answer_to(SYS_fcntl, 3, 1024, 1) == REFUSED(EACCES), "a lease on a file", 1024);
  check(answer_to(SYS_fcntl, 3, 1040, 1) == REFUSED(EACCES), "a lease on a directory", 1040);
  check(answer_to(SYS_fcntl, 3, 0xffffffff00000400ull, 1) == REFUSED(EACCES), "a lease on a file", 32);
  static const unsigned others[] = {F_DUPFD, F_SETFD, F_SETFL, F_SETLK, 1025, 1026, 1030, 1031, 1033};
  for (size_t i = 0; i < LENGTH_OF(others); i++) {
    check(answer_to(SYS_fcntl, 3, others[i], 1) == ALLOWED, "fcntl", others[i]);
  }
  static const struct {
    unsigned mode;
    int admitted;
  } rooms[] = {{0, 1}, {1, 0}, {2 | 1, 1}, {8, 1}, {16, 1}, {16 | 1, 0}, {32, 1}, {64, 1}, {64 | 1, 0}};
  for (size_t i = 0; i < LENGTH_OF(rooms); i++) {
    uint32_t expected = rooms[i].admitted ? ALLOWED : REFUSED(EOPNOTSUPP);
    check(answer_to(SYS_fallocate, 3, rooms[i].mode, 0) == expected, "fallocate", rooms[i].mode);
  }
}

/* Files that run with another's rights. */
static void check_modes(void) {
  static const struct {
    int call, mode;
  } calls[] = {{SYS_fchmod, 1}, {SYS_fchmodat, 2}, {NR_fchmodat2, 2}, {SYS_mknodat, 2},
#if defined(__x86_64__)
               {SYS_chmod, 1}, {SYS_mknod, 1}, {SYS_creat, 1},
#endif
  };
  static const unsigned modes[] = {0755, 01777, 04755, 02755, 06000};
  for (size_t i = 0; i < LENGTH_OF(calls) * LENGTH_OF(modes); i++) {
    unsigned mode = modes[i % LENGTH_OF(modes)];
    int call = calls[i / LENGTH_OF(modes)].call, first = calls[i / LENGTH_OF(modes)].mode == 1;
    uint32_t expected = mode & 06000 ? REFUSED(EACCES) : ALLOWED;
    check(answer_to(call, 0, first ? mode : 0, first ? 0 : mode) == expected, "mode", mode);
  }
  for (size_t i = 0; i < LENGTH_OF(modes); i++) {
    uint32_t expected = modes[i] & 06000 ? REFUSED(EACCES) : ALLOWED;
    static const int making[] = {O_CREAT | O_WRONLY, O_TMPFILE | O_RDWR};
    for (size_t j = 0; j < LENGTH_OF(making); j++) {
      check(answer_with(SYS_openat, 0, 0, (uint64_t)making[j], modes[i]) == expected, "openat", modes[i]);
#if defined(__x86_64__)
      check(answer_to(SYS_open, 0, (uint64_t)making[j], modes[i]) == expected, "open", modes[i]);
#endif
    }
    /* What makes nothing leaves the argument as it was. */
    check(answer_with(SYS_openat, 0, 0, O_WRONLY | O_DIRECTORY, modes[i]) == ALLOWED, "openat", modes[i]);
  }
}

static void check_contained(const struct filter_options *options) {
  const int kind = (int)options->kind, refuse_truncation = options->refuse_truncation, sampled = options->sampled_memory;
  build_filter(&filter, options);
  check_forbidden();
  check_sockets(kind, options->unix_sockets);
  check_limits();
  check_files();
  static const int namespaces[] = {CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                   CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
  for (size_t i = 0; i < LENGTH_OF(namespaces); i++) {
    check(answer_to(SYS_clone, (uint64_t)namespaces[i] | SIGCHLD, 0, 0) == REFUSED(EPERM), "clone", namespaces[i]);
  }
  check(answer_to(SYS_clone, SIGCHLD, 0, 0) == ALLOWED, "clone", 0);
  check(answer_to(NR_clone3, 0, 0, 0) == REFUSED(ENOSYS), "clone3", 0);
  check(answer_to(SYS_memfd_create, 0, 0, 0) == REFUSED(sampled ? ENOSYS : EACCES), "memfd_create", 0);
  check(answer_to(SYS_memfd_create, 0, 0x10, 0) == REFUSED(sampled ? ENOSYS : EACCES), "memfd_create", 0x10);
  check(answer_to(SYS_memfd_create, 0, 8, 0) == (sampled ? REFUSED(ENOSYS) : ALLOWED), "memfd_create", 8);
  check(answer_to(SYS_ioctl, 0, 0x5412, 0) == REFUSED(EACCES), "ioctl", 0x5412);
  check(answer_to(SYS_ioctl, 0, 0xffffffff00005412ull, 0) == REFUSED(EACCES), "ioctl", 0x5412);
  check(answer_to(SYS_ioctl, 0, 0x541c, 0) == REFUSED(EACCES), "ioctl", 0x541c);
  check(answer_to(SYS_ioctl, 0, 0x5413, 0) == ALLOWED, "ioctl", 0x5413);
  static const struct {
    int flags, truncates_freely;
  } opens[] = {{O_RDONLY, 0}, {O_WRONLY, 0}, {O_RDWR | O_TRUNC, 0}, {O_WRONLY | O_CREAT | O_TRUNC, 0},
               {O_RDONLY | O_TRUNC, 1}, {O_RDONLY | O_TRUNC | O_CREAT, 1}, {3 | O_TRUNC, 1}, {3, 0}};
  for (size_t i = 0; i < LENGTH_OF(opens); i++) {
    uint32_t expected = refuse_truncation && opens[i].truncates_freely ? REFUSED(EACCES) : ALLOWED;
    check(answer_to(SYS_openat, 0, 0, (uint64_t)opens[i].flags) == expected, "openat", opens[i].flags);
#if defined(__x86_64__)
    check(answer_to(SYS_open, 0, (uint64_t)opens[i].flags, 0) == expected, "open", opens[i].flags);
#endif
  }
  check(answer_to(NR_openat2, 0, 0, 0) == (kind == FILTER_COMMAND ? REFUSED(ENOSYS) : ALLOWED), "openat2", 0);
  if (kind == FILTER_COMMAND) {
    check_modes();
    static const uint64_t sizes[] = {1, 65536, 65537, 1ull << 32};
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
      int refused = sampled && sizes[i] > 65536;
      check(answer_to(SYS_shmget, 0, sizes[i], 0) == (refused ? REFUSED(EINVAL) : ALLOWED), "shmget", (long)sizes[i]);
    }
    check(answer_to(SYS_truncate, 0, 0, 0) == (refuse_truncation ? REFUSED(EACCES) : ALLOWED), "truncate", 0);
  }
  static const int daily[] = {SYS_read, SYS_write, SYS_execve, SYS_exit_group, SYS_mmap, SYS_futex, SYS_wait4};
  for (size_t i = 0; i < LENGTH_OF(daily); i++) {
    check(answer_to(daily[i], 0, 0, 0) == ALLOWED, "a daily call", daily[i]);
  }
}

static void check_rights(void) {
  static const uint64_t never = FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_MAKE_SOCK;
  static const uint64_t writing = FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |
                                  FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE;
  for (int abi = 1; abi <= 9; abi++) {
    uint64_t handled = handled_rights(abi);
    check((handled & FS_V1) == FS_V1, "a right of the first ABI is not handled", abi);
    for (int set = 0; set < RIGHT_SETS; set++) {
      uint64_t rights = rights_of((enum right_set)set, abi);
      check((rights & ~handled) == 0, "a right that is not handled", set);
      check((rights & never) == 0, "a right nobody has", set);
      int executes = set == RIGHTS_WX || set == RIGHTS_RX || set == RIGHTS_RXL;
      check(((rights & FS_EXECUTE) != 0) == executes, "the right to execute", set);
      int writes = set == RIGHTS_W || set == RIGHTS_WX || set == RIGHTS_DRW;
      check(((rights & writing) != 0) == writes, "a right to write", set);
      check((rights & FS_READ_FILE) != 0, "no right to read", set);
    }
  }
}

_Noreturn void check_hardening(void) {
  char line[96];
  for (int choice = 0; choice < 8; choice++) {
    const struct filter_options options = {FILTER_COMMAND, choice & 1, choice >> 1 & 1, choice >> 2 & 1};
    check_contained(&options);
    snprintf(line, sizeof line, "command filter (unix %d, truncation %d, sampled %d): %d instructions\n",
             options.unix_sockets, options.refuse_truncation, options.sampled_memory, filter.length);
    ssize_t ignored = write(1, line, strlen(line));
    (void)ignored;
  }
  check_contained(&(struct filter_options){.kind = FILTER_HOST, .sampled_memory = 1});
  check(answer_to(SYS_shmget, 0, 1, 0) == REFUSED(EPERM), "a host shares memory", SYS_shmget);
  check(answer_to(SYS_connect, 0, 0, 0) == REFUSED(EPERM), "a host connects", SYS_connect);
  check(answer_to(SYS_execveat, 0, 0, 0) == REFUSED(EPERM), "a host executes by descriptor", SYS_execveat);
  check(answer_to(SYS_bind, 0, 0, 0) == REFUSED(EPERM), "a host binds", SYS_bind);
  static const enum filter_kind own[] = {FILTER_INIT, FILTER_WATCHER};
  for (size_t i = 0; i < LENGTH_OF(own); i++) {
    build_filter(&filter, &(struct filter_options){.kind = own[i]});
    check_forbidden();
    static const int needless[] = {SYS_execve, SYS_socket, SYS_clone, SYS_connect, SYS_mmap};
    for (size_t j = 0; j < LENGTH_OF(needless); j++) {
      check(answer_to(needless[j], 0, 0, 0) == REFUSED(EPERM), "a call nobody needs there", needless[j]);
    }
    check(answer_to(SYS_exit_group, 0, 0, 0) == ALLOWED, "no way to end", 0);
  }
  check_rights();
  snprintf(line, sizeof line, "%d checks hold\n", checked);
  ssize_t ignored = write(1, line, strlen(line));
  (void)ignored;
  _exit(0);
}
