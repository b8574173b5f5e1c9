/*
 * The lists of calls and the filters made of them (spec containment 10, 19.8). What is on no list answers EPERM; what
 * is refused for its arguments answers EACCES; a foreign architecture is killed.
 */
#include "confine.h"
#include <linux/audit.h>
#include <linux/seccomp.h>

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define FLAG_MFD_NOEXEC_SEAL 8u
#define FLAG_TMPFILE 020000000u
/* The type of a socket without its flags. */
#define SOCKET_TYPES 15u
#define SOCKET_STREAM 1u
#define SOCKET_DATAGRAM 2u
#define SOCKET_PACKETS 5u
#define PROTOCOL_TCP 6u
#define PROTOCOL_UDP 17u
/* 4096 of them, as many as there can be, are 256 MiB. */
#define MAX_SAMPLED_SHARE 65536u
/* fcntl's numbers for leases on files, and on directories. */
#define FILE_LEASE 1024u
#define DIRECTORY_LEASE 1040u
/* Modes of fallocate. */
#define ROOM_KEEPS_SIZE 1u
#define ROOM_IS_FREED 2u
#define SOCKET_UNIX 1u
#define SOCKET_INET 2u
#define SOCKET_INET6 10u
#define SOCKET_NETLINK 16u
#define SOCKET_PACKET 17u
#define TERMINAL_TYPE_CHARACTER 0x5412u
#define TERMINAL_LINUX 0x541cu

const uint32_t native_architecture = THIS_ARCHITECTURE;

/* Calls of everything that is contained: those of spec containment 10.1 without the ones that reach for a network. */
static const int common_calls[] = {
    /* process */
    SYS_execve, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigpending, SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_restart_syscall, SYS_set_tid_address,
    SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_prctl, SYS_getpid, SYS_getppid, SYS_gettid, SYS_getpgid,
    SYS_setpgid, SYS_getsid, SYS_setsid, SYS_getpriority, SYS_setpriority, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_setparam, SYS_sched_getscheduler, SYS_sched_setscheduler,
    SYS_sched_getattr, SYS_sched_setattr, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval, SYS_getcpu, SYS_capget, SYS_capset, SYS_getrlimit, SYS_getrusage, SYS_getitimer, SYS_setitimer, SYS_times, SYS_uname, SYS_sysinfo,
    /* memory */
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_mlock, SYS_mlock2, SYS_munlock,
    SYS_mlockall, SYS_munlockall, SYS_membarrier, SYS_msync, SYS_mincore, SYS_pkey_alloc, SYS_pkey_free,
    SYS_pkey_mprotect,
    /* files */
    SYS_close, NR_close_range, SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_preadv,
    SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_dup, SYS_dup3, SYS_flock, SYS_fsync,
    SYS_fdatasync, SYS_fadvise64, SYS_readahead, SYS_ftruncate, SYS_fstat, SYS_newfstatat, SYS_statx,
    SYS_faccessat, NR_faccessat2, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_readlinkat, SYS_umask,
    SYS_sendfile, SYS_copy_file_range, SYS_splice, SYS_tee, SYS_vmsplice, SYS_ppoll, SYS_pselect6, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_pwait, NR_epoll_pwait2, SYS_eventfd2, SYS_pipe2, SYS_inotify_init1, SYS_inotify_add_watch,
    SYS_inotify_rm_watch, SYS_signalfd4, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_statfs,
    SYS_fstatfs,
    /* sockets: on those of a pair, which a rule below admits */
    SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_shutdown, SYS_getsockopt, SYS_setsockopt,
    SYS_getsockname, SYS_getpeername,
    /* time */
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_timer_create,
    SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete,
    /* misc */
    SYS_getrandom, SYS_futex, NR_futex_waitv, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid,
    SYS_getresgid, SYS_getgroups, NR_landlock_create_ruleset, NR_landlock_add_rule, NR_landlock_restrict_self,
#if defined(__x86_64__)
    SYS_vfork, SYS_fork, SYS_pause, SYS_arch_prctl, SYS_getpgrp, SYS_dup2, SYS_stat, SYS_lstat, SYS_access,
    SYS_getdents, SYS_readlink, SYS_poll, SYS_select, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_pipe,
    SYS_inotify_init, SYS_signalfd, SYS_time, SYS_alarm,
#endif
};

