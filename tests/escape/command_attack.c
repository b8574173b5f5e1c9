/*
 * Tries to get out of a contained command, from inside, one attempt after the other, each in a process of its own.
 * Prints a line for each: its name, and `open` when it got through, else the error. Built and run by the tests, with
 * and without containment.
 *
 *   command_attack <outside> <work> <scratch> <pid outside> <tcp port> <udp port> <abstract name> <dynamic loader>
 *                  <key> <terminal>
 *   command_attack be-target <outside> <key>
 *
 * `outside` and `work` are directories with the files that the test makes; `scratch` is another writable one. Without
 * arguments it ends at once with status 0: it is also the program that attempts execute. As a target it holds what they
 * reach for beside files: a socket for datagrams, a terminal, System V memory, semaphores and a queue, a POSIX queue.
 * Its first line is the terminal's path; then a line for each message that arrived. It ends with its standard input.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static const char *outside, *work, *scratch, *abstract_name, *loader, *terminal;
static pid_t other;
static key_t memory_key;
static int tcp_port, udp_port;

/* A path below a directory; a few are good at the same time. */
static char *in(const char *directory, const char *name) {
  static char paths[4][4096];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", directory, name);
  return path;
}

static long refused(int error) {
  errno = error;
  return -1;
}

/* Runs a program, by path or by descriptor; open when it ran. */
static long execute_with(int fd, const char *path, char *const argv[]) {
  pid_t child = fork();
  if (child == 0) {
    char *const environment[] = {NULL};
    if (fd >= 0) syscall(SYS_execveat, fd, "", argv, environment, AT_EMPTY_PATH);
    else execve(path, argv, environment);
    _exit(errno);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) < 0) return -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  return refused(WIFEXITED(status) ? WEXITSTATUS(status) : EINTR);
}

static long execute(const char *path) {
  char *const argv[] = {"x", NULL};
  return execute_with(-1, path, argv);
}

static long copy_file(const char *from, int to) {
  static char bytes[65536];
  int file = open(from, O_RDONLY);
  if (file < 0 || to < 0) return -1;
  ssize_t length;
  while ((length = read(file, bytes, sizeof bytes)) > 0) {
    if (write(to, bytes, (size_t)length) != length) return -1;
  }
  close(file);
  return length;
}

static long execute_memory(unsigned flags) {
  char *const argv[] = {"x", NULL};
  int memory = (int)syscall(SYS_memfd_create, "x", flags);
  if (memory < 0 || copy_file(in(work, "attack"), memory) != 0) return -1;
  if (flags & 8) fchmod(memory, 0755);
  return execute_with(memory, NULL, argv);
}

/* -------------------------------------------------------------------------------------------------------- files --- */

static long read_outside(void) { return open(in(outside, "secret"), O_RDONLY); }
static long list_outside(void) { return open(outside, O_RDONLY | O_DIRECTORY); }
static long write_outside(void) { return open(in(outside, "victim"), O_WRONLY); }
static long append_outside(void) { return open(in(outside, "victim"), O_RDWR | O_APPEND); }
static long create_outside(void) { return open(in(outside, "created"), O_WRONLY | O_CREAT, 0600); }
static long mkdir_outside(void) { return mkdir(in(outside, "made"), 0700); }
static long truncate_reading(void) { return open(in(outside, "truncated-1"), O_RDONLY | O_TRUNC); }
static long truncate_neither(void) { return open(in(outside, "truncated-2"), 3 | O_TRUNC); }
static long truncate_call(void) { return truncate(in(outside, "truncated-3"), 0); }
static long truncate_openat2(void) {
  struct {
    uint64_t flags, mode, resolve;
  } how = {O_RDONLY | O_TRUNC, 0, 0};
  return syscall(437, AT_FDCWD, in(outside, "truncated-4"), &how, sizeof how);
}
static long truncate_granted(void) { return open(in(work, "readable"), O_RDONLY | O_TRUNC); }
static long chmod_outside(void) { return chmod(in(outside, "victim"), 0644); }
static long fchmod_outside(void) {
  int fd = open(in(outside, "victim"), O_PATH);
  return fd < 0 ? -1 : chmod(in("/proc/self/fd", (char[]){(char)('0' + fd), 0}), 0644);
}
static long chown_outside(void) { return chown(in(outside, "victim"), geteuid(), getegid()); }
static long touch_outside(void) { return utimensat(AT_FDCWD, in(outside, "victim"), NULL, 0); }
static long xattr_outside(void) { return setxattr(in(outside, "victim"), "user.x", "y", 1, 0); }
static long unlink_outside(void) { return unlink(in(outside, "unlinked")); }
static long rename_outside(void) { return rename(in(outside, "renamed"), in(outside, "renamed-2")); }
static long rename_in(void) { return rename(in(outside, "moved"), in(work, "moved")); }
static long rename_out(void) { return rename(in(work, "exported"), in(outside, "exported")); }
static long link_in(void) { return link(in(outside, "victim"), in(work, "hard")); }
static long read_by_symlink(void) { return open(in(work, "symlink"), O_RDONLY); }
static long read_by_dots(void) { return open(in(work, "../outside/secret"), O_RDONLY); }
static long read_by_own_root(void) { return open(in("/proc/self/root", in(outside, "secret") + 1), O_RDONLY); }
static long read_by_init(void) { return open(in("/proc/1/root", in(outside, "secret") + 1), O_RDONLY); }
static char *of_other(const char *name) {
  char directory[64];
  snprintf(directory, sizeof directory, "/proc/%d", other);
  return in(directory, name);
}
static long read_by_other_root(void) { return open(in(of_other("root"), in(outside, "secret") + 1), O_RDONLY); }
static long other_environment(void) { return open(of_other("environ"), O_RDONLY); }
static long other_memory(void) { return open(of_other("mem"), O_RDWR); }
static long read_device(void) { return open("/dev/zero", O_RDONLY); }
static long read_account(void) { return open("/etc/passwd", O_RDONLY); }
static long make_device(void) { return mknod(in(work, "device"), S_IFCHR | 0600, 0x105); }
static long make_device_scratch(void) { return mknod(in(scratch, "device"), S_IFBLK | 0600, 0x105); }
static long shared_memory_file(void) { return open("/dev/shm/mur-attack", O_WRONLY | O_CREAT, 0600); }
static long by_handle(void) {
  struct {
    struct file_handle handle;
    unsigned char bytes[128];
  } place;
  place.handle.handle_bytes = sizeof place.bytes;
  int mount_id, directory = open(work, O_RDONLY | O_DIRECTORY);
  if (name_to_handle_at(AT_FDCWD, work, &place.handle, &mount_id, 0) != 0) return -1;
  return open_by_handle_at(directory, &place.handle, O_RDONLY);
}

