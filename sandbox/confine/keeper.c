/*
 * keeper: makes the network of a session, holds it, and carries what commands dial to the runtime (spec containment 9,
 * 19.2, 19.5).
 *
 *   mur-confine keeper <control socket>
 *
 * Every IPv4 address is local in this network and only the listeners below answer. The runtime decides about each
 * connection and each name; nothing here knows what is allowed. The control connection carries frames; each accepted
 * TCP connection gets a connection of its own to the same socket, which begins with the token, so that the runtime can
 * tell it from a stranger's.
 */
#include "confine.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
  BACKLOG = 128,
  /* The runtime refuses above 128; what it has refused needs a moment to go. */
  MAX_CONNECTIONS = 192,
  PENDING_BYTES = 65536,
  DNS_BYTES = 4096,
  DNS_HEADER = 8,
  OUTBOX_BYTES = 65536,
  /* Queries that wait for their answer; an older one is forgotten. */
  MAX_QUERIES = 512,
  RETRY_MS = 5,
  /* Most of one kind that are taken before the others have their turn. */
  TURN = 64,
  PREAMBLE_BYTES = 4 + TOKEN_BYTES + 6,
};

/* One direction of a connection: bytes read from one side that the other did not take yet. */
struct direction {
  char *bytes;
  size_t start, end;
  int ended;
};

enum state {
  /* The runtime's socket has no room for another connection yet. */
  STATE_DIALLING,
  /* The preamble is sent; one byte says whether to go on. */
  STATE_ASKING,
  STATE_CARRYING,
};

struct connection {
  enum state state;
  int in_use;
  /* Side 0 is the command's, side 1 the runtime's; direction i reads side i. */
  int side[2];
  uint32_t registered[2];
  /* A side that is shut both ways. It is ready for ever, so it is waited for no more; what it sent is still read. */
  int hung[2];
  struct direction direction[2];
  struct in_addr dialled;
  uint16_t port;
};

struct query {
  uint32_t id;
  struct sockaddr_in asker;
  struct in_addr dialled;
};

static struct {
  struct spec spec;
  struct sockaddr_un address;
  int control, epoll, dns;
  int listeners[MAX_PORTS];
  struct connection connections[MAX_CONNECTIONS];
  size_t dialling;
  struct query queries[MAX_QUERIES];
  uint32_t next_query;
  unsigned char inbox[FRAME_HEADER + DNS_HEADER + DNS_BYTES];
  size_t inbox_length;
  unsigned char outbox[OUTBOX_BYTES];
  size_t outbox_length;
} keeper;

/* What an epoll event is about: below these, connection * 2 + side. */
enum { EVENT_CONTROL = 1 << 20, EVENT_DNS, EVENT_LISTENER };

static _Noreturn void refuse(const char *stage, int error, const char *step) {
  struct failure failure;
  describe(&failure, stage, error, step, NULL);
  send_failure(keeper.control, &failure);
  _exit(EXIT_SETUP);
}

static int watch(int fd, uint32_t about, uint32_t events, int operation) {
  struct epoll_event event = {.events = events, .data.u32 = about};
  return epoll_ctl(keeper.epoll, operation, fd, &event);
}

/* ---------------------------------------------------------------------------------------------------- listeners --- */

static int listen_tcp(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0) return -1;
  return fd;
}

static int open_dns(void) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  int wanted = 1;
  /* The answer must come from the address that was asked. */
  if (setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &wanted, sizeof wanted) != 0) return -1;
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) return -1;
  return fd;
}

static void make_network(void) {
  uid_t uid = geteuid();
  gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) refuse("netns", errno, "unshare");
  if (map_own_ids(uid, gid) != 0) refuse("netns", errno, "id maps");
  if (raise_loopback() != 0) refuse("netns", errno, "loopback");
  if (add_local_route() != 0) refuse("netns", errno, "route");
  for (size_t i = 0; i < keeper.spec.port_count; i++) {
    keeper.listeners[i] = listen_tcp(keeper.spec.ports[i]);
    if (keeper.listeners[i] < 0) refuse("netns", errno, "listen");
    if (watch(keeper.listeners[i], EVENT_LISTENER + (uint32_t)i, EPOLLIN, EPOLL_CTL_ADD) != 0) {
      refuse("netns", errno, "epoll");
    }
  }
  keeper.dns = open_dns();
  if (keeper.dns < 0) refuse("netns", errno, "dns");
  if (watch(keeper.dns, EVENT_DNS, EPOLLIN, EPOLL_CTL_ADD) != 0) refuse("netns", errno, "epoll");
}

/* -------------------------------------------------------------------------------------------------- connections --- */

