/*
 * What tests do from inside a session's network. Built and run by them; each mode prints one line.
 *
 *   network_client dial <address> <port> <bytes>     sends so many bytes, shuts down, reads to the end
 *   network_client hold <address> <port> <number>    opens so many connections, says how many got a byte, closes them
 *   network_client ask <address> <text>              sends a datagram to port 53, says what comes back and from whom
 *   network_client serve <port>                      listens, answers one connection with a byte
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int fail(const char *what) {
  printf("%s %s\n", what, strerrorname_np(errno));
  return 0;
}

static struct sockaddr_storage address;
static socklen_t address_length;

static void set_address(const char *text, int port) {
  struct sockaddr_in *four = (struct sockaddr_in *)&address;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons((uint16_t)port);
    address_length = sizeof *four;
  } else {
    inet_pton(AF_INET6, text, &six->sin6_addr);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
    address_length = sizeof *six;
  }
}

static int dial(long long bytes) {
  static char out[65536], in[65536];
  int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) return fail("socket");
  if (connect(fd, (struct sockaddr *)&address, address_length) != 0 && errno != EINPROGRESS) return fail("connect");
  struct pollfd polled = {fd, POLLOUT, 0};
  poll(&polled, 1, 10000);
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    errno = error;
    return fail("connect");
  }
  long long received = 0, left = bytes;
  if (left == 0) shutdown(fd, SHUT_WR);
  for (;;) {
    polled.events = (short)(POLLIN | (left > 0 ? POLLOUT : 0));
    if (poll(&polled, 1, 20000) <= 0) return fail("poll");
    if (left > 0 && polled.revents & POLLOUT) {
      ssize_t written = send(fd, out, left > (long long)sizeof out ? sizeof out : (size_t)left, MSG_NOSIGNAL);
      if (written > 0 && (left -= written) == 0) shutdown(fd, SHUT_WR);
      if (written < 0 && errno != EAGAIN) return fail("send");
    }
    if (polled.revents & (POLLIN | POLLHUP | POLLERR)) {
      ssize_t got = recv(fd, in, sizeof in, 0);
      if (got == 0) break;
      if (got < 0 && errno != EAGAIN) return fail("recv");
      if (got > 0) received += got;
    }
  }
  printf("received %lld\n", received);
  return 0;
}

static int hold(int number) {
  int *all = calloc((size_t)number, sizeof *all), answered = 0;
  for (int i = 0; i < number; i++) {
    all[i] = socket(AF_INET, SOCK_STREAM, 0);
    if (all[i] < 0 || connect(all[i], (struct sockaddr *)&address, address_length) != 0) return fail("connect");
  }
  for (int i = 0; i < number; i++) {
    char byte;
    struct timeval patience = {10, 0};
    setsockopt(all[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(all[i], "x", 1, MSG_NOSIGNAL) == 1 && recv(all[i], &byte, 1, 0) == 1) answered++;
  }
  printf("held %d\n", answered);
  return 0;
}

static int ask(const char *text) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct timeval patience = {2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (sendto(fd, text, strlen(text), 0, (struct sockaddr *)&address, address_length) < 0) return fail("send");
  char answer[5000], from[64];
  struct sockaddr_in sender;
  socklen_t length = sizeof sender;
  ssize_t got = recvfrom(fd, answer, sizeof answer - 1, 0, (struct sockaddr *)&sender, &length);
  if (got < 0) return fail("recv");
  answer[got] = '\0';
  printf("%s from %s\n", answer, inet_ntop(AF_INET, &sender.sin_addr, from, sizeof from));
  return 0;
}

static int serve(int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  set_address("0.0.0.0", port);
  if (bind(fd, (struct sockaddr *)&address, address_length) != 0) return fail("bind");
  if (listen(fd, 1) != 0) return fail("listen");
  printf("serves\n");
  fflush(stdout);
  int one = accept(fd, NULL, NULL);
  return one >= 0 && write(one, "y", 1) == 1 ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "serve") == 0) return serve(atoi(argv[2]));
  if (argc == 4 && strcmp(argv[1], "ask") == 0) {
    set_address(argv[2], 53);
    return ask(argv[3]);
  }
  if (argc != 5) return 2;
  set_address(argv[2], atoi(argv[3]));
  return strcmp(argv[1], "dial") == 0 ? dial(atoll(argv[4])) : hold(atoi(argv[4]));
}