static long rename_exchange(void) {
  return syscall(SYS_renameat2, AT_FDCWD, in(outside, "exchanged"), AT_FDCWD, in(work, "exchanged"), 2);
}
static long unnamed_outside(void) { return open(outside, O_TMPFILE | O_WRONLY, 0600); }
static long unnamed_linked(void) {
  int fd = open(work, O_TMPFILE | O_WRONLY, 0600);
  if (fd < 0) return -1;
  return linkat(AT_FDCWD, in("/proc/self/fd", (char[]){(char)('0' + fd), 0}), AT_FDCWD, in(outside, "linked"),
                AT_SYMLINK_FOLLOW);
}
/* By a descriptor that nothing asked a right for. */
static long chown_by_path(void) {
  int fd = open(in(outside, "victim"), O_PATH);
  return fd < 0 ? -1 : fchownat(fd, "", geteuid(), getegid(), AT_EMPTY_PATH);
}
static long chmod_by_path(void) {
  int fd = open(in(outside, "victim"), O_PATH);
  return fd < 0 ? -1 : syscall(452, fd, "", 0644, AT_EMPTY_PATH);
}
static long access_list(void) {
  static const unsigned char list[] = {2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 4, 0, 255, 255, 255, 255,
                                       32, 0, 4, 0, 255, 255, 255, 255};
  return setxattr(in(outside, "victim"), "system.posix_acl_access", list, sizeof list, 0);
}
static long xattr_at(void) {
  struct {
    uint64_t value;
    uint32_t size, flags;
  } arguments = {(uint64_t)(uintptr_t)"y", 1, 0};
  return syscall(463, AT_FDCWD, in(outside, "victim"), 0, "user.x", &arguments, sizeof arguments);
}
static long descriptor_of_other(void) { return open(of_other("fd/2"), O_WRONLY); }
static long folder_of_other(void) { return open(of_other("cwd/."), O_RDONLY | O_DIRECTORY); }
static long spare_other(void) { return open(of_other("oom_score_adj"), O_WRONLY); }

