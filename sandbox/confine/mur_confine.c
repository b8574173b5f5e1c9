/*
 * mur-confine: starts one program so that it, and all it started, ends when the one who asked for it is gone, and puts
 * walls around it as far as the kernel offers them. Spec containment 19; this is the part of it called `guard`.
 *
 *   mur-confine guard [option...] -- /absolute/program [argument...]
 *
 *   --input pass       the program reads this standard input; it is watched for hang-up and never read   (default)
 *   --input none       the program reads /dev/null; this standard input is the control line
 *   --input N          the program reads the first N bytes and then its end; the rest is the control line
 *   --profile NAME     component-host: every wall below that the kernel grants
 *   --rx PATH          the walls leave PATH readable and executable; likewise the program itself
 *   --r PATH           the walls leave PATH readable, a directory with all below it
 *   --rlimit NAME=N    nofile, fsize, cpu, nproc, as
 *   --sample NAME=N    memory_bytes: a process with more than N bytes resident is killed; cgroup_memory_bytes,
 *                      cgroup_pids_max: everything is, when all processes together have more
 *
 * Control line: the byte R releases; from then on the end of the line means nothing, and what the program writes is read
 * and dropped here, since the runtime, which read it so far, is about to end. The end of the line without R, or any other
 * byte, means that the runtime is gone: everything is killed.
 *
 * Signals: SIGVTALRM to H kills everything. SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go on to the program's
 * group.
 *
 * Processes: H, this one, watches. Where the kernel grants a PID namespace, I is its init and C, the program, I's child;
 * elsewhere C is H's child. C's end ends everything, and H ends the way C did. When H itself is killed, I (with all of
 * its namespace) or C follows by its death signal.
 *
 * Environment and working directory are the caller's to set. Nothing here reads configuration, resolves a name or looks
 * at the environment.
 *
 * One thread, no library but libc. The file reads in the order things happen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

/* Calls and constants younger than the headers of some build machines. Both machines share these numbers. */
#define NR_close_range 436
#define NR_openat2 437
#define NR_pidfd_getfd 438
#define NR_faccessat2 439
#define NR_epoll_pwait2 441
#define NR_mount_setattr 442
#define NR_landlock_create_ruleset 444
#define NR_landlock_add_rule 445
#define NR_landlock_restrict_self 446
#define NR_futex_waitv 449
#define NR_fchmodat2 452
#define RANGE_CLOEXEC 4u
#define FLAG_MFD_NOEXEC_SEAL 8u
#define ATTR_RDONLY 1u
#define ATTR_NOSUID 2u
#define ATTR_NODEV 4u

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#error "only x86-64 and aarch64 are served"
#endif

/* Sent to H by the kernel when the thread that started it ends. Above the numbers libc keeps for itself. */
#define SIGNAL_PARENT_GONE 50

enum { MAX_RULES = 512, MAX_LIMITS = 8, EXIT_SETUP = 125, EXIT_EXEC = 127 };

enum input { INPUT_PASS, INPUT_NONE, INPUT_BYTES };

struct rule {
  const char *path;
  int execute;
};

struct limit {
  int resource;
  rlim_t value;
};

static struct {
  enum input input;
  unsigned long long input_bytes;
  int host_profile;
  /* 0 where nothing is to be sampled. */
  unsigned long long memory_bytes, tree_memory_bytes, tree_processes;
  struct rule rules[MAX_RULES];
  int rule_count;
  struct limit limits[MAX_LIMITS];
  int limit_count;
  char **argv;
} options;

/* ------------------------------------------------------------------------------------------------ small tools --- */

static void say(const char *text) {
  size_t length = strlen(text);
  while (length > 0) {
    ssize_t written = write(2, text, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    length -= (size_t)written;
  }
}

/* One line the runtime knows: `mur-confine: failed: <stage>: <reason>`. */
static void say_failure(const char *stage, int error) {
  char line[256];
  snprintf(line, sizeof line, "mur-confine: failed: %s: %s\n", stage, strerror(error));
  say(line);
}

static _Noreturn void fail(const char *stage, int error) {
  say_failure(stage, error);
  _exit(EXIT_SETUP);
}

static _Noreturn void usage(const char *what) {
  char line[256];
  snprintf(line, sizeof line, "mur-confine: %s\nusage: mur-confine guard [option...] -- /absolute/program [argument...]\n",
           what);
  say(line);
  _exit(2);
}

static int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t written = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return written == (ssize_t)strlen(text) ? 0 : -1;
}

