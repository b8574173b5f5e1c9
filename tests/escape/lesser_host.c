/*
 * Runs a program as on a host that has less: calls are refused to it and to all it starts, by a filter. What the product
 * finds there it finds by trying, as anywhere.
 *
 *   lesser_host <what>[,<what>…] <program> [argument…]
 *
 *   landlock     a kernel without Landlock
 *   mounts       nobody mounts anything, also not in a namespace of its own: some containers and security modules
 *   namespaces   no namespace is made or entered: what container engines refuse by default
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter code[256];
static unsigned short length;

static void emit(unsigned short operation, unsigned value, unsigned char yes, unsigned char no) {
  code[length++] = (struct sock_filter){operation, yes, no, value};
}

static void refuse(int call, int error) {
  emit(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1);
  emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error, 0, 0);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  if (strstr(argv[1], "landlock") != NULL) {
    for (int call = 444; call <= 446; call++) refuse(call, ENOSYS);
  }
  if (strstr(argv[1], "mounts") != NULL) {
    static const int calls[] = {SYS_mount, SYS_umount2, SYS_pivot_root, 428, 429, 430, 431, 432, 433, 442};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) refuse(calls[i], EPERM);
  }
  if (strstr(argv[1], "namespaces") != NULL) {
    refuse(SYS_unshare, EPERM);
    refuse(SYS_setns, EPERM);
    /* Its flags can't be seen. */
    refuse(435, ENOSYS);
    emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3);
    emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args), 0, 0);
    emit(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET, 0, 1);
    emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
  }
  emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  struct sock_fprog filter = {length, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    perror("lesser_host");
    return 99;
  }
  execvp(argv[2], argv + 2);
  perror(argv[2]);
  return 99;
}