/* What runs with its owner's rights, whoever starts it, would outlive every wall. */
static long has_bits(const char *path, unsigned bits) {
  struct stat made;
  int found = stat(path, &made);
  unlink(path);
  return found != 0 ? -1 : (made.st_mode & bits) != 0 ? 0 : refused(EINVAL);
}
/* Whoever opens it from then on waits. */
static long lease(const char *path, int kind) {
  int fd = open(path, O_RDONLY);
  return fd < 0 ? -1 : fcntl(fd, F_SETLEASE, kind);
}
static long lease_readable(void) { return lease(in(work, "readable"), F_RDLCK); }
static long lease_alone(void) { return lease(in(work, "readable"), F_WRLCK); }
static long lease_directory(void) {
  struct {
    uint32_t flags;
    uint16_t type, padding;
  } wanted = {0, F_RDLCK, 0};
  int fd = open(work, O_RDONLY | O_DIRECTORY);
  /* A kernel without it says so: other than the filter does. */
  return fd < 0 || (fcntl(fd, 1040, &wanted) != 0 && errno == EACCES) ? -1 : 0;
}
/* Room behind the end of a file, which its size tells nothing of. */
static long room_beyond_size(void) {
  int fd = open(in(work, "room"), O_WRONLY | O_CREAT, 0600);
  long result = fallocate(fd, 1, 0, 1 << 20);
  int error = errno;
  unlink(in(work, "room"));
  return result < 0 ? refused(error) : 0;
}
static const char *own_file(const char *name) {
  const char *path = in(work, name);
  int fd = open(path, O_WRONLY | O_CREAT, 0755);
  if (fd >= 0) close(fd);
  return path;
}
static long setuid_chmod(void) {
  const char *path = own_file("setuid-1");
  return chmod(path, 04755) != 0 ? -1 : has_bits(path, S_ISUID);
}
static long setgid_fchmod(void) {
  const char *path = own_file("setuid-2");
  int fd = open(path, O_RDONLY);
  return fchmod(fd, 02755) != 0 ? -1 : has_bits(path, S_ISGID);
}
static long setuid_fchmodat(void) {
  const char *path = own_file("setuid-3");
  return syscall(SYS_fchmodat, AT_FDCWD, path, 04755) != 0 ? -1 : has_bits(path, S_ISUID);
}
static long setuid_fchmodat2(void) {
  const char *path = own_file("setuid-4");
  return syscall(452, AT_FDCWD, path, 04755, 0) != 0 ? -1 : has_bits(path, S_ISUID);
}
static long setuid_open(void) {
  const char *path = in(work, "setuid-5");
  return syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 04755) < 0 ? -1 : has_bits(path, S_ISUID);
}
static long setuid_openat2(void) {
  const char *path = in(work, "setuid-6");
  struct {
    uint64_t flags, mode, resolve;
  } how = {O_WRONLY | O_CREAT, 04755, 0};
  return syscall(437, AT_FDCWD, path, &how, sizeof how) < 0 ? -1 : has_bits(path, S_ISUID);
}
static long setuid_mknod(void) {
  const char *path = in(work, "setuid-7");
  return mknod(path, S_IFREG | 04755, 0) != 0 ? -1 : has_bits(path, S_ISUID);
}
static long setuid_unnamed(void) {
  const char *path = in(work, "setuid-8");
  int fd = open(work, O_TMPFILE | O_WRONLY, 04755);
  if (fd < 0) return -1;
  if (linkat(AT_FDCWD, in("/proc/self/fd", (char[]){(char)('0' + fd), 0}), AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0) {
    return -1;
  }
  return has_bits(path, S_ISUID);
}
static long file_capability(void) {
  static const unsigned char all[20] = {1, 0, 0, 2, 255, 255, 255, 255};
  const char *path = own_file("capable");
  long result = setxattr(path, "security.capability", all, sizeof all, 0);
  unlink(path);
  return result;
}

static long write_terminal(void) {
  int fd = open(terminal, O_WRONLY | O_NOCTTY);
  return fd < 0 ? -1 : write(fd, "typed\n", 6);
}
static long use_device(void) { return open(in(outside, "device"), O_RDWR); }
static long kernel_messages(void) { return open("/dev/kmsg", O_WRONLY); }
static long virtual_machine(void) { return open("/dev/kvm", O_RDWR); }
static long tunnel(void) { return open("/dev/net/tun", O_RDWR); }
static long user_file_system(void) { return open("/dev/fuse", O_RDWR); }
static long any_disk(void) {
  static const char *const disks[] = {"/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0", "/dev/ram0"};
  for (size_t i = 0; i < sizeof disks / sizeof disks[0]; i++) {
    if (open(disks[i], O_RDWR) >= 0) return 0;
  }
  return -1;
}

static long kernel_setting(void) { return open("/proc/sys/kernel/core_pattern", O_WRONLY); }
static long kernel_trigger(void) { return open("/proc/sysrq-trigger", O_WRONLY); }
static long kernel_object(void) { return open("/sys/kernel/uevent_helper", O_WRONLY); }
static long shared_memory(void) { return shmget(memory_key, 0, 0); }
static long message_queue(void) { return msgget(memory_key, 0); }

/* ----------------------------------------------------------------------------------------------------- programs --- */

static long exec_written(void) { return execute(in(work, "attack")); }
static long exec_scratch(void) { return execute(in(scratch, "attack")); }
static long exec_outside(void) { return execute(in(outside, "attack")); }
static long exec_script(void) { return execute(in(work, "script")); }
static long exec_fresh(void) {
  int fd = open(in(work, "fresh"), O_WRONLY | O_CREAT | O_TRUNC, 0755);
  if (fd < 0 || copy_file(in(work, "attack"), fd) != 0) return -1;
  close(fd);
  return execute(in(work, "fresh"));
}
static long exec_by_loader(void) {
  char *const argv[] = {(char *)loader, in(work, "dynamic"), NULL};
  return execute_with(-1, loader, argv);
}
static long exec_by_descriptor(void) {
  char *const argv[] = {"x", NULL};
  int fd = open(in(work, "attack"), O_RDONLY);
  return fd < 0 ? -1 : execute_with(fd, NULL, argv);
}
static long exec_by_proc(void) {
  int fd = open(in(work, "attack"), O_RDONLY);
  return fd < 0 ? -1 : execute(in("/proc/self/fd", (char[]){(char)('0' + fd), 0}));
}
static long exec_memory(void) { return execute_memory(0); }
static long exec_memory_marked(void) { return execute_memory(0x10); }
static long exec_memory_sealed(void) { return execute_memory(8); }
static long map_written(void) {
  int fd = open(in(work, "attack"), O_RDONLY);
  return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}
static long protect_written(void) {
  int fd = open(in(work, "attack"), O_RDONLY);
  void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  return at == MAP_FAILED ? -1 : mprotect(at, 4096, PROT_READ | PROT_EXEC);
}

/* ---------------------------------------------------------------------------------------------------- processes --- */

static long signal_other(void) { return kill(other, 0); }
static long trace_other(void) { return ptrace(PTRACE_SEIZE, other, NULL, NULL); }
static long trace_me(void) { return ptrace(PTRACE_TRACEME, 0, NULL, NULL); }
static long read_other(void) {
  char byte;
  struct iovec local = {&byte, 1}, remote = {(void *)0x400000, 1};
  /* Where the address is none of its own it was let in all the same. */
  return process_vm_readv(other, &local, 1, &remote, 1, 0) < 0 && errno != EFAULT ? -1 : 0;
}
static long open_other(void) { return syscall(434, other, 0); }
static long take_descriptor(void) { return syscall(438, syscall(434, other, 0), 0, 0); }
static long compare_other(void) { return syscall(SYS_kcmp, other, getpid(), 0, 0, 0); }
static long enter_other(void) {
  int fd = open(of_other("ns/uts"), O_RDONLY);
  return fd < 0 ? -1 : setns(fd, 0);
}
static long limit_other(void) {
  struct rlimit limit;
  return prlimit(other, RLIMIT_NOFILE, NULL, &limit);
}
static long signal_by_pidfd(void) {
  int fd = (int)syscall(434, other, 0);
  return fd < 0 ? -1 : syscall(424, fd, 0, NULL, 0);
}
/* The kernel sends a signal of one's choice to the owner of a pipe. */
static long signal_by_pipe(void) {
  int ends[2];
  if (pipe(ends) != 0 || fcntl(ends[0], F_SETSIG, SIGCONT) != 0) return -1;
  return fcntl(ends[0], F_SETOWN, other);
}
static long advise_other(void) {
  char byte;
  struct iovec range = {&byte, 1};
  long result = syscall(440, syscall(434, other, 0), &range, 1, 20, 0);
  return result < 0 && (errno == EINVAL || errno == ENOMEM) ? 0 : result;
}
static long release_other(void) {
  long result = syscall(448, syscall(434, other, 0), 0);
  return result < 0 && errno == EINVAL ? 0 : result;
}
static long disk_class_of_other(void) { return syscall(SYS_ioprio_set, 1, other, 2 << 13 | 6); }
static long trace_child(void) {
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  long result = ptrace(PTRACE_SEIZE, child, NULL, NULL);
  int error = errno;
  kill(child, SIGKILL);
  return result < 0 ? refused(error) : 0;
}
static long write_child(void) {
  static char byte;
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  struct iovec range = {&byte, 1};
  long result = process_vm_writev(child, &range, 1, &range, 1, 0);
  int error = errno;
  kill(child, SIGKILL);
  return result < 0 ? refused(error) : 0;
}
/* With a limit of 1 the kernel dumps nothing; with 0 it still starts a handler that the host's pattern names. */
static long dump_core(void) {
  struct rlimit limit = {0, 0};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return -1;
  const struct rlimit wanted[] = {{limit.rlim_max, limit.rlim_max}, {0, 0}};
  for (int i = 0; i < 2; i++) {
    (void)setrlimit(RLIMIT_CORE, &wanted[i]);
    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur != 1) return 0;
  }
  return refused(EPERM);
}
static long nice_other(void) { return setpriority(PRIO_PROCESS, (id_t)other, 5); }
static long pin_other(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  return sched_setaffinity(other, sizeof set, &set);
}

