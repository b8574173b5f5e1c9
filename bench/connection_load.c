// A client for benchmarks that opens a connection for every request, as peers of the resource planes do: it sends the
// request, reads the answer to its end and closes. Prints the requests a second that were answered whole.
//
// Usage: connection_load PORT PATH LANES MILLISECONDS LEAST_BYTES
// An answer of fewer than LEAST_BYTES bytes ends the program with status 1.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in address;
static char request[4096];
static size_t request_length;
static long long end_ns;
static size_t least;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void *lane(void *counted) {
  static __thread char buffer[1 << 18];
  long *count = counted;
  while (now_ns() < end_ns) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (write(fd, request, request_length) != (ssize_t)request_length) fail("write");
    size_t got = 0;
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
      if (got == 0 && memcmp(buffer, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "an answer that is not 200: %.*s\n", (int)n, buffer);
        exit(1);
      }
      got += (size_t)n;
    }
    if (n < 0) fail("read");
    if (got < least) {
      fprintf(stderr, "an answer of %zu bytes\n", got);
      exit(1);
    }
    close(fd);
    ++*count;
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  address.sin_family = AF_INET;
  address.sin_port = htons((unsigned short)atoi(argv[1]));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  request_length = (size_t)snprintf(request, sizeof request,
                                    "GET %s HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\n\r\n", argv[2], argv[1]);
  int lanes = atoi(argv[3]);
  long long duration = atoll(argv[4]) * 1000000LL;
  least = (size_t)atoll(argv[5]);
  pthread_t threads[256];
  long counts[256] = {0};
  if (lanes < 1 || lanes > 256) return 2;
  long long start = now_ns();
  end_ns = start + duration;
  for (int i = 0; i < lanes; i++) {
    if (pthread_create(&threads[i], NULL, lane, &counts[i]) != 0) fail("thread");
  }
  long total = 0;
  for (int i = 0; i < lanes; i++) {
    pthread_join(threads[i], NULL);
    total += counts[i];
  }
  printf("%.3f\n", (double)total / ((double)(now_ns() - start) / 1e9));
  return 0;
}