/* Opening by name. */
static const int open_calls[] = {
    SYS_openat, NR_openat2,
#if defined(__x86_64__)
    SYS_open,
#endif
};

/* What a command may call besides. */
static const int command_calls[] = {
    /* process */
    SYS_execveat, SYS_ioprio_get, SYS_ioprio_set, NR_pidfd_open, NR_pidfd_send_signal,
    /* memory */
    SYS_shmat, SYS_shmdt, SYS_shmctl,
    /* files */
    SYS_sync, SYS_syncfs, SYS_sync_file_range, SYS_fchown, SYS_fchownat,
    SYS_mkdirat, SYS_unlinkat, SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_utimensat, SYS_getxattr,
    SYS_lgetxattr, SYS_fgetxattr, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_listxattr, SYS_llistxattr,
    SYS_flistxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_name_to_handle_at, SYS_io_setup,
    SYS_io_destroy, SYS_io_submit, SYS_io_cancel, SYS_io_getevents,
#if defined(SYS_renameat)
    SYS_renameat,
#endif
    /* sockets */
    SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_sendmmsg, SYS_recvmmsg,
    /* messages, semaphores, queues: the command's own, in its IPC namespace */
    SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop, SYS_mq_open,
    SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
    /* misc: without capabilities these change nothing but to what one is already */
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_setfsuid,
    SYS_setfsgid,
#if defined(__x86_64__)
    SYS_chown, SYS_lchown, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_link, SYS_symlink, SYS_utime, SYS_utimes,
    SYS_futimesat,
#endif
};

/* I waits for its children, tells H about one of them and ends. */
static const int init_calls[] = {SYS_wait4, SYS_waitid, SYS_write, SYS_exit_group, SYS_rt_sigreturn,
                                 SYS_restart_syscall};

/* H serves its connection, looks at /proc, drains pipes, kills and ends. */
static const int watcher_calls[] = {
    SYS_read, SYS_write, SYS_sendto, SYS_recvfrom, SYS_ppoll, SYS_openat, SYS_getdents64, SYS_close, SYS_wait4,
    SYS_waitid, SYS_kill, SYS_clock_gettime, SYS_nanosleep, SYS_clock_nanosleep, SYS_exit_group, SYS_rt_sigreturn,
    SYS_restart_syscall, SYS_getpid, SYS_munmap, SYS_madvise, SYS_brk, SYS_lseek, SYS_fcntl,
#if defined(__x86_64__)
    SYS_poll, SYS_open,
#endif
};

const int forbidden_calls[] = {
    425, 426, 427, /* io_uring */
    SYS_bpf, SYS_userfaultfd, SYS_perf_event_open, SYS_process_vm_readv, SYS_process_vm_writev, SYS_open_by_handle_at,
    SYS_keyctl, SYS_add_key, SYS_request_key, SYS_ptrace, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
    SYS_unshare, SYS_setns, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_nfsservctl, SYS_lookup_dcookie, SYS_clock_adjtime,
    SYS_clock_settime, SYS_settimeofday, SYS_adjtimex, SYS_set_mempolicy, SYS_get_mempolicy, SYS_mbind,
    SYS_migrate_pages, SYS_move_pages, SYS_fanotify_init, SYS_fanotify_mark, SYS_seccomp, SYS_personality, SYS_kcmp,
    NR_pidfd_getfd, NR_mount_setattr, NR_open_tree, NR_move_mount, 430, 431, 432, 433, /* fsopen … fspick */
#if defined(SYS_kexec_file_load)
    SYS_kexec_file_load,
#endif
#if defined(__x86_64__)
    SYS_iopl, SYS_ioperm, SYS__sysctl, SYS_sysfs, SYS_uselib, SYS_create_module, SYS_get_kernel_syms, SYS_query_module,
#endif
};
const size_t forbidden_count = LENGTH_OF(forbidden_calls);

