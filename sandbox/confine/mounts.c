/*
 * The tree of files a command sees: the host's, read-only but for what was granted, or one composed of what was named
 * (spec containment 4.8, 5, 8, 19.7).
 *
 * All of it happens in a mount namespace of its own, in a user namespace of its own. Nothing is seen outside, and what
 * the host locked stays locked.
 */
#include "confine.h"
#include <sys/mount.h>

#define OPEN_TREE_CLONE_FLAG 1u
#define OPEN_TREE_CLOEXEC_FLAG ((unsigned)O_CLOEXEC)
#define RECURSIVE 0x8000u /* AT_RECURSIVE */
#define MOVE_FROM_DESCRIPTOR 0x4u
#define MOVE_TO_DESCRIPTOR 0x40u
#define ATTRIBUTE_RDONLY 1u
#define ATTRIBUTE_NOSUID 2u
#define ATTRIBUTE_NODEV 4u
#define ATTRIBUTE_NOEXEC 8u
#define RESOLVE_NO_LINKS (0x02u | 0x04u) /* NO_MAGICLINKS, NO_SYMLINKS */
#define RESOLVE_BELOW 0x08u

struct open_how_arguments {
  uint64_t flags, mode, resolve;
};

struct mount_attributes {
  uint64_t set, clear, propagation, userns;
};

static int open_place(int directory, const char *path, int flags, uint64_t resolve) {
  struct open_how_arguments how = {(uint64_t)flags | O_CLOEXEC, 0, resolve};
  return (int)syscall(NR_openat2, directory, path, &how, sizeof how);
}

static int set_attributes(int tree, const char *path, unsigned flags, uint64_t set) {
  struct mount_attributes attributes = {set, 0, 0, 0};
  return (int)syscall(NR_mount_setattr, tree, path, flags, &attributes, sizeof attributes);
}

/*
 * A copy of the tree at a path, or at a place with an empty path, with everything mounted below; mounted nowhere yet.
 */
static int copy_tree(int place, const char *path) {
  return (int)syscall(NR_open_tree, place, path,
                      OPEN_TREE_CLONE_FLAG | OPEN_TREE_CLOEXEC_FLAG | AT_EMPTY_PATH | RECURSIVE);
}

static int mount_tree(int tree, int place) {
  return (int)syscall(NR_move_mount, tree, "", place, "", MOVE_FROM_DESCRIPTOR | MOVE_TO_DESCRIPTOR);
}

/* mount_setattr reaches every mount below; a remount would reach the top one only, and fail where flags are locked. */
int make_mounts_read_only(void) {
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return -1;
  return set_attributes(AT_FDCWD, "/", RECURSIVE, ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID);
}

/*
 * The command's own processes alone. Read-only: the kernel lets uid 0 write its settings there without any capability.
 * Refused where parts of the host's /proc are covered by other mounts, as containers have it: then the host's is what
 * there is, made read-only with the rest.
 */
static int mount_own_proc(const char *path) {
  return mount("proc", path, "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static uint64_t writable_attributes(enum execution execution) {
  return ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV | (execution == NOT_EXECUTABLE ? ATTRIBUTE_NOEXEC : 0);
}

/*
 * Binds trusted files read-only, and the directories above them onto themselves: what is a mount point can be neither
 * renamed nor removed. `root` is the directory that paths begin at.
 */
static int protect_trusted(const struct spec *spec, int root, struct failure *failure, const char *stage) {
  for (size_t i = 0; i < spec->count; i++) {
    const struct record *record = &spec->records[i];
    if (record->operation != OP_PROTECT) continue;
    const char *path = record->text[1];
    const char *below = path[1] == '\0' ? "." : path + 1;
    int place = open_place(root, below, O_PATH, RESOLVE_NO_LINKS | RESOLVE_BELOW);
    int tree = place < 0 ? -1 : copy_tree(place, "");
    int done = tree < 0 ? -1 : 0;
    if (done == 0 && record->value[0] == PROTECT_READ_ONLY) {
      done = set_attributes(tree, "", AT_EMPTY_PATH | RECURSIVE, ATTRIBUTE_RDONLY);
    }
    if (done == 0) done = mount_tree(tree, place);
    int error = errno;
    if (tree >= 0) close(tree);
    if (place >= 0) close(place);
    if (done != 0) {
      describe(failure, stage, error, "protect", path);
      return -1;
    }
  }
  return 0;
}

/* ---------------------------------------------------------------------------------------------- the host's tree --- */

/*
 * A place below `root` for a mount, made where it is missing. What lies there may be the agent's work: no symbolic
 * link is followed, or it could choose what its own writable folder covers.
 */
static int make_place(int root, const char *below, int directory) {
  char path[PATH_MAX];
  int at = dup(root);
  while (at >= 0) {
    const char *end = strchr(below, '/');
    size_t length = end == NULL ? strlen(below) : (size_t)(end - below);
    if (length >= sizeof path) {
      close(at);
      errno = ENAMETOOLONG;
      return -1;
    }
    memcpy(path, below, length);
    path[length] = '\0';
    int is_directory = end != NULL || directory;
    if (is_directory) {
      (void)mkdirat(at, path, 0755);
    } else {
      int file = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (file >= 0) close(file);
    }
    /* Whether it could be made shows when it is opened. */
    int next = open_place(at, path, O_PATH | O_NOFOLLOW | (is_directory ? O_DIRECTORY : 0),
                          RESOLVE_NO_LINKS | RESOLVE_BELOW);
    int error = errno;
    close(at);
    errno = error;
    if (end == NULL) return next;
    at = next;
    below = end + 1;
  }
  return -1;
}

static int keeps_tree(const struct record *record) {
  return record->operation == OP_RW || record->operation == OP_REBIND || record->operation == OP_COVER ||
         record->operation == OP_TMPMAP;
}

/* Where its tree goes; a folder for /tmp is named by where it comes from. */
static const char *path_of(const struct record *record) { return record->text[1]; }

static const char *source_of(const struct record *record) {
  return record->text[record->operation == OP_COVER ? 0 : 1];
}

/*
 * Devices that stay. A read-only mount does not keep a device from being written, and whoever is root owns the disks: all
 * others are closed with the mounts they lie in.
 */
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};

