/*
 * User and network namespaces: identity maps, and a network in which every IPv4 address is the namespace itself (spec
 * containment 9.1).
 */
#include "confine.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

int map_ids(pid_t pid, uid_t uid, gid_t gid) {
  char path[64], line[64];
  char who[16] = "self";
  if (pid != 0) snprintf(who, sizeof who, "%d", pid);
  /* Else the group map may be written by nobody but the privileged. Kernels before 3.19 have no such file. */
  snprintf(path, sizeof path, "/proc/%s/setgroups", who);
  if (write_file(path, "deny") != 0 && errno != ENOENT) return -1;
  snprintf(path, sizeof path, "/proc/%s/uid_map", who);
  snprintf(line, sizeof line, "%u %u 1\n", uid, uid);
  if (write_file(path, line) != 0) return -1;
  snprintf(path, sizeof path, "/proc/%s/gid_map", who);
  snprintf(line, sizeof line, "%u %u 1\n", gid, gid);
  return write_file(path, line);
}

int map_own_ids(uid_t uid, gid_t gid) {
  /* The files of a process that is not dumpable belong to root. */
  int before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  int result = map_ids(0, uid, gid);
  int error = errno;
  prctl(PR_SET_DUMPABLE, before == 1, 0, 0, 0);
  errno = error;
  return result;
}

int raise_loopback(void) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct ifreq request = {.ifr_name = "lo"};
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  int result = ioctl(fd, SIOCSIFFLAGS, &request);
  int error = errno;
  close(fd);
  errno = error;
  return result;
}

/*
 * Type local, table local, destination 0.0.0.0/0 on loopback: whatever IPv4 address a command dials is delivered here,
 * and the accepted socket's own address is the dialled one.
 */
int add_local_route(void) {
  struct {
    struct nlmsghdr header;
    struct rtmsg route;
    struct rtattr attribute;
    int interface;
  } request = {
      .header = {.nlmsg_len = sizeof request,
                 .nlmsg_type = RTM_NEWROUTE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK,
                 .nlmsg_seq = 1},
      .route = {.rtm_family = AF_INET,
                .rtm_table = RT_TABLE_LOCAL,
                .rtm_protocol = RTPROT_BOOT,
                .rtm_scope = RT_SCOPE_HOST,
                .rtm_type = RTN_LOCAL},
      .attribute = {.rta_len = RTA_LENGTH(sizeof(int)), .rta_type = RTA_OIF},
      .interface = 1,
  };
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return -1;
  struct {
    struct nlmsghdr header;
    struct nlmsgerr answer;
    char rest[256];
  } reply;
  memset(&reply, 0, sizeof reply);
  int error = 0;
  if (send(fd, &request, sizeof request, 0) < 0) {
    error = errno;
  } else {
    ssize_t length = recv(fd, &reply, sizeof reply, 0);
    if (length < 0) {
      error = errno;
    } else if ((size_t)length < sizeof reply.header + sizeof reply.answer || reply.header.nlmsg_type != NLMSG_ERROR) {
      error = EPROTO;
    } else {
      error = -reply.answer.error;
    }
  }
  close(fd);
  errno = error;
  return error == 0 ? 0 : -1;
}

unsigned long long network_of(pid_t pid) {
  char path[64];
  struct stat stat_of;
  if (pid == 0) {
    snprintf(path, sizeof path, "/proc/self/ns/net");
  } else {
    snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
  }
  return stat(path, &stat_of) == 0 ? (unsigned long long)stat_of.st_ino : 0;
}