/* ------------------------------------------------------------------------------------------------------- kernel --- */

/* A call that was looked at by more than a filter: whatever else it says, it does not say what the filter would. */
static long reached(long result) { return result >= 0 || (errno != EPERM && errno != ENOSYS) ? 0 : -1; }

static long unshare_user(void) { return unshare(CLONE_NEWUSER); }
static long unshare_mounts(void) { return unshare(CLONE_NEWNS); }
static long clone_user(void) {
  long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  return pid;
}
static long clone3_user(void) {
  struct {
    uint64_t flags, a, b, c, signal, d, e, f;
  } arguments = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0};
  long pid = syscall(435, &arguments, sizeof arguments);
  if (pid == 0) _exit(0);
  return pid;
}
static long mount_tmpfs(void) {
  long result = mount("none", work, "tmpfs", 0, NULL);
  /* Where it got through nothing of it may stay. */
  if (result == 0) umount2(work, MNT_DETACH);
  return result;
}
static long remount(void) { return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL); }
static long unmount(void) { return reached(umount2("/nothing-here", MNT_DETACH)); }
static long change_root(void) { return chroot(work); }
static long copy_mounts(void) { return syscall(428, AT_FDCWD, "/", 1); }
static long open_file_system(void) { return syscall(430, "tmpfs", 0); }
static long set_mount(void) { return reached(syscall(442, AT_FDCWD, "/nothing-here", 0, NULL, 0)); }
static long io_uring(void) { return reached(syscall(425, 1, NULL)); }
static long bpf(void) { return reached(syscall(SYS_bpf, 99, NULL, 0)); }
static long user_faults(void) { return reached(syscall(SYS_userfaultfd, 1)); }
static long perf_events(void) { return reached(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)); }
static long key_control(void) { return syscall(SYS_keyctl, 0, -3, 0); }
static long add_key(void) { return syscall(SYS_add_key, "user", "x", "y", 1, -3); }
static long personality_of(void) { return syscall(SYS_personality, 0xffffffff); }
static long load_module(void) { return reached(syscall(SYS_init_module, NULL, 0, "")); }
static long load_kernel(void) { return reached(syscall(SYS_kexec_load, 0, 99, NULL, 1ul << 40)); }
static long restart(void) { return reached(syscall(SYS_reboot, 1, 2, 3, NULL)); }
static long swap(void) { return reached(syscall(SYS_swapoff, "/nothing-here")); }
static long quota(void) { return reached(syscall(SYS_quotactl, 0, NULL, 0, NULL)); }
static long filter_more(void) { return reached(syscall(SYS_seccomp, 2, 0, NULL)); }
static long foreign_calls(void) {
#if defined(__x86_64__)
  /* The calls of 32-bit programs have numbers of their own: 20 is getpid. */
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
  return result == getpid() ? 0 : refused(ENOSYS);
#else
  return refused(ENOSYS);
#endif
}
static long short_pointers(void) { return syscall(0x40000000 + SYS_getpid); }
static long mount_state(void) { return reached(syscall(457, NULL, NULL, 0, 0)); }
static long mount_list(void) { return reached(syscall(458, NULL, NULL, 0, 0)); }
static long move_mounts(void) { return reached(syscall(429, -1, "", -1, "", 0)); }
static long pick_mount(void) { return reached(syscall(433, AT_FDCWD, "/nothing-here", 0)); }
static long copy_mounts_with(void) { return reached(syscall(467, AT_FDCWD, "/nothing-here", 1, NULL, 0)); }
static long unshare_time(void) { return unshare(0x80); }
static long unshare_groups(void) { return unshare(CLONE_NEWCGROUP); }
static long secret_memory(void) { return reached(syscall(447, 0)); }
static long io_uring_more(void) {
  return reached(syscall(426, -1, 0, 0, 0, NULL, 0)) == 0 || reached(syscall(427, -1, 0, NULL, 0)) == 0 ? 0 : -1;
}
static long request_key_of(void) { return reached(syscall(SYS_request_key, "user", "mur-attack", NULL, -3)); }
static long mark_files(void) { return reached(syscall(SYS_fanotify_mark, -1, 0, 0, 0, NULL)); }
static long quota_by_descriptor(void) { return reached(syscall(443, -1, 0, 0, NULL)); }
static long hang_up(void) { return syscall(SYS_vhangup); }
static long account(void) { return reached(syscall(SYS_acct, "/nothing-here")); }
static long change_segments(void) {
#if defined(__x86_64__)
  return reached(syscall(SYS_modify_ldt, 0, NULL, 0));
#else
  return refused(ENOSYS);
#endif
}
static long raise_capabilities(void) {
  struct {
    uint32_t version;
    int pid;
  } header = {0x20080522, 0};
  struct {
    uint32_t effective, permitted, inheritable;
  } sets[2] = {{1u << 21, 1u << 21, 0}, {0, 0, 0}};
  return syscall(SYS_capset, &header, sets);
}
static long keep_capabilities(void) { return prctl(PR_SET_SECUREBITS, 1, 0, 0, 0); }
static long leave_groups(void) {
  gid_t none = 0;
  return syscall(SYS_setgroups, 0, &none);
}
static long semaphores(void) { return semget(memory_key, 1, 0); }
static long posix_queue(void) {
  char name[64];
  snprintf(name, sizeof name, "/mur-attack-%d", memory_key);
  return mq_open(name, O_RDWR | O_NONBLOCK);
}

