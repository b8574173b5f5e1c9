/*
 * probe: what this machine grants, found by trying (spec containment 1.2, 1.5). Each try is a child of its own: what
 * is entered there can't be left again. Prints one line of JSON; no version is looked at and no file but those that
 * speak of user namespaces.
 */
#include "confine.h"
#include <sys/mount.h>

enum outcome {
  OUTCOME_OK, OUTCOME_DENIED, OUTCOME_MAP_DENIED, OUTCOME_CONFIG_DENIED, OUTCOME_MOUNT_DENIED, OUTCOME_PIVOT_DENIED,
  OUTCOME_UNSUPPORTED, OUTCOMES
};

static const char *const outcome_names[OUTCOMES] = {"ok",           "denied",       "map-denied", "config-denied",
                                                    "mount-denied", "pivot-denied", "unsupported"};

/* Read before any unshare: in a namespace without maps they are nobody's. */
static uid_t uid;
static gid_t gid;

static enum outcome in_child(enum outcome (*attempt)(void)) {
  pid_t pid = fork();
  if (pid == 0) _exit((int)attempt());
  int status;
  if (pid < 0) return OUTCOME_UNSUPPORTED;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return OUTCOME_UNSUPPORTED;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) >= OUTCOMES) return OUTCOME_UNSUPPORTED;
  return (enum outcome)WEXITSTATUS(status);
}

/* Every right of the first ABI, handled and granted on everything. */
static enum outcome try_landlock(void) {
  int abi = landlock_abi(1), opened;
  int ruleset = abi < 1 ? -1 : create_ruleset(abi, 0);
  if (ruleset < 0) return OUTCOME_UNSUPPORTED;
  if (grant_path(ruleset, "/", FS_V1, &opened) != 0) return OUTCOME_UNSUPPORTED;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return OUTCOME_UNSUPPORTED;
  return enter_ruleset(ruleset) == 0 ? OUTCOME_OK : OUTCOME_UNSUPPORTED;
}

static enum outcome unshare_with(int flags) {
  if (unshare(CLONE_NEWUSER | flags) != 0) return errno == EPERM ? OUTCOME_DENIED : OUTCOME_UNSUPPORTED;
  return map_own_ids(uid, gid) == 0 ? OUTCOME_OK : OUTCOME_MAP_DENIED;
}

static enum outcome try_network(void) {
  enum outcome outcome = unshare_with(CLONE_NEWNET);
  if (outcome != OUTCOME_OK) return outcome;
  return raise_loopback() == 0 && add_local_route() == 0 ? OUTCOME_OK : OUTCOME_CONFIG_DENIED;
}

static enum outcome try_sealed(void) {
  static const char *const bases[] = {"/tmp", "/run", "/var/tmp", "/mnt", "/media"};
  enum outcome outcome = unshare_with(CLONE_NEWNS);
  if (outcome != OUTCOME_OK) return outcome;
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return OUTCOME_MOUNT_DENIED;
  int stands = 0;
  for (size_t i = 0; !stands && i < LENGTH_OF(bases); i++) {
    struct stat stat_of;
    if (stat(bases[i], &stat_of) != 0 || !S_ISDIR(stat_of.st_mode)) continue;
    stands = mount("tmpfs", bases[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") == 0 && chdir(bases[i]) == 0;
  }
  if (!stands || mkdir("old", 0700) != 0) return OUTCOME_MOUNT_DENIED;
  if (syscall(SYS_pivot_root, ".", "old") != 0) return OUTCOME_PIVOT_DENIED;
  return chdir("/") == 0 && umount2("/old", MNT_DETACH) == 0 ? OUTCOME_OK : OUTCOME_PIVOT_DENIED;
}

/* As a command without a composed root needs it. */
static enum outcome try_mounts(void) {
  enum outcome outcome = unshare_with(CLONE_NEWNS);
  if (outcome != OUTCOME_OK) return outcome;
  struct failure failure;
  struct record record = {.operation = OP_RW, .text = {"noexec", "/tmp"}, .value = {NOT_EXECUTABLE, 0}};
  struct stat stat_of;
  if (lstat("/tmp", &stat_of) != 0 || !S_ISDIR(stat_of.st_mode)) record.text[1] = "/";
  struct spec spec = {.records = &record, .count = 1, .tier = TIER_FULL};
  return enter_tree(&spec, &failure) == 0 ? OUTCOME_OK : OUTCOME_MOUNT_DENIED;
}

/* A namespace in a namespace, as a command is in its keeper's. */
static pid_t nested_init(int flags) {
  if (unshare_with(CLONE_NEWNET) != OUTCOME_OK) return -1;
  pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | OWN_PROCESSES | flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0 && map_own_ids(uid, gid) != 0) _exit(1);
  return pid;
}

static enum outcome outcome_of(pid_t pid) {
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return OUTCOME_UNSUPPORTED;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? OUTCOME_OK : OUTCOME_UNSUPPORTED;
}

static enum outcome try_init(void) {
  pid_t pid = nested_init(0);
  if (pid != 0) return outcome_of(pid);
  /* Init: a grandchild whose parent has gone is its to reap. */
  pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) _exit(0);
    _exit(0);
  }
  int reaped = 0;
  while (waitpid(-1, NULL, 0) > 0) reaped++;
  _exit(getpid() == 1 && child > 0 && reaped == 2 ? 0 : 1);
}

