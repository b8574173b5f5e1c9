// A client for benchmarks that keeps its connections: on each it sends the request, reads the answer by its length and
// sends it again, for a while. One thread; it costs a server's core next to nothing. The request is read from standard
// input.
//
// Usage: keepalive_load PORT CONNECTIONS MILLISECONDS
// Prints how many answers came, then each one's latency in microseconds, as 32-bit numbers of the machine's order.
// An answer that is not 200, or of no known length, ends the program with status 1.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 1024, MAX_ANSWER = 65536 };

struct connection {
  int fd;
  long long sent_ns;
  size_t got;
  char answer[MAX_ANSWER];
};

static char request[65536];
static size_t request_length;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void send_request(struct connection *c) {
  c->got = 0;
  c->sent_ns = now_ns();
  if (write(c->fd, request, request_length) != (ssize_t)request_length) fail("write");
}

// Whether the answer is whole.
static int take(struct connection *c) {
  ssize_t n = read(c->fd, c->answer + c->got, MAX_ANSWER - 1 - c->got);
  if (n <= 0) fail("read");
  c->got += (size_t)n;
  c->answer[c->got] = 0;
  char *end = strstr(c->answer, "\r\n\r\n");
  if (end == NULL) return 0;
  char *length = strcasestr(c->answer, "\r\ncontent-length: ");
  if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0 || length == NULL || length > end) {
    fprintf(stderr, "not an answer to go on with: %.*s\n", (int)c->got, c->answer);
    exit(1);
  }
  return c->got >= (size_t)(end + 4 - c->answer) + (size_t)atol(length + 18);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((unsigned short)atoi(argv[1])),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int connections = atoi(argv[2]);
  long long duration = atoll(argv[3]) * 1000000LL;
  if (connections < 1 || connections > MAX_CONNECTIONS) return 2;
  request_length = fread(request, 1, sizeof request, stdin);

  int epoll = epoll_create1(0);
  struct connection *all = calloc((size_t)connections, sizeof *all);
  size_t room = 1 << 20, count = 0;
  uint32_t *latencies = malloc(room * sizeof *latencies);
  if (epoll < 0 || all == NULL || latencies == NULL) fail("start");
  for (int i = 0; i < connections; i++) {
    all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
    if (all[i].fd < 0 || connect(all[i].fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    int on = 1;
    setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event) < 0) fail("epoll_ctl");
  }
  long long end_ns = now_ns() + duration;
  for (int i = 0; i < connections; i++) send_request(&all[i]);
  for (int open = connections; open > 0;) {
    struct epoll_event events[64];
    int ready = epoll_wait(epoll, events, 64, -1);
    if (ready < 0) fail("epoll_wait");
    for (int i = 0; i < ready; i++) {
      struct connection *c = events[i].data.ptr;
      if (!take(c)) continue;
      long long now = now_ns();
      if (now >= end_ns) {
        close(c->fd);
        open--;
        continue;
      }
      if (count == room && (latencies = realloc(latencies, (room *= 2) * sizeof *latencies)) == NULL) fail("realloc");
      latencies[count++] = (uint32_t)((now - c->sent_ns) / 1000);
      send_request(c);
    }
  }
  uint32_t total = (uint32_t)count;
  fwrite(&total, sizeof total, 1, stdout);
  fwrite(latencies, sizeof *latencies, count, stdout);
  return fflush(stdout) == 0 ? 0 : 1;
}
