/*
 * What the parts of mur-confine share. Each part is one file that reads from top to bottom:
 *
 *   mur_confine.c  the modes
 *   guard.c        guard: the component host
 *   init.c         init: the first process of a PID namespace
 *   run.c          run: one command behind its walls, in the order the kernel sees it
 *   keeper.c       keeper: the session's network
 *   probe.c        probe: what this machine grants
 *   harden.c       harden-check: the tables checked against each other
 *   records.c      the language the runtime gives orders in
 *   control.c      the frames of the control connection
 *   namespaces.c   user, network and PID namespaces
 *   mounts.c       the file tree a command sees
 *   landlock.c     the files it may use
 *   seccomp.c      the calls it may make
 *   process.c      capabilities, signals, limits, children
 */
#ifndef MUR_CONFINE_H
#define MUR_CONFINE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/filter.h>

/* Calls and constants younger than the headers of some build machines. x86-64 and aarch64 share these numbers. */
#define NR_pidfd_send_signal 424
#define NR_open_tree 428
#define NR_move_mount 429
#define NR_pidfd_open 434
#define NR_clone3 435
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

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "only x86-64 and aarch64 are served"
#endif

#define LENGTH_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { EXIT_USAGE = 2, EXIT_SETUP = 125, EXIT_EXEC = 127 };

/* ---------------------------------------------------------------------------------------------------- process.c --- */

/* Writes all of a text to standard error. */
void say(const char *text);
/* One line the runtime knows: `mur-confine: failed: <stage>: <reason>`. */
void say_failure(const char *stage, int error);
_Noreturn void fail(const char *stage, int error);
/* 0, or -1 with errno. */
int write_file(const char *path, const char *text);
/* Strictly decimal; -1 for anything else or a number that does not fit. */
int parse_number(const char *text, unsigned long long *value);
/* Everything from descriptor 3 on is closed; whoever started us left something open. */
void close_inherited(void);
/* Ends the process unless 0, 1 and 2 are open: what is opened next must not become one of them. */
void check_streams(void);
/* Everything from 3 on will be closed by exec. 0, or -1 with errno. */
int close_on_exec(void);
/* No signal blocked, every one at its default. */
void reset_signals(void);
/* Bounding, permitted, effective, inheritable and ambient set emptied. 0, or -1 with errno. */
int drop_capabilities(void);
/* All of these but the bounding set, which means nothing to who never execs. 0, or -1 with errno. */
int clear_capabilities(void);
/* RLIMIT_CORE at which the kernel dumps nothing, and starts no handler for it as it does at 0. */
enum { NO_CORE = 1 };
/* Lowers a limit, soft and hard, never above the inherited hard one. 0, or -1 with errno. */
int lower_limit(int resource, unsigned long long value);
/* The number of a limit's name; -1 for an unknown one. */
int limit_of_name(const char *name);
unsigned long long now_ms(void);
/* Children of all threads of a process; how many were found. 0 also where the kernel does not tell. */
int children_of(pid_t pid, pid_t *list, int room);

/* Limits that are looked after by looking. 0: none. */
struct watched {
  unsigned long long memory_bytes, tree_memory_bytes, tree_processes;
};
enum { SAMPLE_MS = 200 };
int is_watched(const struct watched *watched);
/*
 * Looks once at everything below `root`; `root` itself is no process of the program's. A process above its memory is
 * killed here. The name of the limit passed, NULL when there is none; `*all` is set when all of the tree must go.
 */
const char *sample_tree(const struct watched *watched, pid_t root, int *all);
/*
 * Kills everything below this process, which must be a subreaper, and waits until it is gone, at most ten seconds.
 * `ended` is told of each child.
 */
void kill_below(void);

/* ------------------------------------------------------------------------------------------------- namespaces.c --- */

/*
 * What gives a command its own processes, and with them its own System V memory, semaphores and queues: these have no
 * path that another wall could stand before, and the host's of the same user are as good as its own.
 */
#define OWN_PROCESSES (CLONE_NEWPID | CLONE_NEWIPC)

