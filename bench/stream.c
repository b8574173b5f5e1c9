/*
 * Both ends of a bulk transfer over TCP on loopback, for measuring what lies between them.
 *
 *   stream serve <bytes>              prints its port; sends or takes so many bytes per connection, as the client asks
 *   stream get|put <port> <bytes>     prints the megabytes per second it saw
 *   stream hold <port> <count>        prints how many of so many connections, all open at once, are answered
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <signal.h>

static char block[1 << 17];

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long send_bytes(int fd, long count) {
  long left = count;
  while (left > 0) {
    ssize_t sent = send(fd, block, left < (long)sizeof block ? (size_t)left : sizeof block, MSG_NOSIGNAL);
    if (sent <= 0) break;
    left -= sent;
  }
  shutdown(fd, SHUT_WR);
  return count - left;
}

static long take_bytes(int fd) {
  long total = 0;
  for (ssize_t got; (got = read(fd, block, sizeof block)) > 0;) total += got;
  return total;
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static int serve(long bytes) {
  struct sockaddr_in own = loopback(0);
  socklen_t length = sizeof own;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&own, sizeof own) != 0 || listen(listener, 256) != 0) return 1;
  getsockname(listener, (struct sockaddr *)&own, &length);
  printf("%d\n", ntohs(own.sin_port));
  fflush(stdout);
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return 1;
    if (fork() == 0) {
      char wish = 0;
      if (read(fd, &wish, 1) == 1 && wish == 'g') send_bytes(fd, bytes);
      if (wish == 'p') take_bytes(fd);
      if (wish == 'h') send_bytes(fd, 1);
      _exit(0);
    }
    close(fd);
  }
}

static int dial(int port) {
  struct sockaddr_in to = loopback(port);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
    perror("connect");
    exit(1);
  }
  return fd;
}

static int transfer(const char *wish, int port, long bytes) {
  int fd = dial(port);
  double from = seconds();
  long moved = 0;
  if (write(fd, wish, 1) != 1) return 1;
  if (*wish == 'p') moved = send_bytes(fd, bytes);
  /* The other side closes when it has taken everything. */
  long got = take_bytes(fd);
  if (*wish == 'g') moved = got;
  if (moved != bytes) return 1;
  printf("%.1f\n", (double)bytes / 1e6 / (seconds() - from));
  return 0;
}

static int hold(int port, int count) {
  int answered = 0, *held = calloc((size_t)count, sizeof *held);
  for (int i = 0; i < count; i++) held[i] = dial(port);
  for (int i = 0; i < count; i++) {
    if (write(held[i], "h", 1) != 1) held[i] = -1;
  }
  for (int i = 0; i < count; i++) {
    if (held[i] >= 0 && read(held[i], block, 1) == 1) answered++;
  }
  printf("%d\n", answered);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "serve") == 0) return serve(atol(argv[2]));
  if (argc != 4) return 2;
  if (strcmp(argv[1], "hold") == 0) return hold(atoi(argv[2]), atoi(argv[3]));
  return transfer(argv[1], atoi(argv[2]), atol(argv[3]));
}