/* One that is not there is done without. */
static void copy_devices(int trees[]) {
  for (size_t i = 0; i < LENGTH_OF(devices); i++) {
    int place = open_place(AT_FDCWD, devices[i], O_PATH, RESOLVE_NO_LINKS);
    struct stat stat;
    trees[i] = place < 0 || fstat(place, &stat) != 0 || !S_ISCHR(stat.st_mode) ? -1 : copy_tree(place, "");
    if (place >= 0) close(place);
  }
}

static int lay_devices(const int trees[]) {
  for (size_t i = 0; i < LENGTH_OF(devices); i++) {
    if (trees[i] < 0) continue;
    uint64_t attributes = ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID | ATTRIBUTE_NOEXEC;
    if (set_attributes(trees[i], "", AT_EMPTY_PATH | RECURSIVE, attributes) != 0) return -1;
    int place = open_place(AT_FDCWD, devices[i], O_PATH, RESOLVE_NO_LINKS);
    int result = place < 0 ? -1 : mount_tree(trees[i], place);
    int error = errno;
    if (place >= 0) close(place);
    close(trees[i]);
    errno = error;
    if (result != 0) return -1;
  }
  return 0;
}

static int lay_tree(const struct record *record, int tree, int tmp) {
  const char *path = path_of(record);
  int place;
  if (record->operation == OP_TMPMAP) {
    place = open_place(AT_FDCWD, "/tmp", O_PATH | O_DIRECTORY, 0);
  } else if (tmp >= 0 && strncmp(path, "/tmp/", 5) == 0) {
    struct stat stat;
    if (fstat(tree, &stat) != 0) return -1;
    place = make_place(tmp, path + 5, S_ISDIR(stat.st_mode));
  } else {
    place = open_place(AT_FDCWD, path, O_PATH, RESOLVE_NO_LINKS);
  }
  if (place < 0) return -1;
  int result = mount_tree(tree, place);
  int error = errno;
  close(place);
  errno = error;
  return result;
}