/* ---------------------------------------------------------------------------------------------------- options --- */

static unsigned long long number(const char *text) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || *text < '0' || *text > '9' || *end != '\0') usage("a number is malformed");
  return value;
}

static void add_rule_option(const char *path, int execute) {
  if (path[0] != '/') usage("a path is not absolute");
  if (options.rule_count == MAX_RULES) usage("too many paths");
  options.rules[options.rule_count++] = (struct rule){path, execute};
}

static void add_limit_option(const char *text) {
  static const struct {
    const char *name;
    int resource;
  } names[] = {{"nofile", RLIMIT_NOFILE}, {"fsize", RLIMIT_FSIZE}, {"cpu", RLIMIT_CPU}, {"nproc", RLIMIT_NPROC},
               {"as", RLIMIT_AS}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    size_t length = strlen(names[i].name);
    if (strncmp(text, names[i].name, length) != 0 || text[length] != '=') continue;
    if (options.limit_count == MAX_LIMITS) usage("too many limits");
    options.limits[options.limit_count++] = (struct limit){names[i].resource, (rlim_t)number(text + length + 1)};
    return;
  }
  usage("an unknown limit");
}

static void add_sample_option(const char *text) {
  static const struct {
    const char *name;
    unsigned long long *value;
  } names[] = {{"memory_bytes", &options.memory_bytes},
               {"cgroup_memory_bytes", &options.tree_memory_bytes},
               {"cgroup_pids_max", &options.tree_processes}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    size_t length = strlen(names[i].name);
    if (strncmp(text, names[i].name, length) != 0 || text[length] != '=') continue;
    *names[i].value = number(text + length + 1);
    return;
  }
  usage("an unknown sample");
}

static void read_options(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "guard") != 0) usage("an unknown mode");
  int at = 2;
  for (; at < argc && strcmp(argv[at], "--") != 0; at += 2) {
    if (at + 1 >= argc) usage("an option lacks its value");
    const char *name = argv[at], *value = argv[at + 1];
    if (strcmp(name, "--input") == 0) {
      if (strcmp(value, "pass") == 0) {
        options.input = INPUT_PASS;
      } else if (strcmp(value, "none") == 0) {
        options.input = INPUT_NONE;
      } else {
        options.input = INPUT_BYTES;
        options.input_bytes = number(value);
      }
    } else if (strcmp(name, "--profile") == 0) {
      if (strcmp(value, "component-host") != 0) usage("an unknown profile");
      options.host_profile = 1;
    } else if (strcmp(name, "--rx") == 0) {
      add_rule_option(value, 1);
    } else if (strcmp(name, "--r") == 0) {
      add_rule_option(value, 0);
    } else if (strcmp(name, "--sample") == 0) {
      add_sample_option(value);
    } else if (strcmp(name, "--rlimit") == 0) {
      add_limit_option(value);
    } else {
      usage("an unknown option");
    }
  }
  if (at >= argc - 1) usage("no program");
  options.argv = argv + at + 1;
  if (options.argv[0][0] != '/') usage("the program's path is not absolute");
}

/* ------------------------------------------------------------------------------------------- wall: namespaces --- */

/*
 * Identity maps of a process in a fresh user namespace, written by its parent. The files of a process that is not
 * dumpable belong to root, so H and the child are dumpable for just this moment.
 */
static int map_ids(pid_t pid, uid_t uid, gid_t gid) {
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
  if (write_file(path, "deny") != 0 && errno != ENOENT) return -1;
  snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
  snprintf(line, sizeof line, "%u %u 1\n", uid, uid);
  if (write_file(path, line) != 0) return -1;
  snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
  snprintf(line, sizeof line, "%u %u 1\n", gid, gid);
  return write_file(path, line);
}

/*
 * Everything read-only, set-uid bits without effect, device nodes dead. The namespace is ours alone, so nothing of this
 * is seen outside. mount_setattr reaches every mount below; a remount would reach the top one only.
 */
static int make_mounts_read_only(void) {
  struct {
    uint64_t set, clear, propagation, userns;
  } attributes = {ATTR_RDONLY | ATTR_NOSUID, 0, 0, 0};
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return -1;
  return (int)syscall(NR_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attributes, sizeof attributes);
}

/* ----------------------------------------------------------------------------------------- wall: capabilities --- */