static void drop(struct connection *connection) {
  if (connection->state == STATE_DIALLING) keeper.dialling--;
  for (int i = 0; i < 2; i++) {
    if (connection->side[i] >= 0) close(connection->side[i]);
    free(connection->direction[i].bytes);
  }
  memset(connection, 0, sizeof *connection);
}

static uint32_t about(const struct connection *connection, int side) {
  return (uint32_t)(connection - keeper.connections) * 2 + (uint32_t)side;
}

/* Asks for what is waited for: reading while the other side takes it, writing while something is pending for it. */
static void register_sides(struct connection *connection) {
  for (int side = 0; side < 2; side++) {
    const struct direction *from = &connection->direction[side], *to = &connection->direction[1 - side];
    uint32_t events = 0;
    if (connection->hung[side]) continue;
    if (!from->ended && from->end == from->start) events |= EPOLLIN;
    if (to->end > to->start) events |= EPOLLOUT;
    if (events == connection->registered[side]) continue;
    if (watch(connection->side[side], about(connection, side), events, EPOLL_CTL_MOD) != 0) return drop(connection);
    connection->registered[side] = events;
  }
}

/* Writes what is pending of a direction. 0; -1 when the other side is gone. */
static int flush(struct connection *connection, int side) {
  struct direction *direction = &connection->direction[side];
  while (direction->end > direction->start) {
    ssize_t written = send(connection->side[1 - side], direction->bytes + direction->start,
                           direction->end - direction->start, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return 0;
    if (written <= 0) return -1;
    direction->start += (size_t)written;
  }
  direction->start = direction->end = 0;
  if (direction->ended) shutdown(connection->side[1 - side], SHUT_WR);
  return 0;
}

/* Reads a side once and passes it on. 0; 1 when there is nothing to read; -1 when the connection is over. */
static int carry(struct connection *connection, int side) {
  static char scratch[PENDING_BYTES];
  struct direction *direction = &connection->direction[side];
  ssize_t length = recv(connection->side[side], scratch, sizeof scratch, MSG_DONTWAIT);
  if (length < 0) return errno == EAGAIN || errno == EINTR ? 1 : -1;
  if (length == 0) {
    direction->ended = 1;
    return flush(connection, side);
  }
  size_t done = 0;
  while (done < (size_t)length) {
    ssize_t written =
        send(connection->side[1 - side], scratch + done, (size_t)length - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written <= 0) return -1;
    done += (size_t)written;
  }
  if (done == (size_t)length) return 0;
  /* Memory is taken only by what is slower than its peer. */
  if (direction->bytes == NULL) direction->bytes = malloc(PENDING_BYTES);
  if (direction->bytes == NULL) return -1;
  direction->start = 0;
  direction->end = (size_t)length - done;
  memcpy(direction->bytes, scratch + done, direction->end);
  return 0;
}

/* Connects to the runtime and says who is dialling what. 1; 0 to try again; -1 when it can't be. */
static int dial(struct connection *connection) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&keeper.address, sizeof keeper.address) != 0) {
    int full = errno == EAGAIN;
    close(fd);
    return full ? 0 : -1;
  }
  unsigned char preamble[PREAMBLE_BYTES] = "MURC";
  memcpy(preamble + 4, keeper.spec.token, TOKEN_BYTES);
  memcpy(preamble + 4 + TOKEN_BYTES, &connection->dialled, 4);
  preamble[4 + TOKEN_BYTES + 4] = (unsigned char)(connection->port >> 8);
  preamble[4 + TOKEN_BYTES + 5] = (unsigned char)connection->port;
  /* A fresh socket takes these few bytes at once. */
  if (send(fd, preamble, sizeof preamble, MSG_NOSIGNAL) != (ssize_t)sizeof preamble) {
    close(fd);
    return -1;
  }
  connection->side[1] = fd;
  for (int side = 0; side < 2; side++) {
    /* The command's side is only watched for its end until the runtime has answered. */
    connection->registered[side] = side == 1 ? EPOLLIN : 0;
    if (watch(connection->side[side], about(connection, side), connection->registered[side], EPOLL_CTL_ADD) != 0) {
      return -1;
    }
  }
  return 1;
}

static void dial_or_wait(struct connection *connection) {
  int result = dial(connection);
  if (result < 0) return drop(connection);
  if (result == 0) return;
  connection->state = STATE_ASKING;
  keeper.dialling--;
}

static void accept_some(int listener) {
  for (int turn = 0; turn < TURN; turn++) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    struct sockaddr_in own;
    socklen_t length = sizeof own;
    struct connection *connection = keeper.connections;
    while (connection < keeper.connections + MAX_CONNECTIONS && connection->in_use) connection++;
    if (connection == keeper.connections + MAX_CONNECTIONS ||
        getsockname(fd, (struct sockaddr *)&own, &length) != 0 || own.sin_family != AF_INET) {
      close(fd);
      continue;
    }
    *connection = (struct connection){.state = STATE_DIALLING, .in_use = 1, .side = {fd, -1},
                                      .dialled = own.sin_addr, .port = ntohs(own.sin_port)};
    keeper.dialling++;
    dial_or_wait(connection);
  }
}