static int enter_host_tree(const struct spec *spec, struct failure *failure) {
  const char *stage = "mounts";
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    describe(failure, stage, errno, "private", "/");
    return -1;
  }
  /* Copies are taken first: of what is writable still, and of what /tmp will cover. */
  int *trees = calloc(spec->count, sizeof *trees);
  if (trees == NULL) {
    describe(failure, stage, ENOMEM, "copies", NULL);
    return -1;
  }
  for (size_t i = 0; i < spec->count; i++) {
    const struct record *record = &spec->records[i];
    if (!keeps_tree(record)) continue;
    int place = open_place(AT_FDCWD, source_of(record), O_PATH, RESOLVE_NO_LINKS);
    trees[i] = place < 0 ? -1 : copy_tree(place, "");
    uint64_t attributes =
        writable_attributes(record->operation == OP_COVER ? NOT_EXECUTABLE : (enum execution)record->value[0]);
    /* What the runtime writes down for a command is the command's own words: it must not run either. */
    if (record->operation == OP_REBIND || record->operation == OP_COVER) attributes |= ATTRIBUTE_RDONLY;
    if (trees[i] < 0 || set_attributes(trees[i], "", AT_EMPTY_PATH | RECURSIVE, attributes) != 0) {
      describe(failure, stage, errno, "copy", source_of(record));
      return -1;
    }
    close(place);
  }
  int device_trees[LENGTH_OF(devices)];
  copy_devices(device_trees);
  if (set_attributes(AT_FDCWD, "/", RECURSIVE, ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV) != 0) {
    describe(failure, stage, errno, "read-only", "/");
    return -1;
  }
  if (lay_devices(device_trees) != 0) {
    describe(failure, stage, errno, "devices", "/dev");
    return -1;
  }
  int tmp = -1;
  for (int pass = 0; pass < 2; pass++) {
    /* /tmp before what lies below it. */
    for (size_t i = 0; i < spec->count; i++) {
      const struct record *record = &spec->records[i];
      if (!keeps_tree(record) || (record->operation == OP_TMPMAP) != (pass == 0)) continue;
      if (lay_tree(record, trees[i], tmp) != 0) {
        describe(failure, stage, errno, record->operation == OP_TMPMAP ? "tmpmap" : "place", path_of(record));
        return -1;
      }
      if (record->operation == OP_TMPMAP) {
        tmp = open_place(AT_FDCWD, "/tmp", O_PATH | O_DIRECTORY, 0);
        if (tmp < 0) {
          describe(failure, stage, errno, "tmpmap", path_of(record));
          return -1;
        }
      }
      close(trees[i]);
    }
  }
  if (tmp >= 0) close(tmp);
  free(trees);
  int root = open_place(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
  if (root < 0) {
    describe(failure, stage, errno, "open", "/");
    return -1;
  }
  int result = protect_trusted(spec, root, failure, stage);
  close(root);
  if (result == 0 && spec->pid_namespace) (void)mount_own_proc("/proc");
  return result;
}

/* -------------------------------------------------------------------------------------------- the composed root --- */

static const char parking[] = ".mur-oldroot";

/* The directory that the last entry was made in: what follows mostly goes into the same. */
static struct {
  int fd;
  char path[PATH_MAX];
} parent = {.fd = -1};

static void forget_parent(void) {
  if (parent.fd >= 0) close(parent.fd);
  parent.fd = -1;
}

/* Something was mounted at a path: what lay there or below is not what its name means any more. */
static void covered(const char *path) {
  size_t length = strlen(path);
  if (parent.fd < 0 || strncmp(parent.path, path, length) != 0) return;
  if (parent.path[length] == '\0' || parent.path[length] == '/') forget_parent();
}

/* Parent directory of a path in the new root, held until another is asked for, and the path's last part. */
static int open_parent(int root, const char *path, const char **name) {
  const char *slash = strrchr(path, '/');
  size_t length = (size_t)(slash - path);
  *name = slash + 1;
  if (parent.fd >= 0 && strlen(parent.path) == length && memcmp(parent.path, path, length) == 0) return parent.fd;
  forget_parent();
  memcpy(parent.path, path, length);
  parent.path[length] = '\0';
  const char *below = length == 0 ? "." : parent.path + 1;
  parent.fd = open_place(root, below, O_PATH | O_DIRECTORY, RESOLVE_NO_LINKS | RESOLVE_BELOW);
  return parent.fd;
}

static int make_entry(int root, const struct record *record) {
  const char *name;
  int directory = open_parent(root, record->operation == OP_SYMLINK ? record->text[1] : record->text[0], &name);
  if (directory < 0) return -1;
  if (record->operation == OP_SYMLINK) return symlinkat(record->text[0], directory, name);
  int result = record->operation == OP_MKDIR ? mkdirat(directory, name, 0755)
                                             : mknodat(directory, name, S_IFREG | 0444, 0);
  return result != 0 && errno == EEXIST ? 0 : result;
}

static int bind_into(int root, const struct record *record) {
  static const uint64_t attributes[] = {
      [BIND_READ_ONLY] = ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV,
      [BIND_WRITABLE] = ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV | ATTRIBUTE_NOEXEC,
      [BIND_WRITABLE_EXECUTABLE] = ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV,
      [BIND_DEVICE] = ATTRIBUTE_NOSUID | ATTRIBUTE_NOEXEC,
      [BIND_DATA] = ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV | ATTRIBUTE_NOEXEC,
  };
  int tree = copy_tree(AT_FDCWD, record->text[2]), result = -1;
  if (tree < 0) return -1;
  if (set_attributes(tree, "", AT_EMPTY_PATH | RECURSIVE, attributes[record->value[0]]) == 0) {
    int place = open_place(root, record->text[3] + 1, O_PATH, RESOLVE_NO_LINKS | RESOLVE_BELOW);
    if (place >= 0) {
      result = mount_tree(tree, place);
      int error = errno;
      close(place);
      errno = error;
    }
  }
  int error = errno;
  close(tree);
  covered(record->text[3]);
  errno = error;
  return result;
}