static long host_name(void) {
  char name[65];
  return gethostname(name, sizeof name) != 0 ? -1 : sethostname(name, strlen(name));
}
static long set_clock(void) {
  struct timespec wrong = {0, -1};
  return reached(syscall(SYS_clock_settime, 0, &wrong));
}
static long kernel_log(void) { return syscall(SYS_syslog, 10, NULL, 0); }
static long memory_policy(void) { return syscall(SYS_set_mempolicy, 0, NULL, 0); }
static long file_events(void) { return reached(syscall(SYS_fanotify_init, 0xffff, 0)); }
static long type_character(void) {
  /* Where it is let through, what is no terminal says so. */
  return ioctl(0, 0x5412, "x") != 0 && errno == EACCES ? -1 : 0;
}
static long become_root(void) { return setresuid(0, 0, 0); }
static long raise_priority(void) { return setpriority(PRIO_PROCESS, 0, -5); }

/* ------------------------------------------------------------------------------------------------------ network --- */

static long socket_of(int family, int type) { return socket(family, type, 0); }
static long socket_unix(void) { return socket_of(AF_UNIX, SOCK_STREAM); }
static long socket_netlink(void) { return socket_of(AF_NETLINK, SOCK_RAW); }
static long socket_packet(void) { return socket_of(AF_PACKET, SOCK_RAW); }
static long socket_raw(void) { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
static long socket_crypto(void) { return socket_of(38, SOCK_SEQPACKET); }
static long socket_virtual(void) { return socket_of(40, SOCK_STREAM); }
/* None of the families that a program needs. */
static long socket_families(void) {
  static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
  for (int family = 0; family < 64; family++) {
    if (family == AF_UNIX || family == AF_INET || family == AF_INET6) continue;
    for (int i = 0; i < 4; i++) {
      if (socket_of(family, types[i]) >= 0) return 0;
    }
  }
  return -1;
}
/* Protocols of the Internet that are neither TCP nor UDP. */
static long socket_protocols(void) {
  static const int protocols[] = {IPPROTO_ICMP, IPPROTO_DCCP, IPPROTO_SCTP, IPPROTO_UDPLITE, 115, 262};
  for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++) {
    for (int type = 1; type < 7; type++) {
      if (socket(AF_INET, type, protocols[i]) >= 0 || socket(AF_INET6, type, protocols[i]) >= 0) return 0;
    }
  }
  return -1;
}
static long socket_raw_6(void) { return socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6); }
static long mark_packets(void) {
  int mark = 1;
  return setsockopt(socket_of(AF_INET, SOCK_STREAM), SOL_SOCKET, SO_MARK, &mark, sizeof mark);
}
static long bind_low_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(97)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
}
/* A pair is connected to itself; one for datagrams goes on to be told who to send to. */
static int half_of_pair(int type) {
  int ends[2];
  return socketpair(AF_UNIX, type, 0, ends) != 0 ? -1 : ends[0];
}
static struct sockaddr_un address_of(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  return address;
}
static long datagram_connect(void) {
  struct sockaddr_un address = address_of(in(outside, "datagrams"));
  int fd = half_of_pair(SOCK_DGRAM);
  return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address);
}
static long datagram_send(void) {
  struct sockaddr_un address = address_of(in(outside, "datagrams"));
  int fd = half_of_pair(SOCK_DGRAM);
  return fd < 0 ? -1 : sendto(fd, "by-name", 7, 0, (struct sockaddr *)&address, sizeof address);
}
static long datagram_send_raw(void) {
  struct sockaddr_un address = address_of(in(outside, "datagrams"));
  struct iovec text = {"by-raw", 6};
  struct msghdr message = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &text, .msg_iovlen = 1};
  int fd = half_of_pair(SOCK_RAW);
  return fd < 0 ? -1 : sendmsg(fd, &message, 0);
}
static long datagram_bind(void) {
  struct sockaddr_un address = address_of(in(work, "bound"));
  int fd = half_of_pair(SOCK_DGRAM);
  return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
}
static long pair_families(void) {
  int ends[2];
  for (int family = 2; family < 64; family++) {
    for (int type = 1; type < 6; type++) {
      if (socketpair(family, type, 0, ends) == 0) return 0;
    }
  }
  return -1;
}
static long be_another(void) {
  struct ucred wrong = {other, geteuid(), getegid()};
  char data[CMSG_SPACE(sizeof wrong)];
  struct iovec text = {"x", 1};
  struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = data, .msg_controllen = sizeof data};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_CREDENTIALS;
  header->cmsg_len = CMSG_LEN(sizeof wrong);
  memcpy(CMSG_DATA(header), &wrong, sizeof wrong);
  return sendmsg(half_of_pair(SOCK_STREAM), &message, MSG_NOSIGNAL);
}
static long connect_unix(const char *name, int is_abstract) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path + is_abstract, sizeof address.sun_path - 1, "%s", name);
  /* An abstract name begins with a NUL and ends without one. */
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, length);
}
static long connect_path(void) { return connect_unix(in(outside, "socket"), 0); }
static long connect_abstract(void) { return connect_unix(abstract_name, 1); }
static long connect_loopback(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)tcp_port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address);
}
/* Whether it arrives is seen at the other end; here it only has to be sent. */
static long send_datagram(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)udp_port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0) (void)sendto(fd, "datagram", 8, 0, (struct sockaddr *)&address, sizeof address);
  return refused(EAGAIN);
}
static long loopback_down(void) {
  struct ifreq request = {.ifr_name = "lo"};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0) return -1;
  /* As it is: only the right to set it is asked for. */
  return ioctl(fd, SIOCSIFFLAGS, &request);
}