/* The bounding set goes first, while dropping from it is still allowed; then the own sets, which empties the ambient one. */
static int drop_capabilities(void) {
  for (int cap = 0; cap <= 63; cap++) {
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EINVAL && errno != EPERM) return -1;
  }
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  return (int)syscall(SYS_capset, &header, none);
}

/* --------------------------------------------------------------------------------------------- wall: Landlock --- */

#define FS_EXECUTE (1ull << 0)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_V1 ((1ull << 13) - 1)
#define FS_REFER (1ull << 13)
#define FS_TRUNCATE (1ull << 14)
#define NET_BIND_TCP (1ull << 0)
#define NET_CONNECT_TCP (1ull << 1)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0)
#define SCOPE_SIGNAL (1ull << 1)

struct ruleset_attributes {
  uint64_t fs, net, scoped;
};

struct path_attributes {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

/* A path that is not there needs no right; every other failure refuses the whole wall. */
static int allow_path(int ruleset, const char *path, int execute) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : -1;
  struct stat stat;
  if (fstat(fd, &stat) != 0) return -1;
  struct path_attributes attributes = {FS_READ_FILE, fd};
  if (execute) attributes.allowed |= FS_EXECUTE;
  /* The kernel refuses a directory's right on a file. */
  if (S_ISDIR(stat.st_mode)) attributes.allowed |= FS_READ_DIR;
  int result = (int)syscall(NR_landlock_add_rule, ruleset, 1, &attributes, 0);
  int error = errno;
  close(fd);
  errno = error;
  return result;
}

/* Everything the kernel can forbid is forbidden, but reading and executing what was named. */
static int enter_landlock(void) {
  long abi = syscall(NR_landlock_create_ruleset, NULL, 0, 1);
  if (abi < 1) return -1;
  struct ruleset_attributes attributes = {FS_V1, 0, 0};
  size_t size = sizeof attributes.fs;
  if (abi >= 2) attributes.fs |= FS_REFER;
  if (abi >= 3) attributes.fs |= FS_TRUNCATE;
  if (abi >= 4) {
    attributes.net = NET_BIND_TCP | NET_CONNECT_TCP;
    size = offsetof(struct ruleset_attributes, scoped);
  }
  if (abi >= 6) {
    attributes.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
    size = sizeof attributes;
  }
  int ruleset = (int)syscall(NR_landlock_create_ruleset, &attributes, size, 0);
  if (ruleset < 0) return -1;
  int result = allow_path(ruleset, options.argv[0], 1);
  for (int i = 0; result == 0 && i < options.rule_count; i++) {
    result = allow_path(ruleset, options.rules[i].path, options.rules[i].execute);
  }
  if (result == 0) result = (int)syscall(NR_landlock_restrict_self, ruleset, 0);
  close(ruleset);
  return result;
}

/* ---------------------------------------------------------------------------------------------- wall: seccomp --- */

/*
 * The calls a component host may make: those of spec containment 10.1 without the ones that reach for a network. What is
 * not listed answers EPERM.
 */