/* Identity maps of a process in a fresh user namespace. The caller and that process must be dumpable. 0, or -1. */
int map_ids(pid_t pid, uid_t uid, gid_t gid);
/* The same for the calling process, which is dumpable for just this moment. 0, or -1. */
int map_own_ids(uid_t uid, gid_t gid);
/* Loopback up. 0, or -1. */
int raise_loopback(void);
/* Every IPv4 address is this host. 0, or -1. */
int add_local_route(void);
/* Inode number of a process' network namespace (0: this process); 0 when it can't be told. */
unsigned long long network_of(pid_t pid);

/* --------------------------------------------------------------------------------------------------- landlock.c --- */

#define FS_EXECUTE (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_REMOVE_DIR (1ull << 4)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_CHAR (1ull << 6)
#define FS_MAKE_DIR (1ull << 7)
#define FS_MAKE_REG (1ull << 8)
#define FS_MAKE_SOCK (1ull << 9)
#define FS_MAKE_FIFO (1ull << 10)
#define FS_MAKE_BLOCK (1ull << 11)
#define FS_MAKE_SYM (1ull << 12)
#define FS_V1 ((1ull << 13) - 1)
#define FS_REFER (1ull << 13)
#define FS_TRUNCATE (1ull << 14)

enum right_set { RIGHTS_W, RIGHTS_WX, RIGHTS_RX, RIGHTS_RXL, RIGHTS_R, RIGHTS_RL, RIGHTS_DRW, RIGHT_SETS };

/* What the kernel offers, at most `limit`; 0 without Landlock. */
int landlock_abi(int limit);
uint64_t handled_rights(int abi);
/* Rights of a set (spec containment 4.2). */
uint64_t rights_of(enum right_set set, int abi);
/* A ruleset that handles everything the ABI can; with `no_network` TCP too. -1 on failure. */
int create_ruleset(int abi, int no_network);
/* Grants rights on a path and below. 0; -1 with errno when it can't be opened (*opened = 0) or not granted. */
int grant_path(int ruleset, const char *path, uint64_t rights, int *opened);
int enter_ruleset(int ruleset);

/* ---------------------------------------------------------------------------------------------------- seccomp.c --- */

enum filter_kind {
  /* What a command may call. */
  FILTER_COMMAND,
  /* What a component host may call: nothing that reaches a network. */
  FILTER_HOST,
  /* A process that only waits for others: I. */
  FILTER_INIT,
  /* A process that serves its control connection and looks at /proc: H. */
  FILTER_WATCHER,
};

struct filter_options {
  enum filter_kind kind;
  int unix_sockets;
  /* Landlock does not handle truncation here: the filter refuses it where it would need no right to write. */
  int refuse_truncation;
  /* Memory is bounded by looking at what processes have: there must be none that no process has. */
  int sampled_memory;
};

enum { MAX_FILTER = 1024 };

struct filter {
  struct sock_filter code[MAX_FILTER];
  unsigned short length;
};

void build_filter(struct filter *filter, const struct filter_options *options);
/* Loads it into the calling process, which has no_new_privs. 0, or -1. */
int enter_filter(const struct filter *filter);
/* What the filter would answer, for checking it. */
uint32_t evaluate_filter(const struct filter *filter, uint32_t architecture, int call, const uint64_t arguments[6]);
extern const uint32_t native_architecture;
/* Calls that are on no list, ever (spec containment 10.2). */
extern const int forbidden_calls[];
extern const size_t forbidden_count;

/* ---------------------------------------------------------------------------------------------------- records.c --- */

enum operation {
  OP_VERSION, OP_TOKEN, OP_PORT, OP_TIER, OP_EXEC, OP_IDS, OP_JOIN, OP_UNIX, OP_RLIMIT, OP_CGROUP, OP_WATCH, OP_RULE,
  OP_ABI, OP_PIDNS, OP_MOUNTS, OP_RW, OP_REBIND, OP_COVER, OP_TMPMAP, OP_PROTECT, OP_HOLD, OP_BASE, OP_MKDIR, OP_MKFILE,
  OP_SYMLINK, OP_BIND, OP_TMPFS, OP_PROC, OP_DEVPTS, OP_SEAL, OP_CWD, OPERATIONS
};

