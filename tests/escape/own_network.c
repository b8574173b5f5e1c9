/*
 * Runs a program as root of a network of its own, in which every IPv4 address is this machine's: what stands for the
 * host's network, its neighbours and the Internet in the tests of what leaves a capsule.
 *
 *   own_network <program> [argument…]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static _Noreturn void die(const char *what) {
  perror(what);
  exit(99);
}

static void put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) die(path);
  close(fd);
}

static void raise_loopback(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0) die("lo");
  close(fd);
}

static void make_everything_local(void) {
  struct {
    struct nlmsghdr head;
    struct rtmsg route;
    struct rtattr attribute;
    unsigned int device;
  } request = {
      .head = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_NEWROUTE, .nlmsg_seq = 1,
               .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK},
      .route = {.rtm_family = AF_INET, .rtm_table = RT_TABLE_LOCAL, .rtm_protocol = RTPROT_BOOT,
                .rtm_scope = RT_SCOPE_HOST, .rtm_type = RTN_LOCAL},
      .attribute = {.rta_len = RTA_LENGTH(sizeof(unsigned int)), .rta_type = RTA_OIF},
      .device = if_nametoindex("lo"),
  };
  struct {
    struct nlmsghdr head;
    struct nlmsgerr error;
  } answer;
  int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (fd < 0 || send(fd, &request, sizeof request, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0) die("route");
  if (answer.error.error != 0) {
    errno = -answer.error.error;
    die("route");
  }
  close(fd);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  char uid[64], gid[64];
  snprintf(uid, sizeof uid, "0 %d 1", (int)geteuid());
  snprintf(gid, sizeof gid, "0 %d 1", (int)getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) die("unshare");
  put("/proc/self/setgroups", "deny");
  put("/proc/self/uid_map", uid);
  put("/proc/self/gid_map", gid);
  raise_loopback();
  make_everything_local();
  execvp(argv[1], argv + 1);
  die(argv[1]);
}
