/*
 * Ways out of a network, one per call; prints one line with what came of it.
 *
 *   egress_attack tcp  <address> <port> <text>      what the other side answers to the text
 *   egress_attack udp  <address> <port> <text>
 *   egress_attack dns  <server> <name> <type>       `<rcode> <addresses…> from <who answered>`
 *   egress_attack bind <tcp|udp> <port>
 *   egress_attack raw
 *   egress_attack hold <address> <port> <count>     how many of so many connections at once are answered
 *   egress_attack churn <address> <port> <count>    how many of so many connections stood, each dropped at once
 *   egress_attack message <server> <hex>            the answer's code to a message of any bytes
 *   egress_attack flood <server> <name> <seconds>   sends name queries as fast as it can
 *
 * An address with a `:` is dialled by IPv6.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 1000, DNS_PORT = 53 };

static int failed(void) {
  puts(strerrorname_np(errno));
  return 0;
}

static socklen_t parse(const char *address, int port, struct sockaddr_storage *out) {
  memset(out, 0, sizeof *out);
  struct sockaddr_in *four = (struct sockaddr_in *)out;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
  if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons((uint16_t)port);
    return sizeof *four;
  }
  if (inet_pton(AF_INET6, address, &six->sin6_addr) != 1) exit(2);
  six->sin6_family = AF_INET6;
  six->sin6_port = htons((uint16_t)port);
  return sizeof *six;
}

static int dial(const char *address, int port) {
  struct sockaddr_storage to;
  socklen_t length = parse(address, port, &to);
  int fd = socket(to.ss_family, SOCK_STREAM, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&to, length) != 0) return -1;
  return fd;
}

static int tcp(const char *address, int port, const char *text) {
  int fd = dial(address, port);
  if (fd < 0) return failed();
  char answer[4096];
  size_t have = 0;
  ssize_t length = 0;
  if (send(fd, text, strlen(text), MSG_NOSIGNAL) >= 0) shutdown(fd, SHUT_WR);
  while (have < sizeof answer - 1 && (length = read(fd, answer + have, sizeof answer - 1 - have)) > 0) {
    have += (size_t)length;
  }
  answer[have] = 0;
  puts(have > 0 ? answer : "closed");
  return 0;
}

static int wait_for(int fd) {
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  return poll(&ready, 1, WAIT_MS);
}

static int udp(const char *address, int port, const char *text) {
  struct sockaddr_storage to;
  socklen_t length = parse(address, port, &to);
  int fd = socket(to.ss_family, SOCK_DGRAM, 0), yes = 1;
  if (fd < 0) return failed();
  setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
  if (connect(fd, (struct sockaddr *)&to, length) != 0) return failed();
  if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) return failed();
  char answer[4096];
  if (wait_for(fd) == 0) return puts("silent"), 0;
  ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
  if (got < 0) return failed();
  answer[got] = 0;
  puts("answered");
  return 0;
}

static size_t question(const char *name, int type, unsigned char *out) {
  unsigned char *at = out;
  memcpy(at, "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", 12);
  at += 12;
  while (*name != 0) {
    size_t length = strcspn(name, ".");
    *at++ = (unsigned char)length;
    memcpy(at, name, length);
    at += length;
    name += length + (name[length] == '.');
  }
  *at++ = 0;
  *at++ = (unsigned char)(type >> 8);
  *at++ = (unsigned char)type;
  *at++ = 0;
  *at++ = 1;
  return (size_t)(at - out);
}

static int dns(const char *server, const char *name, int type) {
  unsigned char message[4096];
  struct sockaddr_in to, from;
  socklen_t length = parse(server, DNS_PORT, (struct sockaddr_storage *)&message);
  memcpy(&to, message, sizeof to);
  size_t asked = question(name, type, message);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0 || sendto(fd, message, asked, 0, (struct sockaddr *)&to, length) < 0) return failed();
  if (wait_for(fd) == 0) return puts("silent"), 0;
  length = sizeof from;
  ssize_t got = recvfrom(fd, message, sizeof message, 0, (struct sockaddr *)&from, &length);
  if (got < (ssize_t)asked) return got < 0 ? failed() : (puts("short"), 0);
  printf("%d", message[3] & 15);
  for (const unsigned char *at = message + asked; at + 12 <= message + got; at += 12 + (at[10] << 8 | at[11])) {
    char text[INET6_ADDRSTRLEN];
    printf(" %s", inet_ntop(at[3] == 1 ? AF_INET : AF_INET6, at + 12, text, sizeof text));
  }
  printf(" from %s\n", inet_ntoa(from.sin_addr));
  return 0;
}

static int bind_to(const char *kind, int port) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, strcmp(kind, "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM, 0), yes = 1;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0) return failed();
  if (strcmp(kind, "tcp") == 0 && listen(fd, 1) != 0) return failed();
  puts("bound");
  return 0;
}

static int hold(const char *address, int port, int count) {
  int answered = 0, *held = calloc((size_t)count, sizeof *held);
  for (int i = 0; i < count; i++) held[i] = dial(address, port);
  /* All stand before the first is used. */
  for (int i = 0; i < count; i++) {
    if (held[i] >= 0 && send(held[i], "held\r\n\r\n", 8, MSG_NOSIGNAL) != 8) held[i] = -1;
  }
  for (int i = 0; i < count; i++) {
    char byte;
    if (held[i] >= 0 && read(held[i], &byte, 1) == 1) answered++;
  }
  printf("%d\n", answered);
  return 0;
}