static const int allowed_calls[] = {
    /* process */
    SYS_execve, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigpending, SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_restart_syscall, SYS_set_tid_address,
    SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_prctl, SYS_getpid, SYS_getppid, SYS_gettid, SYS_getpgid,
    SYS_setpgid, SYS_getsid, SYS_setsid, SYS_getpriority, SYS_setpriority, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_setparam, SYS_sched_getscheduler, SYS_sched_setscheduler,
    SYS_sched_getattr, SYS_sched_setattr, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval, SYS_getcpu, SYS_capget, SYS_capset, SYS_prlimit64, SYS_getrlimit, SYS_setrlimit,
    SYS_getrusage, SYS_getitimer, SYS_setitimer, SYS_times, SYS_uname, SYS_sysinfo,
    /* memory */
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_mlock, SYS_mlock2, SYS_munlock,
    SYS_mlockall, SYS_munlockall, SYS_membarrier, SYS_msync, SYS_mincore, SYS_pkey_alloc, SYS_pkey_free,
    SYS_pkey_mprotect,
    /* files */
    SYS_openat, NR_openat2, SYS_close, NR_close_range, SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv,
    SYS_writev, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_dup, SYS_dup3, SYS_fcntl, SYS_flock,
    SYS_fsync, SYS_fdatasync, SYS_fadvise64, SYS_readahead, SYS_ftruncate, SYS_fallocate, SYS_fstat, SYS_newfstatat,
    SYS_statx, SYS_faccessat, NR_faccessat2, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_readlinkat,
    SYS_umask, SYS_sendfile, SYS_copy_file_range, SYS_splice, SYS_tee, SYS_vmsplice, SYS_ppoll, SYS_pselect6,
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, NR_epoll_pwait2, SYS_eventfd2, SYS_pipe2, SYS_inotify_init1,
    SYS_inotify_add_watch, SYS_inotify_rm_watch, SYS_signalfd4, SYS_timerfd_create, SYS_timerfd_settime,
    SYS_timerfd_gettime, SYS_statfs, SYS_fstatfs,
    /* a pair of connected sockets reaches nobody else; runtimes wake their threads with one */
    SYS_socketpair, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_shutdown, SYS_getsockopt, SYS_setsockopt,
    SYS_getsockname, SYS_getpeername,
    /* time */
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_timer_create,
    SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete,
    /* misc */
    SYS_getrandom, SYS_futex, NR_futex_waitv, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid,
    SYS_getresgid, SYS_getgroups, NR_landlock_create_ruleset, NR_landlock_add_rule, NR_landlock_restrict_self,
#if defined(__x86_64__)
    SYS_vfork, SYS_fork, SYS_pause, SYS_arch_prctl, SYS_getpgrp, SYS_open, SYS_dup2, SYS_stat, SYS_lstat, SYS_access,
    SYS_getdents, SYS_readlink, SYS_poll, SYS_select, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_pipe,
    SYS_inotify_init, SYS_signalfd, SYS_time, SYS_alarm,
#endif
};

/* Calls that must never be on the list, whatever else changes (spec containment 10.2). Checked by `self-check`. */
static const int forbidden_calls[] = {
    425, 426, 427, /* io_uring */
    SYS_bpf, SYS_userfaultfd, SYS_perf_event_open, SYS_process_vm_readv, SYS_process_vm_writev, SYS_open_by_handle_at,
    SYS_keyctl, SYS_add_key, SYS_request_key, SYS_ptrace, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
    SYS_unshare, SYS_setns, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot,
    SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_lookup_dcookie, SYS_clock_adjtime, SYS_clock_settime,
    SYS_settimeofday, SYS_adjtimex, SYS_set_mempolicy, SYS_get_mempolicy, SYS_mbind, SYS_migrate_pages, SYS_move_pages,
    SYS_fanotify_init, SYS_fanotify_mark, SYS_seccomp, SYS_personality, SYS_kcmp, NR_pidfd_getfd, NR_mount_setattr,
    428, 429, 430, 431, 432, 433, /* open_tree, move_mount, fsopen, fsconfig, fsmount, fspick */
    SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_execveat,
};

#define NAMESPACE_FLAGS \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

enum { MAX_FILTER = 1024 };

static struct sock_filter filter[MAX_FILTER];
static unsigned short filter_length;

static void emit(uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false) {
  if (filter_length == MAX_FILTER) _exit(EXIT_SETUP);
  filter[filter_length++] = (struct sock_filter){code, if_true, if_false, value};
}