/* A /proc of the namespace's own, refused where the host's is partly covered. */
static enum outcome try_proc(void) {
  pid_t pid = nested_init(CLONE_NEWNS);
  if (pid != 0) return outcome_of(pid);
  int own = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
  _exit(own ? 0 : 1);
}

/* Whether the tree of processes can be walked, for limits that are sampled. */
static enum outcome try_sampling(void) {
  pid_t child = fork(), found[4];
  if (child < 0) return OUTCOME_UNSUPPORTED;
  if (child == 0) {
    pause();
    _exit(0);
  }
  int count = children_of(getpid(), found, 4);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return count == 1 && found[0] == child ? OUTCOME_OK : OUTCOME_UNSUPPORTED;
}

/* Whether a switch of the kernel's says yes. */
static int says_yes(const char *path) {
  char byte = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t length = read(fd, &byte, 1);
  close(fd);
  return length == 1 && (byte == 'Y' || byte == '1');
}

/* Who lets this program make user namespaces. In this process: AppArmor judges by the program's path. */
static const char *namespace_grant(void) {
  if (!says_yes("/sys/module/apparmor/parameters/enabled")) return "apparmor_absent";
  if (!says_yes("/sys/module/apparmor/parameters/restrict_unprivileged_userns") &&
      !says_yes("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) {
    return "restriction_disabled_host_wide";
  }
  static const char profile[] = "mur-sealed";
  char current[sizeof profile] = {0};
  int fd = open("/proc/self/attr/current", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    ssize_t length = read(fd, current, sizeof profile - 1);
    close(fd);
    if (length == sizeof profile - 1 && strcmp(current, profile) == 0) return "profile_confining";
  }
  return "withheld";
}

_Noreturn void probe_host(void) {
  close_inherited();
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  uid = geteuid();
  gid = getegid();
  const char *grant = namespace_grant();
  int landlock = in_child(try_landlock) == OUTCOME_OK;
  enum outcome network = in_child(try_network), sealed = in_child(try_sealed), mounts = in_child(try_mounts);
  enum outcome init = in_child(try_init), proc = in_child(try_proc), sampling = in_child(try_sampling);
  printf("{\"landlock_abi\":%d,\"landlock\":%s,\"netns\":\"%s\",\"sealed\":\"%s\",\"mountns\":\"%s\",\"pidns\":%s,"
         "\"own_proc\":%s,\"sampling\":%s,\"apparmor\":\"%s\"}\n",
         landlock_abi(INT_MAX), landlock ? "true" : "false", outcome_names[network], outcome_names[sealed],
         outcome_names[mounts], init == OUTCOME_OK ? "true" : "false", proc == OUTCOME_OK ? "true" : "false",
         sampling == OUTCOME_OK ? "true" : "false", grant);
  _exit(fflush(stdout) == 0 ? 0 : 1);
}
