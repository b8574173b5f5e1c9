/*
 * The control connection: a unix stream to a socket the runtime listens on. Frames in both directions: the payload's
 * length as 32 bits little-endian, a type, the payload (spec containment 19.2).
 */
#include "confine.h"
#include <sys/socket.h>
#include <sys/un.h>

int connect_control(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    if (errno == EINTR) continue;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

static int read_fully(int fd, char *bytes, size_t length) {
  while (length > 0) {
    ssize_t got = read(fd, bytes, length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return -1;
    bytes += got;
    length -= (size_t)got;
  }
  return 0;
}

uint32_t little_endian(const unsigned char *bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

char *read_spec(int control, size_t *length) {
  unsigned char header[FRAME_HEADER];
  if (read_fully(control, (char *)header, sizeof header) != 0) return NULL;
  *length = little_endian(header);
  if (header[4] != FRAME_SPEC || *length == 0 || *length > MAX_SPEC_BYTES) return NULL;
  char *bytes = malloc(*length);
  if (bytes == NULL) return NULL;
  if (read_fully(control, bytes, *length) == 0) return bytes;
  free(bytes);
  return NULL;
}

static int write_fully(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t written = send(fd, bytes, length, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      struct pollfd writable = {fd, POLLOUT, 0};
      if (poll(&writable, 1, -1) < 0 && errno != EINTR) return -1;
      continue;
    }
    if (written <= 0) return -1;
    bytes += written;
    length -= (size_t)written;
  }
  return 0;
}

int send_frame(int control, enum frame_type type, const void *payload, size_t length) {
  char frame[FRAME_HEADER + 2048];
  if (length > sizeof frame - FRAME_HEADER) return -1;
  frame[0] = (char)(length & 0xff);
  frame[1] = (char)(length >> 8 & 0xff);
  frame[2] = frame[3] = 0;
  frame[4] = (char)type;
  if (length > 0) memcpy(frame + FRAME_HEADER, payload, length);
  return write_fully(control, frame, FRAME_HEADER + length);
}

void describe(struct failure *failure, const char *stage, int error, const char *step, const char *path) {
  memset(failure, 0, sizeof *failure);
  failure->error = error;
  snprintf(failure->stage, sizeof failure->stage, "%s", stage);
  snprintf(failure->step, sizeof failure->step, "%s%s%s", step, path == NULL ? "" : " ", path == NULL ? "" : path);
}

/* Payload: the error number as 32 bits, then stage, step and the error's words, each ending in NUL. */
void send_failure(int control, const struct failure *failure) {
  char payload[4 + sizeof failure->stage + sizeof failure->step + 256];
  uint32_t error = (uint32_t)failure->error;
  for (int i = 0; i < 4; i++) payload[i] = (char)(error >> 8 * i & 0xff);
  const char *words[] = {failure->stage, failure->step, failure->error == 0 ? "" : strerror(failure->error)};
  size_t length = 4;
  for (size_t i = 0; i < LENGTH_OF(words); i++) {
    size_t size = strlen(words[i]) + 1;
    if (size > sizeof payload - length) break;
    memcpy(payload + length, words[i], size);
    length += size;
  }
  send_frame(control, FRAME_FAILED, payload, length);
}