static void load(uint32_t offset) { emit(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
static void answer(uint32_t value) { emit(BPF_RET | BPF_K, value, 0, 0); }
static void deny(int error) { answer(SECCOMP_RET_ERRNO | (uint32_t)error); }

/* Runs the next `count` instructions only for this call. */
static void for_call(int call, uint8_t count) { emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, count); }

static void build_filter(void) {
  const uint32_t number_at = offsetof(struct seccomp_data, nr);
  /* Both machines are little-endian: the low half of an argument comes first. */
  const uint32_t first = offsetof(struct seccomp_data, args[0]), second = offsetof(struct seccomp_data, args[1]);
  filter_length = 0;
  load(offsetof(struct seccomp_data, arch));
  emit(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
  answer(SECCOMP_RET_KILL_PROCESS);
  load(number_at);
#if defined(__x86_64__)
  /* Numbers of the x32 interface would slip past a list of the others. */
  emit(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
  deny(EPERM);
#endif
  for_call(SYS_socket, 1);
  deny(EACCES);
  /* Its flags lie in memory; libcs fall back to clone, whose flags can be seen. */
#if defined(SYS_clone3)
  for_call(SYS_clone3, 1);
#else
  for_call(435, 1);
#endif
  deny(ENOSYS);
  for_call(SYS_clone, 4);
  load(first);
  emit(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1);
  deny(EPERM);
  answer(SECCOMP_RET_ALLOW);
  /* A memory file that may be executed would be a program no wall has seen. */
  for_call(SYS_memfd_create, 4);
  load(second);
  emit(BPF_JMP | BPF_JSET | BPF_K, FLAG_MFD_NOEXEC_SEAL, 1, 0);
  deny(EACCES);
  answer(SECCOMP_RET_ALLOW);
  /* Typing into a terminal. */
  for_call(SYS_ioctl, 5);
  load(second);
  emit(BPF_JMP | BPF_JEQ | BPF_K, 0x5412, 1, 0);
  emit(BPF_JMP | BPF_JEQ | BPF_K, 0x541c, 0, 1);
  deny(EACCES);
  answer(SECCOMP_RET_ALLOW);
  for (size_t i = 0; i < sizeof allowed_calls / sizeof allowed_calls[0]; i++) {
    for_call(allowed_calls[i], 1);
    answer(SECCOMP_RET_ALLOW);
  }
  deny(EPERM);
}

static int enter_filter(void) {
  build_filter();
  struct sock_fprog program = {filter_length, filter};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, &program) == 0) return 0;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* ------------------------------------------------------------------------------------------------- C, program --- */

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
struct failure {
  char stage[16];
  int error;
};

static _Noreturn void report_failure(int fd, const char *stage) {
  struct failure failure = {{0}, errno};
  strncpy(failure.stage, stage, sizeof failure.stage - 1);
  ssize_t ignored = write(fd, &failure, sizeof failure);
  (void)ignored;
  _exit(EXIT_EXEC);
}

static void set_limit(int fd, int resource, rlim_t value) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0) report_failure(fd, "rlimit");
  if (value > limit.rlim_max) value = limit.rlim_max;
  limit.rlim_cur = value;
  /* At the hard limit the kernel sends SIGKILL; a second between lets SIGXCPU say what happened. */
  if (resource == RLIMIT_CPU && value < limit.rlim_max) value++;
  limit.rlim_max = value;
  if (setrlimit(resource, &limit) != 0) report_failure(fd, "rlimit");
}

