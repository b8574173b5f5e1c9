/*
 * Tries to get through the walls of a component host, from inside. Prints one line for each attempt: its name and
 * `open` when it succeeded, else the error. Built and run by the tests.
 *
 *   attack <file to read> <file to write> <pid outside> <port> <program to execute>
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, long result) {
  printf("%s %s\n", name, result < 0 ? strerrorname_np(errno) : "open");
}

static long run(const char *path) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    execl(path, path, (char *)NULL);
    _exit(errno);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) < 0) return -1;
  errno = WEXITSTATUS(status);
  return errno == 0 ? 0 : -1;
}

static long execute_memory(const char *path) {
  char bytes[65536];
  int from = open(path, O_RDONLY);
  if (from < 0) return -1;
  int to = (int)syscall(SYS_memfd_create, "x", 0);
  if (to < 0) return -1;
  ssize_t length;
  while ((length = read(from, bytes, sizeof bytes)) > 0) {
    if (write(to, bytes, (size_t)length) != length) return -1;
  }
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    char *const argv[] = {"x", NULL}, *const env[] = {NULL};
    syscall(SYS_execveat, to, "", argv, env, AT_EMPTY_PATH);
    _exit(errno);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) < 0) return -1;
  errno = WEXITSTATUS(status);
  return errno == 0 ? 0 : -1;
}

static long connect_to(int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, (struct sockaddr *)&address, sizeof address);
}

int main(int argc, char **argv) {
  /* Started by the attempts to execute it. */
  if (argc == 1) return 0;
  if (argc != 6) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  int pair[2];
  struct stat stat_of;
  say("read", open(argv[1], O_RDONLY));
  say("write", open(argv[2], O_WRONLY));
  say("truncate", open(argv[2], O_RDONLY | O_TRUNC));
  say("create", open("/tmp/mur-attack", O_WRONLY | O_CREAT, 0600));
  say("chmod", chmod(argv[2], 0777));
  say("touch", utimensat(AT_FDCWD, argv[2], NULL, 0));
  say("unlink", unlink(argv[2]));
  say("mkdir", mkdir("/tmp/mur-attack-dir", 0700));
  say("list", open("/", O_RDONLY | O_DIRECTORY));
  say("proc", open("/proc/self/environ", O_RDONLY));
  say("signal", kill((pid_t)atoi(argv[3]), 0));
  say("socket-inet", socket(AF_INET, SOCK_STREAM, 0));
  say("socket-inet6", socket(AF_INET6, SOCK_DGRAM, 0));
  say("socket-unix", socket(AF_UNIX, SOCK_STREAM, 0));
  say("socket-netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  say("connect", connect_to(atoi(argv[4])));
  say("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  say("execute", run(argv[5]));
  say("execute-memory", execute_memory(argv[0]));
  say("unshare", unshare(CLONE_NEWUSER));
  say("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
  say("ptrace", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  say("io_uring", syscall(425, 1, NULL));
  say("bpf", syscall(SYS_bpf, 0, NULL, 0));
  say("keyctl", syscall(SYS_keyctl, 0, 0));
  say("clone-namespace", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  say("clone3", syscall(435, NULL, 0));
  say("mknod", mknod("/tmp/mur-attack-dev", S_IFCHR | 0600, 0));
  say("setuid-root", prctl(PR_CAPBSET_READ, 0, 0, 0, 0) == 0 ? (errno = EPERM, -1) : 0);
  say("own-file", stat(argv[0], &stat_of));
  return 0;
}
