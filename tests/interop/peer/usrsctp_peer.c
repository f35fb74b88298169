/*
 * usrsctp over raw IP: the peer of netrig's SCTP in the tests of interoperation.
 *
 *   usrsctp_peer -l LOCAL [-l LOCAL] [-r REMOTE [-r REMOTE]] (-s | -d) FOLDER
 *                [-e] [-c BYTES] [-a BYTES] [-m MESSAGE] [-p RETRANSMISSIONS]
 *
 * With -r it connects, from port 6001 to port 6000; without it listens on port 6000 for one association.
 * -s sends the files FOLDER/0 to FOLDER/4, each on the stream of its name; -d receives into such files. -e shuts
 * the association down when all is given, -c when so many bytes were received; -a aborts it then. -m is the
 * longest message to send, -p Path.Max.Retrans (usrsctp's default: 5). All else is as usrsctp has it.
 *
 * What happens is told on standard output, one event a line.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <usrsctp.h>

enum { STREAMS = 5, PATHS = 2, SERVER_PORT = 6000, CLIENT_PORT = 6001, LIFE_SECONDS = 170 };

struct addresses {
  struct sockaddr_in of[PATHS];
  int count;
};

struct plan {
  struct addresses locals, remotes;
  const char *send_from, *receive_into;
  int shutdown_after_sending;
  uint64_t shutdown_after, abort_after;
  size_t longest_message;
  uint16_t path_max_retrans;
};

static void die(const char *what) {
  printf("failed %s: %s\n", what, strerror(errno));
  exit(1);
}

static void add(struct addresses *list, const char *text, int port) {
  if (list->count == PATHS) die("more addresses than paths");
  struct sockaddr_in *to = &list->of[list->count++];
  memset(to, 0, sizeof *to);
  to->sin_family = AF_INET;
  to->sin_port = htons(port);
  if (inet_pton(AF_INET, text, &to->sin_addr) != 1) die(text);
}

static struct plan read_plan(int count, char **words) {
  struct plan plan = {.longest_message = 1000};
  const char *remotes[PATHS] = {0}, *locals[PATHS] = {0};
  int remote = 0, local = 0;
  for (int option; (option = getopt(count, words, "l:r:s:d:ec:a:m:p:")) != -1;) switch (option) {
    case 'l': if (local < PATHS) locals[local++] = optarg; break;
    case 'r': if (remote < PATHS) remotes[remote++] = optarg; break;
    case 's': plan.send_from = optarg; break;
    case 'd': plan.receive_into = optarg; break;
    case 'e': plan.shutdown_after_sending = 1; break;
    case 'c': plan.shutdown_after = strtoull(optarg, NULL, 10); break;
    case 'a': plan.abort_after = strtoull(optarg, NULL, 10); break;
    case 'm': plan.longest_message = strtoull(optarg, NULL, 10); break;
    case 'p': plan.path_max_retrans = atoi(optarg); break;
    default: exit(2);
  }
  for (int i = 0; i < local; i++) add(&plan.locals, locals[i], remote ? CLIENT_PORT : SERVER_PORT);
  for (int i = 0; i < remote; i++) add(&plan.remotes, remotes[i], SERVER_PORT);
  return plan;
}

static void set(struct socket *socket, int option, const void *value, socklen_t size) {
  if (usrsctp_setsockopt(socket, IPPROTO_SCTP, option, value, size)) die("setsockopt");
}

static struct socket *make_socket(const struct plan *plan) {
  struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
  if (!socket) die("socket");
  struct sctp_initmsg streams = {.sinit_num_ostreams = STREAMS, .sinit_max_instreams = STREAMS};
  set(socket, SCTP_INITMSG, &streams, sizeof streams);
  int on = 1;
  set(socket, SCTP_RECVRCVINFO, &on, sizeof on);
  uint16_t wanted[] = {SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_SHUTDOWN_EVENT};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    struct sctp_event event = {.se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = wanted[i], .se_on = 1};
    set(socket, SCTP_EVENT, &event, sizeof event);
  }
  if (plan->path_max_retrans) {
    struct sctp_paddrparams path = {.spp_pathmaxrxt = plan->path_max_retrans};
    path.spp_address.ss_family = AF_INET;
    set(socket, SCTP_PEER_ADDR_PARAMS, &path, sizeof path);
  }
  for (int i = 0; i < plan->locals.count; i++)
    if (usrsctp_bindx(socket, (struct sockaddr *)&plan->locals.of[i], 1, SCTP_BINDX_ADD_ADDR)) die("bindx");
  return socket;
}

static struct socket *meet(const struct plan *plan, struct socket *socket) {
  if (plan->remotes.count) {
    sctp_assoc_t id;
    struct sockaddr *remotes = (struct sockaddr *)plan->remotes.of;
    if (usrsctp_connectx(socket, remotes, plan->remotes.count, &id)) die("connectx");
    return socket;
  }
  if (usrsctp_listen(socket, 1)) die("listen");
  puts("listening");
  struct socket *accepted = usrsctp_accept(socket, NULL, NULL);
  if (!accepted) die("accept");
  usrsctp_close(socket);
  return accepted;
}

struct sender {
  const struct plan *plan;
  struct socket *socket;
};

/* The streams in turn, messages of 1 to longest_message bytes, until all files are sent. */
static void *send_files(void *argument) {
  const struct plan *plan = ((struct sender *)argument)->plan;
  struct socket *socket = ((struct sender *)argument)->socket;
  FILE *files[STREAMS];
  char name[4096], *message = malloc(plan->longest_message);
  for (int i = 0; i < STREAMS; i++) {
    snprintf(name, sizeof name, "%s/%d", plan->send_from, i);
    if (!(files[i] = fopen(name, "rb"))) die(name);
  }
  uint64_t sent = 0;
  int open = STREAMS;
  for (uint64_t n = 0; open; n++) {
    struct sctp_sndinfo info = {.snd_sid = n % STREAMS};
    FILE *file = files[info.snd_sid];
    if (!file) continue;
    size_t size = fread(message, 1, 1 + n * 2741 % plan->longest_message, file);
    if (!size) {
      fclose(file);
      files[info.snd_sid] = NULL;
      open--;
      continue;
    }
    ssize_t taken =
        usrsctp_sendv(socket, message, size, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
    if (taken != (ssize_t)size) {
      printf("sending ended: %s\n", strerror(errno));
      return NULL;
    }
    sent += size;
  }
  printf("given %lu\n", sent);
  if (plan->shutdown_after_sending && usrsctp_shutdown(socket, SHUT_WR)) die("shutdown");
  free(message);
  return NULL;
}

/* False once the association is over. */
static int tell(const union sctp_notification *event) {
  static const char *const over[] = {[SCTP_COMM_LOST] = "lost", [SCTP_SHUTDOWN_COMP] = "shutdown complete",
                                     [SCTP_CANT_STR_ASSOC] = "could not start"};
  static const char *const states[] = {
      [SCTP_ADDR_AVAILABLE] = "available", [SCTP_ADDR_UNREACHABLE] = "unreachable",
      [SCTP_ADDR_REMOVED] = "removed",     [SCTP_ADDR_ADDED] = "added",
      [SCTP_ADDR_MADE_PRIM] = "primary",   [SCTP_ADDR_CONFIRMED] = "confirmed"};
  char address[INET_ADDRSTRLEN];
  switch (event->sn_header.sn_type) {
    case SCTP_PEER_ADDR_CHANGE: {
      const struct sctp_paddr_change *path = &event->sn_paddr_change;
      const struct sockaddr_in *of = (const struct sockaddr_in *)&path->spc_aaddr;
      inet_ntop(AF_INET, &of->sin_addr, address, sizeof address);
      printf("path %s %s\n", address, path->spc_state <= SCTP_ADDR_CONFIRMED ? states[path->spc_state] : "?");
      return 1;
    }
    case SCTP_SHUTDOWN_EVENT:
      puts("shutdown event");
      return 1;
    case SCTP_ASSOC_CHANGE: {
      const struct sctp_assoc_change *change = &event->sn_assoc_change;
      if (change->sac_state == SCTP_COMM_UP || change->sac_state == SCTP_RESTART) {
        printf("up in %u out %u\n", change->sac_inbound_streams, change->sac_outbound_streams);
        return 1;
      }
      printf("over %s\n", over[change->sac_state]);
      return 0;
    }
    default:
      return 1;
  }
}

/* Takes data and events until the association is over; returns how many bytes came. */
static uint64_t receive(const struct plan *plan, struct socket *socket) {
  FILE *files[STREAMS] = {0};
  size_t room = 1 << 16;
  char name[4096], *data = malloc(room);
  for (int i = 0; plan->receive_into && i < STREAMS; i++) {
    snprintf(name, sizeof name, "%s/%d", plan->receive_into, i);
    if (!(files[i] = fopen(name, "wb"))) die(name);
  }
  uint64_t total = 0, told = 0;
  for (;;) {
    struct sctp_rcvinfo info = {0};
    struct sockaddr_in from;
    socklen_t info_size = sizeof info, from_size = sizeof from;
    unsigned info_type = 0;
    int flags = 0;
    ssize_t size = usrsctp_recvv(socket, data, room, (struct sockaddr *)&from, &from_size, &info, &info_size,
                                 &info_type, &flags);
    if (size > 0 && flags & MSG_NOTIFICATION) {
      if (!tell((union sctp_notification *)data)) break;
      continue;
    }
    if (size <= 0) {
      printf("end %s\n", size ? strerror(errno) : "of data");
      break;
    }
    if (info_type != SCTP_RECVV_RCVINFO || info.rcv_sid >= STREAMS || !files[info.rcv_sid]) die("stream");
    fwrite(data, 1, size, files[info.rcv_sid]);
    total += size;
    if (total / 1000000 > told) printf("received %lu MB\n", told = total / 1000000);
    if (plan->abort_after && total >= plan->abort_after) {
      struct linger at_once = {.l_onoff = 1, .l_linger = 0};
      if (usrsctp_setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once)) die("linger");
      puts("aborting");
      break;
    }
    if (plan->shutdown_after && total == plan->shutdown_after && usrsctp_shutdown(socket, SHUT_WR))
      die("shutdown");
  }
  for (int i = 0; i < STREAMS; i++)
    if (files[i]) fclose(files[i]);
  free(data);
  return total;
}

int main(int count, char **words) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  /* Whatever becomes of the test, this process does not stay. */
  alarm(LIFE_SECONDS);
  struct plan plan = read_plan(count, words);
  usrsctp_init(0, NULL, NULL);
  struct socket *socket = meet(&plan, make_socket(&plan));
  puts("connected");
  struct sender sender = {&plan, socket};
  pthread_t thread;
  if (plan.send_from && pthread_create(&thread, NULL, send_files, &sender)) die("thread");
  uint64_t total = receive(&plan, socket);
  if (plan.send_from) pthread_join(thread, NULL);
  usrsctp_close(socket);
  while (usrsctp_finish()) usleep(10000);
  printf("received %lu in all\n", total);
  return 0;
}