/* From fork to exec. `parent` is the process that must still be there; 0 where its number can't be seen from here. */
static _Noreturn void become_program(int failure_fd, int input_fd, pid_t parent) {
  /* H's or I's end is the program's end; then make sure it has not come already. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) report_failure(failure_fd, "death-signal");
  if (parent != 0 && getppid() != parent) _exit(EXIT_SETUP);
  /* By the call itself: libc keeps two numbers to itself that may be inherited as ignored. All zero is SIG_DFL. */
  static const unsigned long long default_action[4];
  for (int number = 1; number <= 64; number++) syscall(SYS_rt_sigaction, number, default_action, NULL, 8);
  sigset_t nothing;
  sigemptyset(&nothing);
  sigprocmask(SIG_SETMASK, &nothing, NULL);
  /* Its own session: no controlling terminal, and a group that can be signalled as one. */
  if (setsid() < 0) report_failure(failure_fd, "session");
  if (input_fd >= 0 && dup2(input_fd, 0) < 0) report_failure(failure_fd, "input");
  set_limit(failure_fd, RLIMIT_CORE, 0);
  for (int i = 0; i < options.limit_count; i++) {
    if (options.limits[i].resource == RLIMIT_NOFILE) continue;
    set_limit(failure_fd, options.limits[i].resource, options.limits[i].value);
  }
  if (syscall(NR_close_range, 3, ~0u, RANGE_CLOEXEC) != 0) {
    for (int fd = 3; fd < 65536; fd++) {
      int flags = fcntl(fd, F_GETFD);
      if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
  }
  if (options.host_profile) {
    walls[WALL_CAPABILITIES] = drop_capabilities() == 0;
    walls[WALL_PRIVILEGES] = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    /* Both need no_new_privs. */
    if (walls[WALL_PRIVILEGES]) walls[WALL_LANDLOCK] = enter_landlock() == 0;
  }
  /* Last, so that a tight one does not break what comes before. */
  for (int i = 0; i < options.limit_count; i++) {
    if (options.limits[i].resource == RLIMIT_NOFILE) set_limit(failure_fd, RLIMIT_NOFILE, options.limits[i].value);
  }
  if (options.host_profile) {
    if (walls[WALL_PRIVILEGES]) walls[WALL_SECCOMP] = enter_filter() == 0;
    say_walls();
  }
  execv(options.argv[0], options.argv);
  report_failure(failure_fd, "exec");
}

/* ---------------------------------------------------------------------------------------------------- I, init --- */

/*
 * First process of its PID namespace: starts C, reaps whatever is left to it, tells H how C ended and ends, whereupon
 * the kernel kills what is left. As a first process it takes no signal but SIGKILL from outside.
 */
static _Noreturn void be_init(int go_fd, int failure_fd, int ending_fd, int input_fd, int with_mounts) {
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
    become_program(failure_fd, input_fd, 0); /* I's end ends the namespace */
  }
  /* H must see the end of these pipes when C closes them. */
  close(failure_fd);
  if (input_fd >= 0) close(input_fd);
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

/* ------------------------------------------------------------------------------------------------- H, watcher --- */

static struct {
  pid_t parent;
  /* H's own child: I where there is a PID namespace, else C. */
  pid_t child;
  /* C as H sees it; its number is that of its group too. 0 while unknown. */
  pid_t program;
  int has_init;
  int ending_fd;
  int released;
} watch;

static struct {
  /* Name of the limit that something was killed for. */
  const char *exceeded;
  unsigned long long next_ms;
} sampling;

/* Reads a list of child processes; the count, 0 when the kernel does not offer the list. */
static int children_of(pid_t pid, pid_t *list, int room) {
  static char text[65536];
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t have = 0;
  ssize_t length;
  while (have < sizeof text - 1 && (length = read(fd, text + have, sizeof text - 1 - have)) > 0) have += (size_t)length;
  close(fd);
  text[have] = '\0';
  int count = 0;
  char *rest = text, *next;
  while (count < room) {
    long value = strtol(rest, &next, 10);
    /* Every number has a blank behind it; the last of a list that did not fit may be cut. */
    if (next == rest || *next == '\0') break;
    list[count++] = (pid_t)value;
    rest = next;
  }
  return count;
}

/*
 * Kills everything below H and waits until it is gone. A namespace dies with its init. Elsewhere the group goes at
 * once; what left the group falls to H, the subreaper, as its parents die, and is killed then. What hangs in the kernel
 * is waited for up to ten seconds.
 */
static void kill_everything(void) {
  /* 0 would be H's own group. */
  if (!watch.has_init && watch.program > 0) kill(-watch.program, SIGKILL);
  if (watch.child > 0) kill(watch.child, SIGKILL);
  watch.program = 0;
  for (int rounds = 0; rounds < 5000; rounds++) {
    pid_t list[512];
    int count = children_of(getpid(), list, 512);
    for (int i = 0; i < count; i++) kill(list[i], SIGKILL);
    if (count == 0 && watch.child > 0) kill(watch.child, SIGKILL);
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
      if (ended == watch.child) watch.child = 0;
    }
    if (ended < 0 && errno == ECHILD) return;
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  }
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

/* Resident bytes of a process, 0 when unknown. */
static unsigned long long resident_bytes(pid_t pid) {
  char path[64], text[128];
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  unsigned long long total, resident;
  if (sscanf(text, "%llu %llu", &total, &resident) != 2) return 0;
  return resident * (unsigned long long)sysconf(_SC_PAGESIZE);
}

enum { SAMPLE_MS = 200, MAX_SAMPLED = 4096 };

static unsigned long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

static int samples(void) { return options.memory_bytes > 0 || options.tree_memory_bytes > 0 || options.tree_processes > 0; }

static _Noreturn void end_exceeded(const char *limit) {
  kill_everything();
  say_exceeded(limit);
  end_like(SIGKILL);
}

/* Walks everything below H. Init is no process of the program's. */
static void sample(void) {
  static pid_t pids[MAX_SAMPLED];
  int count = children_of(getpid(), pids, MAX_SAMPLED);
  unsigned long long memory = 0, processes = 0;
  for (int i = 0; i < count; i++) {
    count += children_of(pids[i], pids + count, MAX_SAMPLED - count);
    if (watch.has_init && pids[i] == watch.child) continue;
    processes++;
    unsigned long long resident = resident_bytes(pids[i]);
    memory += resident;
    if (options.memory_bytes > 0 && resident > options.memory_bytes) {
      kill(pids[i], SIGKILL);
      sampling.exceeded = "memory_bytes";
    }
  }
  if (options.tree_processes > 0 && processes > options.tree_processes) end_exceeded("cgroup_pids_max");
  if (options.tree_memory_bytes > 0 && memory > options.tree_memory_bytes) end_exceeded("cgroup_memory_bytes");
}

/* Output of a released program that nobody reads any more must not end it with SIGPIPE: H holds read ends and drains. */
static int reopen_for_reading(int fd) {
  char path[32];
  struct stat stat;
  if (fstat(fd, &stat) != 0 || !S_ISFIFO(stat.st_mode)) return -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Bytes on their way to the program's input. */
static struct {
  int fd;
  unsigned long long wanted;
  char bytes[65536];
  size_t start, end;
} feed = {-1, 0, {0}, 0, 0};

static void stop_feeding(void) {
  if (feed.fd >= 0) close(feed.fd);
  feed.fd = -1;
  feed.start = feed.end = 0;
}

/* Reads the control line: input for the program first, then commands. Its end is the runtime's end. */
static void read_line(void) {
  if (feed.wanted > 0) {
    if (feed.end == sizeof feed.bytes) return;
    size_t room = sizeof feed.bytes - feed.end;
    if (room > feed.wanted) room = (size_t)feed.wanted;
    ssize_t length = read(0, feed.bytes + feed.end, room);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (length <= 0) end_killed();
    feed.wanted -= (unsigned long long)length;
    /* The program has closed its input: the rest is read all the same, since commands come after it. */
    if (feed.fd >= 0) feed.end += (size_t)length;
    return;
  }
  char commands[16];
  ssize_t length = read(0, commands, sizeof commands);
  if (length < 0 && (errno == EINTR || errno == EAGAIN)) return;
  for (ssize_t i = 0; i < length; i++) {
    /* A word nobody knows: the line can't be trusted any more. */
    if (commands[i] != 'R') end_killed();
    watch.released = 1;
  }
  if (length > 0) return;
  if (!watch.released) end_killed();
  /* A pipe that has ended is ready for ever. */
  close(0);
}

static void write_feed(void) {
  ssize_t length = write(feed.fd, feed.bytes + feed.start, feed.end - feed.start);
  if (length < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (length < 0) return stop_feeding(); /* A program need not read its input. */
  feed.start += (size_t)length;
  if (feed.start == feed.end) feed.start = feed.end = 0;
}

static void drain(int *fd) {
  static char nowhere[65536];
  ssize_t length = read(*fd, nowhere, sizeof nowhere);
  if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR))) return;
  close(*fd);
  *fd = -1;
}