#define NAMESPACE_FLAGS \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* ----------------------------------------------------------------------------------------------------- building --- */

static void emit(struct filter *filter, uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false) {
  /* A list that outgrows its place must not become a shorter list. */
  if (filter->length == MAX_FILTER) _exit(EXIT_SETUP);
  filter->code[filter->length++] = (struct sock_filter){code, if_true, if_false, value};
}

static void load(struct filter *filter, size_t offset) {
  emit(filter, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}
static void answer(struct filter *filter, uint32_t value) { emit(filter, BPF_RET | BPF_K, value, 0, 0); }
static void deny(struct filter *filter, int error) { answer(filter, SECCOMP_RET_ERRNO | (uint32_t)error); }
static void allow(struct filter *filter) { answer(filter, SECCOMP_RET_ALLOW); }

/*
 * What follows, up to end_if(), is for the value loaded being this one, or having one of these bits. A block about a call
 * must answer: the call's number is loaded no more.
 */
static size_t begin(struct filter *filter, uint16_t jump, uint32_t value) {
  emit(filter, BPF_JMP | jump | BPF_K, value, 0, 0);
  return filter->length - 1u;
}
static size_t if_equal(struct filter *filter, uint32_t value) { return begin(filter, BPF_JEQ, value); }
static size_t if_any(struct filter *filter, uint32_t bits) { return begin(filter, BPF_JSET, bits); }
static void end_if(struct filter *filter, size_t start) {
  size_t distance = filter->length - start - 1;
  if (distance > UINT8_MAX) _exit(EXIT_SETUP);
  filter->code[start].jf = (uint8_t)distance;
}

static void deny_if_equal(struct filter *filter, uint32_t value, int error) {
  size_t block = if_equal(filter, value);
  deny(filter, error);
  end_if(filter, block);
}
static void deny_if_any(struct filter *filter, uint32_t bits, int error) {
  size_t block = if_any(filter, bits);
  deny(filter, error);
  end_if(filter, block);
}
static void allow_if_equal(struct filter *filter, uint32_t value) {
  size_t block = if_equal(filter, value);
  allow(filter);
  end_if(filter, block);
}

/* Both machines are little-endian: the low half of an argument comes first, and most calls look at no more. */
static size_t argument(int index) { return offsetof(struct seccomp_data, args) + (size_t)index * 8; }
static size_t upper_half(int index) { return argument(index) + 4; }

static void keep_bits(struct filter *filter, uint32_t bits) { emit(filter, BPF_ALU | BPF_AND | BPF_K, bits, 0, 0); }

static void rule_sockets(struct filter *filter, int unix_sockets) {
  size_t call = if_equal(filter, SYS_socket);
  load(filter, argument(0));
  size_t local = if_equal(filter, SOCKET_UNIX);
  if (unix_sockets) {
    allow(filter);
  } else {
    deny(filter, EACCES);
  }
  end_if(filter, local);
  /* The next two are known and refused, as on every list of this kind; any other family is unknown. */
  deny_if_equal(filter, SOCKET_NETLINK, EACCES);
  deny_if_equal(filter, SOCKET_PACKET, EACCES);
  static const uint32_t families[] = {SOCKET_INET, SOCKET_INET6};
  for (size_t i = 0; i < LENGTH_OF(families); i++) {
    size_t family = if_equal(filter, families[i]);
    /* TCP and UDP. The other protocols reach nothing here, but a good deal of the kernel. */
    load(filter, argument(1));
    keep_bits(filter, SOCKET_TYPES);
    static const uint32_t types[] = {SOCKET_STREAM, SOCKET_DATAGRAM};
    for (size_t j = 0; j < LENGTH_OF(types); j++) {
      size_t type = if_equal(filter, types[j]);
      load(filter, argument(2));
      allow_if_equal(filter, 0);
      allow_if_equal(filter, j == 0 ? PROTOCOL_TCP : PROTOCOL_UDP);
      deny(filter, EACCES);
      end_if(filter, type);
    }
    deny(filter, EACCES);
    end_if(filter, family);
  }
  deny(filter, EPERM);
  end_if(filter, call);
}

/*
 * A pair is connected to itself, and runtimes wake their threads with one. But one for datagrams would take another
 * address with every message: all sockets of the host that have a path. SOCK_RAW is the same.
 */
static void rule_pairs(struct filter *filter, int unix_sockets) {
  size_t call = if_equal(filter, SYS_socketpair);
  load(filter, argument(0));
  size_t local = if_equal(filter, SOCKET_UNIX);
  if (unix_sockets) {
    allow(filter);
  } else {
    load(filter, argument(1));
    keep_bits(filter, SOCKET_TYPES);
    allow_if_equal(filter, SOCKET_STREAM);
    allow_if_equal(filter, SOCKET_PACKETS);
  }
  end_if(filter, local);
  deny(filter, EACCES);
  end_if(filter, call);
}

/*
 * The limit of core files is 1, which keeps the kernel from dumping at all: with 0, and only then, it would still start
 * the handler that the host's pattern may name, outside of every wall. So it stays; whoever lowers it is told that it was.
 */
static void rule_limits(struct filter *filter) {
  size_t set = if_equal(filter, SYS_setrlimit);
  load(filter, argument(0));
  deny_if_equal(filter, RLIMIT_CORE, 0);
  allow(filter);
  end_if(filter, set);
  set = if_equal(filter, SYS_prlimit64);
  load(filter, argument(1));
  size_t core = if_equal(filter, RLIMIT_CORE);
  /* No new limit: it only asks. */
  load(filter, argument(2));
  size_t low = if_equal(filter, 0);
  load(filter, upper_half(2));
  allow_if_equal(filter, 0);
  end_if(filter, low);
  deny(filter, 0);
  end_if(filter, core);
  allow(filter);
  end_if(filter, set);
}

/*
 * No file that runs with the rights of its owner or group, whoever starts it: on the host it would outlive every wall.
 * `opens` are looked at further.
 */
static void rule_modes(struct filter *filter) {
  static const struct {
    int call, mode;
  } calls[] = {
      {SYS_fchmod, 1}, {SYS_fchmodat, 2}, {NR_fchmodat2, 2}, {SYS_mknodat, 2},
#if defined(__x86_64__)
      {SYS_chmod, 1}, {SYS_mknod, 1}, {SYS_creat, 1},
#endif
  };
  for (size_t i = 0; i < LENGTH_OF(calls); i++) {
    size_t call = if_equal(filter, (uint32_t)calls[i].call);
    load(filter, argument(calls[i].mode));
    deny_if_any(filter, S_ISUID | S_ISGID, EACCES);
    allow(filter);
    end_if(filter, call);
  }
}

static void rule_opens(struct filter *filter, int refuse_truncation) {
  if (refuse_truncation) deny_if_equal(filter, SYS_truncate, EACCES);
  /* Its flags and mode lie in memory, where a filter can't look; there are other calls. */
  deny_if_equal(filter, NR_openat2, ENOSYS);
  static const struct {
    int call, flags;
  } opens[] = {
      {SYS_openat, 2},
#if defined(__x86_64__)
      {SYS_open, 1},
#endif
  };
  for (size_t i = 0; i < LENGTH_OF(opens); i++) {
    size_t call = if_equal(filter, (uint32_t)opens[i].call);
    if (refuse_truncation) {
      load(filter, argument(opens[i].flags));
      /*
       * Opened for writing, Landlock asks for the right to write. Opened for reading, or for neither (the access mode 3),
       * truncating asks for no such right.
       */
      keep_bits(filter, O_TRUNC | 3);
      deny_if_equal(filter, O_TRUNC | O_RDONLY, EACCES);
      deny_if_equal(filter, O_TRUNC | 3, EACCES);
    }
    load(filter, argument(opens[i].flags));
    /* Only these take a mode. */
    size_t makes = if_any(filter, O_CREAT | FLAG_TMPFILE);
    load(filter, argument(opens[i].flags + 1));
    deny_if_any(filter, S_ISUID | S_ISGID, EACCES);
    end_if(filter, makes);
    allow(filter);
    end_if(filter, call);
  }
}

/*
 * A lease needs no right but to read, and stops whoever opens the file until its holder lets go of it or the kernel's
 * patience, 45 seconds, is over: a command could have every program wait for a file that it may only look at.
 */
static void rule_leases(struct filter *filter) {
  size_t call = if_equal(filter, SYS_fcntl);
  load(filter, argument(1));
  deny_if_equal(filter, FILE_LEASE, EACCES);
  deny_if_equal(filter, DIRECTORY_LEASE, EACCES);
  allow(filter);
  end_if(filter, call);
}

/*
 * Room beyond a file's end: the limit of a file's size does not hold it. Who asks for it can do without, as on a file
 * system that has none. Holes are made with the same bit.
 */
static void rule_room(struct filter *filter) {
  size_t call = if_equal(filter, SYS_fallocate);
  load(filter, argument(1));
  keep_bits(filter, ROOM_KEEPS_SIZE | ROOM_IS_FREED);
  deny_if_equal(filter, ROOM_KEEPS_SIZE, EOPNOTSUPP);
  allow(filter);
  end_if(filter, call);
}

/*
 * Memory files. Where memory is bounded by looking at what processes have of it, what can be filled and let go of would be
 * in nobody's sum: then there are none, and only small shares of memory that has a number.
 */
static void rule_memory_files(struct filter *filter, int sampled) {
  if (sampled) deny_if_equal(filter, SYS_memfd_create, ENOSYS);
  size_t call = if_equal(filter, SYS_memfd_create);
  /* One that may be executed would be a program no wall has seen. */
  load(filter, argument(1));
  size_t sealed = if_any(filter, FLAG_MFD_NOEXEC_SEAL);
  allow(filter);
  end_if(filter, sealed);
  deny(filter, EACCES);
  end_if(filter, call);
}

static void rule_shared_memory(struct filter *filter, int sampled) {
  size_t call = if_equal(filter, SYS_shmget);
  if (sampled) {
    load(filter, upper_half(1));
    emit(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    deny(filter, EINVAL);
    load(filter, argument(1));
    emit(filter, BPF_JMP | BPF_JGT | BPF_K, MAX_SAMPLED_SHARE, 0, 1);
    deny(filter, EINVAL);
  }
  allow(filter);
  end_if(filter, call);
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

struct call_list {
  int calls[512];
  size_t count;
};

static void add_calls(struct call_list *list, const int *calls, size_t count) {
  if (list->count + count > LENGTH_OF(list->calls)) _exit(EXIT_SETUP);
  memcpy(list->calls + list->count, calls, count * sizeof *calls);
  list->count += count;
}

/* Neighbouring numbers share one comparison: the kernel runs the filter for every number when it loads it. */
static void allow_calls(struct filter *filter, struct call_list *list) {
  qsort(list->calls, list->count, sizeof *list->calls, ascending);
  for (size_t i = 0; i < list->count;) {
    uint32_t first = (uint32_t)list->calls[i], last = first;
    while (++i < list->count && (uint32_t)list->calls[i] <= last + 1) last = (uint32_t)list->calls[i];
    if (first == last) {
      allow_if_equal(filter, first);
      continue;
    }
    size_t range = begin(filter, BPF_JGE, first);
    emit(filter, BPF_JMP | BPF_JGT | BPF_K, last, 1, 0);
    allow(filter);
    end_if(filter, range);
  }
}

void build_filter(struct filter *filter, const struct filter_options *options) {
  const int contained = options->kind == FILTER_COMMAND || options->kind == FILTER_HOST;
  filter->length = 0;
  load(filter, offsetof(struct seccomp_data, arch));
  emit(filter, BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0);
  answer(filter, SECCOMP_RET_KILL_PROCESS);
  load(filter, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
  /* Numbers of the x32 interface would slip past a list of the others. */
  size_t x32 = begin(filter, BPF_JGE, 0x40000000u);
  deny(filter, EPERM);
  end_if(filter, x32);
#endif
  struct call_list list = {.count = 0};
  if (contained) {
    if (options->kind == FILTER_COMMAND) {
      rule_sockets(filter, options->unix_sockets);
    } else {
      deny_if_equal(filter, SYS_socket, EACCES);
    }
    rule_pairs(filter, options->unix_sockets);
    /* Its flags lie in memory; libcs fall back to clone, whose flags can be seen. */
    deny_if_equal(filter, NR_clone3, ENOSYS);
    size_t call = if_equal(filter, SYS_clone);
    load(filter, argument(0));
    deny_if_any(filter, NAMESPACE_FLAGS, EPERM);
    allow(filter);
    end_if(filter, call);
    /* Typing into a terminal. */
    call = if_equal(filter, SYS_ioctl);
    load(filter, argument(1));
    deny_if_equal(filter, TERMINAL_TYPE_CHARACTER, EACCES);
    deny_if_equal(filter, TERMINAL_LINUX, EACCES);
    allow(filter);
    end_if(filter, call);
    rule_memory_files(filter, options->sampled_memory);
    rule_limits(filter);
    rule_leases(filter);
    rule_room(filter);
    add_calls(&list, common_calls, LENGTH_OF(common_calls));
    if (options->kind == FILTER_COMMAND) {
      rule_shared_memory(filter, options->sampled_memory);
      rule_modes(filter);
      rule_opens(filter, options->refuse_truncation);
      add_calls(&list, command_calls, LENGTH_OF(command_calls));
      static const int truncate_call[] = {SYS_truncate};
      if (!options->refuse_truncation) add_calls(&list, truncate_call, 1);
    } else {
      add_calls(&list, open_calls, LENGTH_OF(open_calls));
    }
  } else if (options->kind == FILTER_INIT) {
    add_calls(&list, init_calls, LENGTH_OF(init_calls));
  } else {
    add_calls(&list, watcher_calls, LENGTH_OF(watcher_calls));
  }
  allow_calls(filter, &list);
  deny(filter, EPERM);
}

int enter_filter(const struct filter *filter) {
  struct sock_fprog program = {filter->length, (struct sock_filter *)filter->code};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, &program) == 0) return 0;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* The few instructions that the filters are made of, carried out as the kernel would. */
uint32_t evaluate_filter(const struct filter *filter, uint32_t architecture, int call, const uint64_t arguments[6]) {
  struct seccomp_data data = {.nr = call, .arch = architecture};
  memcpy(data.args, arguments, sizeof data.args);
  uint32_t value = 0;
  for (size_t at = 0; at < filter->length; at++) {
    const struct sock_filter *step = &filter->code[at];
    switch (step->code) {
      case BPF_LD | BPF_W | BPF_ABS:
        memcpy(&value, (const char *)&data + step->k, sizeof value);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        value &= step->k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += value == step->k ? step->jt : step->jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += value >= step->k ? step->jt : step->jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += value > step->k ? step->jt : step->jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (value & step->k) != 0 ? step->jt : step->jf;
        break;
      case BPF_RET | BPF_K:
        return step->k;
      default:
        _exit(EXIT_SETUP);
    }
  }
  _exit(EXIT_SETUP);
}