static int pending(const struct direction *direction) { return direction->end > direction->start; }

static void serve_connection(struct connection *connection, int side, uint32_t events) {
  /* Dropped by an earlier event of the same round. */
  if (!connection->in_use) return;
  if (connection->state == STATE_ASKING) {
    unsigned char answer = 0;
    /* A command that gave up before it was answered can't be told. */
    if (side == 0) return drop(connection);
    ssize_t length = recv(connection->side[1], &answer, 1, MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (length != 1 || answer != 1) return drop(connection);
    connection->state = STATE_CARRYING;
    return register_sides(connection);
  }
  if (events & (EPOLLHUP | EPOLLERR) && !connection->hung[side]) {
    connection->hung[side] = 1;
    (void)epoll_ctl(keeper.epoll, EPOLL_CTL_DEL, connection->side[side], NULL);
    /* It takes nothing any more. */
    struct direction *to = &connection->direction[1 - side];
    to->ended = 1;
    to->start = to->end = 0;
  }
  int over = 1;
  for (int i = 0; i < 2; i++) {
    struct direction *direction = &connection->direction[i];
    if (pending(direction) && flush(connection, i) != 0) return drop(connection);
    int readable = connection->hung[i] || (i == side && events & EPOLLIN);
    while (readable && !direction->ended && !pending(direction)) {
      int result = carry(connection, i);
      /* A side that is shut has nothing more to come. */
      if (result < 0 || (result > 0 && connection->hung[i])) return drop(connection);
      if (!connection->hung[i]) break;
    }
    if (!direction->ended || pending(direction)) over = 0;
  }
  if (over) return drop(connection);
  register_sides(connection);
}

/* ------------------------------------------------------------------------------------------------------ control --- */

static void flush_outbox(void) {
  while (keeper.outbox_length > 0) {
    ssize_t written = send(keeper.control, keeper.outbox, keeper.outbox_length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written <= 0) _exit(0);
    keeper.outbox_length -= (size_t)written;
    memmove(keeper.outbox, keeper.outbox + written, keeper.outbox_length);
  }
  watch(keeper.control, EVENT_CONTROL, EPOLLIN | (keeper.outbox_length > 0 ? EPOLLOUT : 0), EPOLL_CTL_MOD);
}

/* A query becomes a frame: number, dialled address, message. What does not fit is lost, as on any network. */
static void read_dns(void) {
  for (int turn = 0; turn < TURN; turn++) {
    unsigned char message[DNS_BYTES], control[CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct query *query = &keeper.queries[keeper.next_query % MAX_QUERIES];
    struct sockaddr_in asker;
    struct iovec vector = {message, sizeof message};
    struct msghdr header = {.msg_name = &asker, .msg_namelen = sizeof asker, .msg_iov = &vector, .msg_iovlen = 1,
                            .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(keeper.dns, &header, MSG_DONTWAIT);
    if (length < 0) return;
    if (header.msg_flags & MSG_TRUNC) continue;
    const struct cmsghdr *info = CMSG_FIRSTHDR(&header);
    if (info == NULL || info->cmsg_level != IPPROTO_IP || info->cmsg_type != IP_PKTINFO) continue;
    struct in_pktinfo packet;
    memcpy(&packet, CMSG_DATA(info), sizeof packet);
    size_t payload = DNS_HEADER + (size_t)length;
    if (keeper.outbox_length + FRAME_HEADER + payload > OUTBOX_BYTES) continue;
    *query = (struct query){keeper.next_query, asker, packet.ipi_addr};
    keeper.next_query++;
    unsigned char *at = keeper.outbox + keeper.outbox_length;
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(payload >> 8 * i & 0xff);
    at[4] = FRAME_DNS;
    for (int i = 0; i < 4; i++) at[FRAME_HEADER + i] = (unsigned char)(query->id >> 8 * i & 0xff);
    memcpy(at + FRAME_HEADER + 4, &packet.ipi_addr, 4);
    memcpy(at + FRAME_HEADER + DNS_HEADER, message, (size_t)length);
    keeper.outbox_length += FRAME_HEADER + payload;
    flush_outbox();
  }
}

static void answer_dns(const unsigned char *payload, size_t length) {
  if (length < DNS_HEADER) _exit(0);
  uint32_t id = little_endian(payload);
  struct query *query = &keeper.queries[id % MAX_QUERIES];
  /* Forgotten, or answered before. */
  if (query->id != id || query->asker.sin_port == 0) return;
  union {
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
  } control;
  memset(&control, 0, sizeof control);
  struct iovec vector = {(void *)(payload + DNS_HEADER), length - DNS_HEADER};
  struct msghdr message = {.msg_name = &query->asker, .msg_namelen = sizeof query->asker, .msg_iov = &vector,
                           .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  control.header.cmsg_level = IPPROTO_IP;
  control.header.cmsg_type = IP_PKTINFO;
  control.header.cmsg_len = CMSG_LEN(sizeof(struct in_pktinfo));
  struct in_pktinfo packet = {.ipi_spec_dst = query->dialled};
  memcpy(CMSG_DATA(&control.header), &packet, sizeof packet);
  (void)sendmsg(keeper.dns, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  query->asker.sin_port = 0;
}

static void read_control(void) {
  ssize_t length = recv(keeper.control, keeper.inbox + keeper.inbox_length, sizeof keeper.inbox - keeper.inbox_length,
                        MSG_DONTWAIT);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  /* The runtime is gone: so are the listeners. The namespace stays as long as a command is in it. */
  if (length <= 0) _exit(0);
  keeper.inbox_length += (size_t)length;
  size_t at = 0;
  while (keeper.inbox_length - at >= FRAME_HEADER) {
    const unsigned char *frame = keeper.inbox + at;
    size_t size = little_endian(frame);
    /* STOP, or a frame nobody knows. */
    if (frame[4] != FRAME_DNS || size > sizeof keeper.inbox - FRAME_HEADER) _exit(0);
    if (keeper.inbox_length - at < FRAME_HEADER + size) break;
    answer_dns(frame + FRAME_HEADER, size);
    at += FRAME_HEADER + size;
  }
  keeper.inbox_length -= at;
  memmove(keeper.inbox, keeper.inbox + at, keeper.inbox_length);
}

static void send_ready(void) {
  unsigned char ready[12];
  unsigned long long network = network_of(0);
  uint32_t pid = (uint32_t)getpid();
  for (int i = 0; i < 4; i++) ready[i] = (unsigned char)(pid >> 8 * i & 0xff);
  for (int i = 0; i < 8; i++) ready[4 + i] = (unsigned char)(network >> 8 * i & 0xff);
  if (send_frame(keeper.control, FRAME_READY, ready, sizeof ready) != 0) _exit(0);
}

_Noreturn void keep_network(const char *control_path) {
  close_inherited();
  check_streams();
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  setsid();
  keeper.control = connect_control(control_path);
  if (keeper.control < 0) fail("control", errno);
  keeper.address.sun_family = AF_UNIX;
  strcpy(keeper.address.sun_path, control_path);
  size_t length;
  char *bytes = read_spec(keeper.control, &length);
  if (bytes == NULL) fail("control", EPROTO);
  const char *wrong = parse_spec(bytes, length, SPEC_KEEPER, &keeper.spec);
  if (wrong != NULL) refuse("spec", 0, wrong);
  memset(bytes, 0, length);
  free(bytes);
  /* Two for each connection, and room besides. Where the hard limit is lower, less is held. */
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  keeper.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (keeper.epoll < 0 || watch(keeper.control, EVENT_CONTROL, EPOLLIN, EPOLL_CTL_ADD) != 0) {
    refuse("netns", errno, "epoll");
  }
  make_network();
  drop_capabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  /*
   * The kernel lets a user join the namespaces of a dumpable process only. What another process of this user could read
   * here is the token, with which it gets what the capsule's own commands get.
   */
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  send_ready();
  for (;;) {
    struct epoll_event events[64];
    int count = epoll_wait(keeper.epoll, events, LENGTH_OF(events), keeper.dialling > 0 ? RETRY_MS : -1);
    if (count < 0 && errno != EINTR) _exit(0);
    for (int i = 0; i < count; i++) {
      uint32_t what = events[i].data.u32;
      if (what == EVENT_CONTROL) {
        if (events[i].events & EPOLLOUT) flush_outbox();
        if (events[i].events & ~(uint32_t)EPOLLOUT) read_control();
      } else if (what == EVENT_DNS) {
        read_dns();
      } else if (what >= EVENT_LISTENER) {
        accept_some(keeper.listeners[what - EVENT_LISTENER]);
      } else {
        serve_connection(&keeper.connections[what / 2], (int)(what % 2), events[i].events);
      }
    }
    for (size_t i = 0; keeper.dialling > 0 && i < MAX_CONNECTIONS; i++) {
      struct connection *connection = &keeper.connections[i];
      if (connection->in_use && connection->state == STATE_DIALLING) dial_or_wait(connection);
    }
  }
}