static _Noreturn void watch_program(int signal_fd) {
  int drains[2] = {-1, -1};
  if (options.input != INPUT_PASS) {
    for (int i = 0; i < 2; i++) drains[i] = reopen_for_reading(1 + i);
  }
  int line_open = 1;
  for (;;) {
    if (feed.fd >= 0 && feed.wanted == 0 && feed.start == feed.end) stop_feeding();
    struct pollfd polled[5] = {
        {signal_fd, POLLIN, 0},
        {line_open ? 0 : -1, 0, 0},
        {feed.fd >= 0 && feed.start < feed.end ? feed.fd : -1, POLLOUT, 0},
        {watch.released ? drains[0] : -1, POLLIN, 0},
        {watch.released ? drains[1] : -1, POLLIN, 0},
    };
    /* In the passing mode the line belongs to the program: hang-up is reported without asking for anything. */
    if (options.input != INPUT_PASS && (feed.wanted == 0 || feed.end < sizeof feed.bytes)) polled[1].events = POLLIN;
    int ready = poll(polled, 5, samples() ? SAMPLE_MS : -1);
    if (ready < 0 && errno != EINTR) end_killed();
    /* By the clock: a command that keeps H busy must not escape it. */
    if (samples() && now_ms() >= sampling.next_ms) {
      sample();
      sampling.next_ms = now_ms() + SAMPLE_MS;
    }
    if (ready <= 0) continue;
    if (polled[1].revents != 0) {
      if (options.input == INPUT_PASS) {
        if (polled[1].revents & (POLLHUP | POLLERR | POLLNVAL)) end_killed();
      } else if (polled[1].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) {
        /* A full buffer asked for nothing; a hang-up meanwhile still is one. */
        if (feed.wanted > 0 && feed.end == sizeof feed.bytes) end_killed();
        read_line();
        if (watch.released && fcntl(0, F_GETFD) < 0) line_open = 0;
      }
    }
    if (polled[2].revents != 0 && feed.fd >= 0) write_feed();
    for (int i = 0; i < 2; i++) {
      if (polled[3 + i].revents != 0) drain(&drains[i]);
    }
    if (polled[0].revents & POLLIN) {
      struct signalfd_siginfo info;
      while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal_number = (int)info.ssi_signo;
        if (signal_number == SIGCHLD) continue;
        if (signal_number == SIGNAL_PARENT_GONE) {
          /* It speaks of a thread; only the process counts. */
          if (getppid() != watch.parent && !watch.released) end_killed();
          continue;
        }
        if (signal_number == SIGVTALRM) end_killed();
        signal_program(signal_number);
      }
      reap();
    }
  }
}

