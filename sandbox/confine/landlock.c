/*
 * Landlock: which files a process and all it starts may use, by inode, whatever path leads to them. What no rule grants
 * is refused (spec containment 4.2, 19.9).
 */
#include "confine.h"

#define NET_BIND_TCP (1ull << 0)
#define NET_CONNECT_TCP (1ull << 1)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0)
#define SCOPE_SIGNAL (1ull << 1)
#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1

struct ruleset_attributes {
  uint64_t fs, net, scoped;
};

struct path_attributes {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

int landlock_abi(int limit) {
  long abi = syscall(NR_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
  if (abi < 1) return 0;
  return abi > limit ? limit : (int)abi;
}

/* Not IOCTL_DEV (ABI 5): devices are granted one by one, and what they answer to is theirs to say. */
uint64_t handled_rights(int abi) {
  return FS_V1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
}

uint64_t rights_of(enum right_set set, int abi) {
  static const uint64_t writable = FS_WRITE_FILE | FS_READ_FILE | FS_READ_DIR | FS_REMOVE_DIR | FS_REMOVE_FILE |
                                   FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_FIFO | FS_MAKE_SYM;
  static const uint64_t rights[RIGHT_SETS] = {
      /* Without REFER every rename across directories fails, without TRUNCATE every `>`. */
      [RIGHTS_W] = writable | FS_REFER | FS_TRUNCATE,
      [RIGHTS_WX] = writable | FS_REFER | FS_TRUNCATE | FS_EXECUTE,
      [RIGHTS_RX] = FS_READ_FILE | FS_EXECUTE,
      [RIGHTS_RXL] = FS_READ_FILE | FS_EXECUTE | FS_READ_DIR,
      [RIGHTS_R] = FS_READ_FILE,
      [RIGHTS_RL] = FS_READ_FILE | FS_READ_DIR,
      /* `2>/dev/null` opens with O_TRUNC. */
      [RIGHTS_DRW] = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE,
  };
  return rights[set] & handled_rights(abi);
}

int create_ruleset(int abi, int no_network) {
  struct ruleset_attributes attributes = {handled_rights(abi), 0, 0};
  size_t size = sizeof attributes.fs;
  if (abi >= 4 && no_network) {
    attributes.net = NET_BIND_TCP | NET_CONNECT_TCP;
    size = offsetof(struct ruleset_attributes, scoped);
  }
  if (abi >= 6) {
    /* Without it a command could signal every process of its user, its keeper among them. */
    attributes.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
    size = sizeof attributes;
  }
  return (int)syscall(NR_landlock_create_ruleset, &attributes, size, 0);
}

int grant_path(int ruleset, const char *path, uint64_t rights, int *opened) {
  *opened = 0;
  /* By the call itself: musl's own makes two of it. */
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC);
  if (fd < 0) return -1;
  *opened = 1;
  static const uint64_t of_files = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE;
  struct stat stat;
  int result = 0;
  if ((rights & ~of_files) != 0) {
    /* The kernel refuses a directory's right on a file. */
    result = fstat(fd, &stat);
    if (result == 0 && !S_ISDIR(stat.st_mode)) rights &= of_files;
  }
  if (result == 0) {
    struct path_attributes attributes = {rights, fd};
    result = (int)syscall(NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attributes, 0);
  }
  int error = errno;
  close(fd);
  errno = error;
  return result;
}

int enter_ruleset(int ruleset) { return (int)syscall(NR_landlock_restrict_self, ruleset, 0); }