static int churn(const char *address, int port, int count) {
  int stood = 0;
  for (int i = 0; i < count; i++) {
    int fd = dial(address, port);
    stood += fd >= 0;
    /* With what it has not read yet: the other side is told by a reset. */
    struct linger at_once = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (fd >= 0) close(fd);
  }
  printf("%d\n", stood);
  return 0;
}

static int message(const char *server, const char *hex) {
  unsigned char bytes[4096];
  size_t length = 0;
  for (unsigned byte; length < sizeof bytes && sscanf(hex + 2 * length, "%2x", &byte) == 1;) {
    bytes[length++] = (unsigned char)byte;
  }
  struct sockaddr_storage to;
  socklen_t address_length = parse(server, DNS_PORT, &to);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0 || sendto(fd, bytes, length, 0, (struct sockaddr *)&to, address_length) < 0) return failed();
  /* Who says nothing to such a message does not say it later. */
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  if (poll(&ready, 1, WAIT_MS / 5) == 0) return puts("silent"), 0;
  ssize_t got = recv(fd, bytes, sizeof bytes, 0);
  printf("%d\n", got < 4 ? -1 : bytes[3] & 15);
  return 0;
}

static int flood(const char *server, const char *name, int seconds) {
  unsigned char message[4096];
  struct sockaddr_in to;
  socklen_t length = parse(server, DNS_PORT, (struct sockaddr_storage *)&message);
  memcpy(&to, message, sizeof to);
  size_t asked = question(name, 1, message);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  long sent = 0;
  for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
    for (int i = 0; i < 1000; i++) sent += sendto(fd, message, asked, 0, (struct sockaddr *)&to, length) > 0;
  }
  printf("%ld\n", sent);
  return 0;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "tcp") == 0 && argc == 5) return tcp(argv[2], atoi(argv[3]), argv[4]);
  if (strcmp(mode, "udp") == 0 && argc == 5) return udp(argv[2], atoi(argv[3]), argv[4]);
  if (strcmp(mode, "dns") == 0 && argc == 5) return dns(argv[2], argv[3], atoi(argv[4]));
  if (strcmp(mode, "bind") == 0 && argc == 4) return bind_to(argv[2], atoi(argv[3]));
  if (strcmp(mode, "hold") == 0 && argc == 5) return hold(argv[2], atoi(argv[3]), atoi(argv[4]));
  if (strcmp(mode, "churn") == 0 && argc == 5) return churn(argv[2], atoi(argv[3]), atoi(argv[4]));
  if (strcmp(mode, "message") == 0 && argc == 4) return message(argv[2], argv[3]);
  if (strcmp(mode, "flood") == 0 && argc == 5) return flood(argv[2], argv[3], atoi(argv[4]));
  if (strcmp(mode, "raw") == 0) return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) < 0 ? failed() : (puts("open"), 0);
  return 2;
}