/* Starts I with as many namespaces as the kernel grants; -1 when it grants not even a PID namespace. */
static pid_t start_init(const int go[2], int failure_fd, int ending_fd, int input_fd) {
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
      be_init(go[0], failure_fd, ending_fd, input_fd, choices[i][1]);
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

static _Noreturn void guard(void) {
  if (syscall(NR_close_range, 3, ~0u, 0) != 0) {
    for (int fd = 3; fd < 65536; fd++) close(fd);
  }
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) < 0) _exit(EXIT_SETUP);
  }
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
  static const int heard[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGVTALRM};
  for (size_t i = 0; i < sizeof heard / sizeof heard[0]; i++) sigaddset(&served, heard[i]);
  sigaddset(&served, SIGCHLD);
  sigaddset(&served, SIGNAL_PARENT_GONE);
  int signal_fd = signalfd(-1, &served, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd < 0) fail("signals", errno);
  if (prctl(PR_SET_PDEATHSIG, SIGNAL_PARENT_GONE, 0, 0, 0) != 0) fail("death-signal", errno);

  int failure[2], go[2], ending[2], input_fd = -1;
  if (pipe2(failure, O_CLOEXEC) != 0 || pipe2(go, O_CLOEXEC) != 0 || pipe2(ending, O_CLOEXEC | O_NONBLOCK) != 0) {
    fail("pipe", errno);
  }
  if (options.input == INPUT_NONE) {
    input_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input_fd < 0) fail("input", errno);
  } else if (options.input == INPUT_BYTES) {
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) != 0) fail("input", errno);
    input_fd = pair[0];
    feed.fd = pair[1];
    feed.wanted = options.input_bytes;
    fcntl(feed.fd, F_SETFL, O_NONBLOCK);
  }

  pid_t self = getpid();
  if (options.host_profile) {
    /* Code comes in megabytes, and the writer gets one turn of its event loop a fill: fewer, larger ones. Best effort. */
    for (int fd = 0; fd <= 1; fd++) (void)fcntl(fd, F_SETPIPE_SZ, HOST_PIPE_BYTES);
    watch.child = start_init(go, failure[1], ending[1], input_fd);
    watch.has_init = watch.child > 0;
  }
  if (!watch.has_init) {
    watch.child = fork();
    if (watch.child < 0) fail("fork", errno);
    if (watch.child == 0) become_program(failure[1], input_fd, self);
    watch.program = watch.child;
  }
  watch.ending_fd = ending[0];
  close(failure[1]);
  close(go[0]);
  close(ending[1]);
  if (input_fd >= 0) close(input_fd);

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

/* ---------------------------------------------------------------------------------------------------- checking --- */

/* No call may be on both lists; the filter must fit. For the build and the tests. */
static _Noreturn void self_check(void) {
  for (size_t i = 0; i < sizeof allowed_calls / sizeof allowed_calls[0]; i++) {
    for (size_t j = 0; j < sizeof forbidden_calls / sizeof forbidden_calls[0]; j++) {
      if (allowed_calls[i] == forbidden_calls[j]) {
        char line[64];
        snprintf(line, sizeof line, "mur-confine: call %d is allowed and forbidden\n", allowed_calls[i]);
        say(line);
        _exit(1);
      }
    }
  }
  build_filter();
  char line[64];
  snprintf(line, sizeof line, "filter: %d instructions\n", filter_length);
  ssize_t ignored = write(1, line, strlen(line));
  (void)ignored;
  _exit(0);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "self-check") == 0) self_check();
  read_options(argc, argv);
  guard();
}
