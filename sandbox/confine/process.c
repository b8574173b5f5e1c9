/*
 * What every mode needs of processes: descriptors, signals, capabilities, limits, and the tree of children.
 */
#include "confine.h"
#include <linux/capability.h>

void say(const char *text) {
  size_t length = strlen(text);
  while (length > 0) {
    ssize_t written = write(2, text, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    length -= (size_t)written;
  }
}

void say_failure(const char *stage, int error) {
  char line[256];
  snprintf(line, sizeof line, "mur-confine: failed: %s: %s\n", stage, strerror(error));
  say(line);
}

_Noreturn void fail(const char *stage, int error) {
  say_failure(stage, error);
  _exit(EXIT_SETUP);
}

int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t written = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return written == (ssize_t)strlen(text) ? 0 : -1;
}

int parse_number(const char *text, unsigned long long *value) {
  if (*text < '0' || *text > '9') return -1;
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return errno == 0 && *end == '\0' ? 0 : -1;
}

enum { DESCRIPTORS_TRIED = 65536 };

void close_inherited(void) {
  if (syscall(NR_close_range, 3, ~0u, 0) == 0) return;
  for (int fd = 3; fd < DESCRIPTORS_TRIED; fd++) close(fd);
}

void check_streams(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) < 0) _exit(EXIT_SETUP);
  }
}

int close_on_exec(void) { return (int)syscall(NR_close_range, 3, ~0u, RANGE_CLOEXEC); }

void reset_signals(void) {
  /* By the call itself: libc keeps two numbers to itself that may be inherited as ignored. All zero is SIG_DFL. */
  static const unsigned long long default_action[4];
  for (int number = 1; number <= 64; number++) syscall(SYS_rt_sigaction, number, default_action, NULL, 8);
  sigset_t nothing;
  sigemptyset(&nothing);
  sigprocmask(SIG_SETMASK, &nothing, NULL);
}

/*
 * The bounding set goes first, while dropping from it is still allowed; then the own sets, which empties the ambient
 * one.
 */
int drop_capabilities(void) {
  for (int cap = 0; cap <= 63; cap++) {
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0 || errno == EPERM) continue;
    /* The first number that is no capability. */
    if (errno == EINVAL) break;
    return -1;
  }
  return clear_capabilities();
}

int clear_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  return (int)syscall(SYS_capset, &header, none);
}

int lower_limit(int resource, unsigned long long value) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0) return -1;
  if (value > limit.rlim_max) value = limit.rlim_max;
  limit.rlim_cur = (rlim_t)value;
  /* At the hard limit the kernel sends SIGKILL; a second between lets SIGXCPU say what happened. */
  if (resource == RLIMIT_CPU && value < limit.rlim_max) value++;
  limit.rlim_max = (rlim_t)value;
  return setrlimit(resource, &limit);
}

int limit_of_name(const char *name) {
  static const struct {
    const char *name;
    int resource;
  } names[] = {{"nofile", RLIMIT_NOFILE}, {"fsize", RLIMIT_FSIZE}, {"cpu", RLIMIT_CPU}, {"nproc", RLIMIT_NPROC},
               {"as", RLIMIT_AS}};
  for (size_t i = 0; i < LENGTH_OF(names); i++) {
    if (strcmp(name, names[i].name) == 0) return names[i].resource;
  }
  return -1;
}

unsigned long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

/* --------------------------------------------------------------------------------------------- tree of children --- */

/* Appends the numbers of one thread's list. */
static int read_children(const char *path, pid_t *list, int room) {
  static char text[65536];
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

struct kernel_entry {
  uint64_t inode;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[];
};

/* A child belongs to the thread that made it: all of them are asked. */
int children_of(pid_t pid, pid_t *list, int room) {
  char path[96];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  int threads = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (threads < 0) return 0;
  _Alignas(struct kernel_entry) char entries[4096];
  int count = 0;
  long length;
  while ((length = syscall(SYS_getdents64, threads, entries, sizeof entries)) > 0) {
    for (long at = 0; at < length;) {
      const struct kernel_entry *entry = (const struct kernel_entry *)(entries + at);
      at += entry->length;
      if (entry->name[0] == '.') continue;
      snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, entry->name);
      count += read_children(path, list + count, room - count);
    }
  }
  close(threads);
  return count;
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
  char *end;
  strtoull(text, &end, 10);
  return strtoull(end, NULL, 10) * (unsigned long long)sysconf(_SC_PAGESIZE);
}

int is_watched(const struct watched *watched) {
  return watched->memory_bytes > 0 || watched->tree_memory_bytes > 0 || watched->tree_processes > 0;
}

enum { MAX_SAMPLED = 16384 };

const char *sample_tree(const struct watched *watched, pid_t root, int *all) {
  static pid_t pids[MAX_SAMPLED];
  const char *exceeded = NULL;
  unsigned long long memory = 0;
  *all = 0;
  int count = children_of(root, pids, MAX_SAMPLED);
  for (int i = 0; i < count; i++) {
    count += children_of(pids[i], pids + count, MAX_SAMPLED - count);
    /* At once: while they are counted a bomb goes on. */
    if (watched->tree_processes > 0 && (unsigned long long)count > watched->tree_processes) {
      *all = 1;
      return "cgroup_pids_max";
    }
    if (watched->memory_bytes == 0 && watched->tree_memory_bytes == 0) continue;
    unsigned long long resident = resident_bytes(pids[i]);
    memory += resident;
    if (watched->memory_bytes > 0 && resident > watched->memory_bytes) {
      kill(pids[i], SIGKILL);
      exceeded = "memory_bytes";
    }
  }
  if (watched->tree_memory_bytes > 0 && memory > watched->tree_memory_bytes) {
    *all = 1;
    return "cgroup_memory_bytes";
  }
  return exceeded;
}

void kill_below(void) {
  for (int rounds = 0; rounds < 5000; rounds++) {
    pid_t list[512];
    int count = children_of(getpid(), list, 512);
    for (int i = 0; i < count; i++) kill(list[i], SIGKILL);
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
    }
    if (ended < 0 && errno == ECHILD) return;
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  }
}
