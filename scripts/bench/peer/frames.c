/* Loads a broker with frames of RocketMQ's remoting protocol, and checks and counts the replies.
 *
 *     frames PORT CONNECTIONS IN_FLIGHT SECONDS MOST LEAST FILE
 *
 * FILE has whole requests. Each connection sends them in turn, again and again, and keeps IN_FLIGHT
 * of them waiting for their replies. After SECONDS, or MOST requests, it only reads the missing
 * replies. Each reply must have at least LEAST bytes and a JSON header with code 0. Prints the number
 * of replies and the seconds until the last one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1 << 20, HEAD = 8, PEERS_MAX = 64, HANG_MS = 60000, SHOWN = HEAD + 10 };
static const char OK[SHOWN - HEAD + 1] = "{\"code\":0,";

struct peer {
    int socket;
    size_t next;    /* number of the request to send next */
    size_t kept;    /* size of `begun`: the first bytes of a reply that cannot be checked yet */
    size_t missing; /* bytes of a checked reply that have not arrived */
    unsigned char begun[SHOWN];
};

static unsigned char *block, *in;
static size_t *at, requests, copies, least; /* at[i]: position of request i, of all copies */

static void fail(const char *why) {
    fprintf(stderr, "%s: %s\n", why, errno ? strerror(errno) : "it ended");
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static size_t number(const unsigned char *b) {
    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
}

static void load(const char *path, size_t in_flight) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about)) fail(path);
    size_t size = about.st_size;
    unsigned char *once = malloc(size);
    if (fread(once, 1, size, file) != size) fail(path);
    for (size_t p = 0; p < size; p += 4 + number(once + p)) requests++;
    copies = 2 + in_flight / requests;
    block = malloc(copies * size);
    at = malloc((copies * requests + 1) * sizeof *at);
    size_t n = 0;
    for (size_t c = 0; c < copies; c++) memcpy(block + c * size, once, size);
    for (size_t p = 0; p < copies * size; p += 4 + number(block + p)) at[n++] = p;
    at[n] = copies * size;
}

static void send_more(struct peer *one, size_t count) {
    while (count) {
        size_t some = count < copies * requests - one->next ? count : copies * requests - one->next;
        size_t p = at[one->next], end = at[one->next + some];
        while (p < end) {
            ssize_t sent = send(one->socket, block + p, end - p, 0);
            if (sent <= 0) fail("send");
            p += sent;
        }
        one->next = (one->next + some) % requests;
        count -= some;
    }
}

static size_t take(struct peer *one) {
    errno = 0;
    ssize_t read = recv(one->socket, in + one->kept, ROOM, 0);
    if (read <= 0) fail("the broker closed a connection");
    memcpy(in, one->begun, one->kept);
    size_t size = read + one->kept, p = 0, count = 0;
    if (one->missing) {
        size_t some = one->missing < size ? one->missing : size;
        one->missing -= some;
        p += some;
        if (!one->missing) count++;
    }
    while (!one->missing && size - p >= SHOWN) {
        size_t whole = 4 + number(in + p);
        if (memcmp(in + p + HEAD, OK, SHOWN - HEAD) || whole < least) {
            int shown = size - p - HEAD < 300 ? size - p - HEAD : 300;
            fprintf(stderr, "a reply is refused or too short: %.*s\n", shown, in + p + HEAD);
            exit(1);
        }
        if (whole <= size - p) {
            count++;
            p += whole;
        } else {
            one->missing = whole - (size - p);
            p = size;
        }
    }
    one->kept = one->missing ? 0 : size - p;
    memcpy(one->begun, in + p, one->kept);
    return count;
}

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    int port = atoi(argv[1]), peers = atoi(argv[2]);
    size_t in_flight = atol(argv[3]), most = atol(argv[5]), replies = 0;
    double seconds = atof(argv[4]);
    struct peer *all = calloc(peers, sizeof *all);
    struct epoll_event events[PEERS_MAX];
    in = malloc(ROOM + SHOWN);
    least = atol(argv[6]);
    load(argv[7], in_flight);
    int poll = epoll_create1(0), yes = 1;
    for (int i = 0; i < peers; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        all[i].socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[i].socket, (struct sockaddr *)&to, sizeof to)) fail("connect");
        setsockopt(all[i].socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = all + i};
        epoll_ctl(poll, EPOLL_CTL_ADD, all[i].socket, &event);
    }
    double begun = now();
    size_t waiting = peers * in_flight;
    for (int i = 0; i < peers; i++) send_more(all + i, in_flight);
    while (replies < waiting) {
        errno = 0;
        int n = epoll_wait(poll, events, PEERS_MAX, HANG_MS);
        if (n <= 0) fail("no reply came");
        int more = now() - begun < seconds && waiting < most;
        for (int i = 0; i < n; i++) {
            size_t count = take(events[i].data.ptr);
            replies += count;
            if (more && count) waiting += count, send_more(events[i].data.ptr, count);
        }
    }
    printf("%zu %.6f\n", replies, now() - begun);
    return 0;
}