/* -------------------------------------------------------------------------------------------------- descriptors --- */

static long descriptors(void) {
  for (int fd = 3; fd < 4096; fd++) {
    if (fcntl(fd, F_GETFD) >= 0) return 0;
  }
  return refused(EBADF);
}

#define ATTEMPT(name) {#name, name}
static const struct {
  const char *name;
  long (*attempt)(void);
} attempts[] = {
    ATTEMPT(descriptors),
    ATTEMPT(read_outside), ATTEMPT(list_outside), ATTEMPT(write_outside), ATTEMPT(append_outside),
    ATTEMPT(create_outside), ATTEMPT(mkdir_outside), ATTEMPT(truncate_reading), ATTEMPT(truncate_neither),
    ATTEMPT(truncate_call), ATTEMPT(truncate_openat2), ATTEMPT(truncate_granted), ATTEMPT(chmod_outside),
    ATTEMPT(fchmod_outside), ATTEMPT(chown_outside), ATTEMPT(touch_outside), ATTEMPT(xattr_outside),
    ATTEMPT(unlink_outside), ATTEMPT(rename_outside), ATTEMPT(rename_in), ATTEMPT(rename_out), ATTEMPT(link_in),
    ATTEMPT(read_by_symlink), ATTEMPT(read_by_dots), ATTEMPT(read_by_own_root), ATTEMPT(read_by_init),
    ATTEMPT(read_by_other_root), ATTEMPT(other_environment), ATTEMPT(other_memory), ATTEMPT(read_device),
    ATTEMPT(read_account), ATTEMPT(make_device), ATTEMPT(make_device_scratch), ATTEMPT(shared_memory_file),
    ATTEMPT(by_handle), ATTEMPT(kernel_setting), ATTEMPT(kernel_trigger), ATTEMPT(kernel_object),
    ATTEMPT(shared_memory), ATTEMPT(message_queue), ATTEMPT(exec_written), ATTEMPT(exec_scratch),
    ATTEMPT(exec_outside), ATTEMPT(exec_script),
    ATTEMPT(exec_fresh), ATTEMPT(exec_by_loader), ATTEMPT(exec_by_descriptor), ATTEMPT(exec_by_proc),
    ATTEMPT(exec_memory), ATTEMPT(exec_memory_marked), ATTEMPT(exec_memory_sealed), ATTEMPT(map_written),
    ATTEMPT(protect_written), ATTEMPT(signal_other), ATTEMPT(trace_other), ATTEMPT(trace_me),
    ATTEMPT(read_other), ATTEMPT(open_other), ATTEMPT(take_descriptor), ATTEMPT(compare_other), ATTEMPT(enter_other),
    ATTEMPT(limit_other), ATTEMPT(nice_other), ATTEMPT(pin_other), ATTEMPT(unshare_user), ATTEMPT(unshare_mounts),
    ATTEMPT(clone_user), ATTEMPT(clone3_user), ATTEMPT(mount_tmpfs), ATTEMPT(remount), ATTEMPT(unmount),
    ATTEMPT(change_root), ATTEMPT(copy_mounts), ATTEMPT(open_file_system), ATTEMPT(set_mount), ATTEMPT(io_uring),
    ATTEMPT(bpf), ATTEMPT(user_faults), ATTEMPT(perf_events), ATTEMPT(key_control), ATTEMPT(add_key),
    ATTEMPT(personality_of), ATTEMPT(load_module), ATTEMPT(load_kernel), ATTEMPT(restart), ATTEMPT(swap),
    ATTEMPT(quota), ATTEMPT(filter_more), ATTEMPT(host_name), ATTEMPT(set_clock), ATTEMPT(kernel_log),
    ATTEMPT(memory_policy), ATTEMPT(file_events), ATTEMPT(type_character), ATTEMPT(become_root),
    ATTEMPT(raise_priority), ATTEMPT(socket_unix), ATTEMPT(socket_netlink), ATTEMPT(socket_packet),
    ATTEMPT(socket_raw), ATTEMPT(socket_crypto), ATTEMPT(socket_virtual), ATTEMPT(connect_path),
    ATTEMPT(connect_abstract), ATTEMPT(connect_loopback), ATTEMPT(send_datagram), ATTEMPT(loopback_down),
    ATTEMPT(rename_exchange), ATTEMPT(unnamed_outside), ATTEMPT(unnamed_linked), ATTEMPT(chown_by_path),
    ATTEMPT(chmod_by_path), ATTEMPT(access_list), ATTEMPT(xattr_at), ATTEMPT(descriptor_of_other),
    ATTEMPT(folder_of_other), ATTEMPT(spare_other), ATTEMPT(lease_readable), ATTEMPT(lease_alone),
    ATTEMPT(lease_directory), ATTEMPT(room_beyond_size), ATTEMPT(setuid_chmod), ATTEMPT(setgid_fchmod),
    ATTEMPT(setuid_fchmodat), ATTEMPT(setuid_fchmodat2), ATTEMPT(setuid_open), ATTEMPT(setuid_openat2),
    ATTEMPT(setuid_mknod), ATTEMPT(setuid_unnamed), ATTEMPT(file_capability), ATTEMPT(write_terminal),
    ATTEMPT(use_device), ATTEMPT(kernel_messages), ATTEMPT(virtual_machine), ATTEMPT(tunnel),
    ATTEMPT(user_file_system), ATTEMPT(any_disk), ATTEMPT(signal_by_pidfd), ATTEMPT(signal_by_pipe),
    ATTEMPT(advise_other), ATTEMPT(release_other), ATTEMPT(disk_class_of_other), ATTEMPT(trace_child),
    ATTEMPT(write_child), ATTEMPT(dump_core), ATTEMPT(foreign_calls), ATTEMPT(short_pointers), ATTEMPT(mount_state),
    ATTEMPT(mount_list), ATTEMPT(move_mounts), ATTEMPT(pick_mount), ATTEMPT(copy_mounts_with), ATTEMPT(unshare_time),
    ATTEMPT(unshare_groups), ATTEMPT(secret_memory), ATTEMPT(io_uring_more), ATTEMPT(request_key_of),
    ATTEMPT(mark_files), ATTEMPT(quota_by_descriptor), ATTEMPT(hang_up), ATTEMPT(account), ATTEMPT(change_segments),
    ATTEMPT(raise_capabilities), ATTEMPT(keep_capabilities), ATTEMPT(leave_groups), ATTEMPT(semaphores),
    ATTEMPT(posix_queue), ATTEMPT(socket_families), ATTEMPT(socket_protocols), ATTEMPT(socket_raw_6),
    ATTEMPT(mark_packets), ATTEMPT(bind_low_port), ATTEMPT(datagram_connect), ATTEMPT(datagram_send),
    ATTEMPT(datagram_send_raw), ATTEMPT(datagram_bind), ATTEMPT(pair_families), ATTEMPT(be_another),
};