/* Mounts a new file system at a path in the new root. */
static int mount_into(const char *base, const struct record *record) {
  char path[PATH_MAX * 2];
  snprintf(path, sizeof path, "%s%s", base, record->text[0]);
  switch (record->operation) {
    case OP_TMPFS:
      return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=1m");
    case OP_DEVPTS:
      /* A terminal of its own is a convenience. */
      (void)mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620");
      return 0;
    default:
      if (mount_own_proc(path) == 0) return 0;
      if (mount("/proc", path, NULL, MS_BIND | MS_REC, NULL) != 0) return -1;
      return set_attributes(AT_FDCWD, path, RECURSIVE,
                            ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV | ATTRIBUTE_NOEXEC);
  }
}

/*
 * Turns the new root into the root. The old one is parked in it, let go, and must then be gone: as long as it is
 * reachable, so is the host.
 */
static int seal(const struct spec *spec, int root, const char **step) {
  *step = "park";
  if (mkdirat(root, parking, 0700) != 0 || fchdir(root) != 0) return -1;
  *step = "pivot_root";
  if (syscall(SYS_pivot_root, ".", parking) != 0) return -1;
  *step = "chdir";
  if (chdir("/") != 0) return -1;
  *step = "umount";
  char parked[sizeof parking + 1] = "/";
  strcat(parked, parking);
  if (umount2(parked, MNT_DETACH) != 0) return -1;
  (void)rmdir(parked);
  *step = "verify";
  struct stat stat_of;
  if (stat(parked, &stat_of) == 0) {
    errno = EBUSY;
    return -1;
  }
  /* Only these mounts themselves: what was bound below keeps its own way. */
  *step = "read-only";
  if (set_attributes(AT_FDCWD, "/", 0, ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID | ATTRIBUTE_NODEV) != 0) return -1;
  for (size_t i = 0; i < spec->count; i++) {
    const struct record *record = &spec->records[i];
    if (record->operation != OP_TMPFS) continue;
    if (set_attributes(AT_FDCWD, record->text[0], 0, ATTRIBUTE_RDONLY) != 0) return -1;
  }
  return 0;
}

static const char *const step_names[OPERATIONS] = {
    [OP_MKDIR] = "mkdir", [OP_MKFILE] = "mkfile", [OP_SYMLINK] = "symlink", [OP_BIND] = "bind",
    [OP_TMPFS] = "tmpfs", [OP_PROC] = "proc",     [OP_DEVPTS] = "devpts",
};

static int enter_composed_root(const struct spec *spec, struct failure *failure) {
  const char *stage = "sealed-root", *base = NULL, *step = "private", *path = "/";
  int root = -1, result = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
  for (size_t i = 0; result == 0 && i < spec->count; i++) {
    const struct record *record = &spec->records[i];
    switch (record->operation) {
      case OP_BASE:
        step = "base";
        path = base = record->text[0];
        result = mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
        if (result == 0) root = open_place(AT_FDCWD, base, O_PATH | O_DIRECTORY, RESOLVE_NO_LINKS);
        if (root < 0) result = -1;
        break;
      case OP_MKDIR:
      case OP_MKFILE:
      case OP_SYMLINK:
        step = step_names[record->operation];
        path = record->text[record->operation == OP_SYMLINK ? 1 : 0];
        result = make_entry(root, record);
        break;
      case OP_BIND:
        step = "bind";
        path = record->text[3];
        result = bind_into(root, record);
        if (result != 0 && record->value[1] == OPTIONAL) result = 0;
        break;
      case OP_TMPFS:
      case OP_PROC:
      case OP_DEVPTS:
        step = step_names[record->operation];
        path = record->text[0];
        result = mount_into(base, record);
        covered(path);
        break;
      case OP_SEAL:
        if (protect_trusted(spec, root, failure, stage) != 0) return -1;
        forget_parent();
        path = NULL;
        result = seal(spec, root, &step);
        break;
      default:
        break;
    }
  }
  if (result != 0) {
    describe(failure, stage, errno, step, path);
    return -1;
  }
  close(root);
  return 0;
}

int enter_tree(const struct spec *spec, struct failure *failure) {
  return spec->tier == TIER_SEALED ? enter_composed_root(spec, failure) : enter_host_tree(spec, failure);
}