enum tier { TIER_SEALED, TIER_FULL, TIER_SECCOMP, TIER_ENV };
enum presence { REQUIRED, OPTIONAL };
enum execution { EXECUTABLE, NOT_EXECUTABLE };
enum protection { PROTECT_READ_ONLY, PROTECT_DIRECTORY };
enum bind_access { BIND_READ_ONLY, BIND_WRITABLE, BIND_WRITABLE_EXECUTABLE, BIND_DEVICE, BIND_DATA };
enum watch_name { WATCH_MEMORY, WATCH_TREE_MEMORY, WATCH_TREE_PROCESSES };

enum { MAX_OPERANDS = 4, MAX_PORTS = 16, TOKEN_BYTES = 32 };

struct record {
  enum operation operation;
  /* Each operand as it was written, and what it means where it is a number or a word of a list. */
  const char *text[MAX_OPERANDS];
  unsigned long long value[MAX_OPERANDS];
};

struct spec {
  struct record *records;
  size_t count;
  /* Of a keeper. */
  unsigned char token[TOKEN_BYTES];
  uint16_t ports[MAX_PORTS];
  size_t port_count;
  /* Of a command. */
  enum tier tier;
  const char *program, *cwd;
  char **argv;
  uid_t uid;
  gid_t gid;
  /* 0: no keeper. */
  pid_t keeper;
  unsigned long long keeper_network;
  int unix_sockets, pid_namespace, mount_namespace, abi_limit;
  struct watched watched;
};

enum spec_kind { SPEC_COMMAND, SPEC_KEEPER };

/*
 * Reads the records in `bytes`, which they go on pointing into. NULL, or what is wrong with them: then nothing was
 * allocated.
 */
const char *parse_spec(char *bytes, size_t length, enum spec_kind kind, struct spec *spec);
void free_spec(struct spec *spec);

/* ---------------------------------------------------------------------------------------------------- control.c --- */

enum frame_type {
  FRAME_SPEC = 1, FRAME_READY, FRAME_STARTED, FRAME_FAILED, FRAME_EXITED, FRAME_DNS, FRAME_SIGNAL, FRAME_KILL,
  FRAME_RELEASE, FRAME_STOP
};

enum { FRAME_HEADER = 5, MAX_SPEC_BYTES = 8 << 20, MAX_TEXT = 512 };

/* Why something could not be set up: goes from C or I to H, and from H to the runtime. */
struct failure {
  char stage[16];
  int error;
  /* What was tried, with its path. May be empty. */
  char step[MAX_TEXT];
};

void describe(struct failure *failure, const char *stage, int error, const char *step, const char *path);

/* Four bytes as a number. */
uint32_t little_endian(const unsigned char *bytes);
/* Connects to a socket's path. The descriptor, or -1. */
int connect_control(const char *path);
/* Reads the SPEC frame that opens the connection. Its payload, to be freed; NULL on a broken connection or frame. */
char *read_spec(int control, size_t *length);
/* 0, or -1 when the connection is gone. */
int send_frame(int control, enum frame_type type, const void *payload, size_t length);
void send_failure(int control, const struct failure *failure);

/* ----------------------------------------------------------------------------------------------------- mounts.c --- */

/* Everything read-only, set-uid bits without effect. The caller's mount namespace is its own. 0, or -1. */
int make_mounts_read_only(void);
/* The tree of a command, in the caller's own mount namespace. 0; -1 with `failure` filled in. */
int enter_tree(const struct spec *spec, struct failure *failure);

/* -------------------------------------------------------------------------------------------------------- modes --- */

_Noreturn void guard(int argc, char **argv);
/* `argv[2]` is the program, its own arguments follow, their name first. */
_Noreturn void stand_first(char **argv);
_Noreturn void run_command(const char *control_path);
_Noreturn void keep_network(const char *control_path);
_Noreturn void probe_host(void);
_Noreturn void check_hardening(void);

#endif