/* Whoever the attempts must not reach: see above. */
static int be_target(const char *directory, key_t key) {
  struct sockaddr_un address = address_of(in(directory, "datagrams"));
  int datagrams = socket(AF_UNIX, SOCK_DGRAM, 0), control = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  char queue_name[64];
  snprintf(queue_name, sizeof queue_name, "/mur-attack-%d", key);
  int memory = shmget(key, 4096, IPC_CREAT | 0600), queue = msgget(key, IPC_CREAT | 0600);
  int set = semget(key, 1, IPC_CREAT | 0600);
  mqd_t named = mq_open(queue_name, O_RDWR | O_CREAT, 0600, NULL);
  if (bind(datagrams, (struct sockaddr *)&address, sizeof address) != 0) return 1;
  if (control < 0 || grantpt(control) != 0 || unlockpt(control) != 0 || memory < 0 || queue < 0 || set < 0) return 1;
  puts(ptsname(control));
  struct pollfd polled[] = {{0, POLLIN, 0}, {datagrams, POLLIN, 0}, {control, POLLIN, 0}};
  while (poll(polled, 3, -1) > 0 && polled[0].revents == 0) {
    char text[64];
    for (int i = 1; i < 3; i++) {
      ssize_t length = polled[i].revents & POLLIN ? read(polled[i].fd, text, sizeof text - 1) : 0;
      if (length > 0) printf("%.*s\n", (int)length, text);
      /* Nobody has the other end of a terminal open. */
      else if (polled[i].revents & POLLHUP) nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
  }
  shmctl(memory, IPC_RMID, NULL);
  msgctl(queue, IPC_RMID, NULL);
  semctl(set, 0, IPC_RMID);
  if (named >= 0) mq_unlink(queue_name);
  return 0;
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  /* Started by the attempts to execute it. */
  if (argc == 1) return 0;
  if (argc == 4 && strcmp(argv[1], "be-target") == 0) return be_target(argv[2], (key_t)atoi(argv[3]));
  if (argc != 11) return 2;
  outside = argv[1];
  work = argv[2];
  scratch = argv[3];
  other = (pid_t)atoi(argv[4]);
  tcp_port = atoi(argv[5]);
  udp_port = atoi(argv[6]);
  abstract_name = argv[7];
  loader = argv[8];
  memory_key = (key_t)atoi(argv[9]);
  terminal = argv[10];
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
    pid_t child = fork();
    if (child == 0) {
      long result = attempts[i].attempt();
      printf("%s %s\n", attempts[i].name, result < 0 ? strerrorname_np(errno) : "open");
      fflush(stdout);
      _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
    /* An attempt that was killed was stopped. */
    if (!WIFEXITED(status)) printf("%s killed\n", attempts[i].name);
  }
  return 0;
}
