/* The least that a gRPC server can do: epoll, one read and one write an event, one answer for all.
 *
 *     bare ANSWER_FILE        prints its port on 127.0.0.1, then serves until it is killed
 *
 * Speaks as much HTTP/2 as grpc-go and h2load need from a server of unary calls: headers are not
 * decoded, windows not counted (the peer gets 1 GiB), pings and settings acknowledged. What such a
 * server takes for a call is what sockets and the kernel cost.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 1 << 18, EVENTS = 1024, HEAD = 9, PREFACE = 24, ANSWER_MAX = 1 << 14 };
enum { DATA = 0, SETTINGS = 4, PING = 6, END_STREAM = 1, ACK = 1 };

struct peer {
    int socket;
    int begun;
    size_t kept; /* bytes of a frame that is not whole yet */
    unsigned char *room;
};

static unsigned char out[4 * ROOM];
static size_t out_size;
static unsigned char answer[ANSWER_MAX + 64];
static size_t answer_size, data_at, end_at; /* an answer's frames, their stream filled in */

static void put(const void *bytes, size_t size) {
    memcpy(out + out_size, bytes, size);
    out_size += size;
}

static void frame_head(unsigned char *at, size_t size, int kind, int flags, unsigned stream) {
    unsigned char head[HEAD] = {size >> 16, size >> 8, size, kind, flags,
                                stream >> 24, stream >> 16, stream >> 8, stream};
    memcpy(at, head, HEAD);
}

static void make_answer(const char *path) {
    static const char head[] = "\x88\x0f\x10\x10" "application/grpc";
    static const char end[] = "\x00\x0b" "grpc-status" "\x01" "0";
    unsigned char message[ANSWER_MAX];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(message, 1, sizeof message - 5, file) : 0;
    frame_head(answer, sizeof head - 1, 1, 4, 0);
    memcpy(answer + HEAD, head, sizeof head - 1);
    data_at = HEAD + sizeof head - 1;
    frame_head(answer + data_at, size + 5, DATA, 0, 0);
    unsigned char prefix[5] = {0, size >> 24, size >> 16, size >> 8, size};
    memcpy(answer + data_at + HEAD, prefix, 5);
    memcpy(answer + data_at + HEAD + 5, message, size);
    end_at = data_at + HEAD + 5 + size;
    frame_head(answer + end_at, sizeof end - 1, 1, 5, 0);
    memcpy(answer + end_at + HEAD, end, sizeof end - 1);
    answer_size = end_at + HEAD + sizeof end - 1;
}

static void put_answer(const unsigned char *stream) {
    memcpy(answer + 5, stream, 4);
    memcpy(answer + data_at + 5, stream, 4);
    memcpy(answer + end_at + 5, stream, 4);
    put(answer, answer_size);
}

static int flush(struct peer *peer) {
    size_t size = out_size;
    out_size = 0;
    return !size || send(peer->socket, out, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static void take_frame(const unsigned char *frame, size_t size) {
    unsigned char head[HEAD];
    if (frame[3] == DATA && frame[4] & END_STREAM) {
        put_answer(frame + 5);
    } else if (frame[3] == SETTINGS && !(frame[4] & ACK)) {
        frame_head(head, 0, SETTINGS, ACK, 0);
        put(head, HEAD);
    } else if (frame[3] == PING && !(frame[4] & ACK)) {
        frame_head(head, size, PING, ACK, 0);
        put(head, HEAD);
        put(frame + HEAD, size);
    }
}

static int take(struct peer *peer) {
    ssize_t got = recv(peer->socket, peer->room + peer->kept, ROOM - peer->kept, 0);
    if (got <= 0) return 0;
    size_t at = 0, end = peer->kept + got;
    if (!peer->begun) {
        if (end < PREFACE) return peer->kept = end, 1;
        static const unsigned char hello[] = {0, 0, 0, SETTINGS, 0, 0, 0, 0, 0,
                                              0, 0, 4, 8, 0, 0, 0, 0, 0, 0x3f, 0xff, 0, 0};
        put(hello, sizeof hello);
        peer->begun = 1;
        at = PREFACE;
    }
    while (end - at >= HEAD) {
        const unsigned char *frame = peer->room + at;
        size_t size = frame[0] << 16 | frame[1] << 8 | frame[2];
        if (end - at - HEAD < size) break;
        if (out_size > ROOM && !flush(peer)) return 0;
        take_frame(frame, size);
        at += HEAD + size;
    }
    peer->kept = end - at;
    memmove(peer->room, peer->room + at, peer->kept);
    return flush(peer);
}

int main(int count, char **given) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), one = 1;
    if (count != 2) return 2;
    make_answer(given[1]);
    if (bind(listener, (void *)&place, size) || listen(listener, 1024)) return 1;
    getsockname(listener, (void *)&place, &size);
    printf("%d\n", ntohs(place.sin_port));
    fflush(stdout);
    struct epoll_event event = {.events = EPOLLIN}, events[EVENTS];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int number = 0; number < ready; number++) {
            struct peer *peer = events[number].data.ptr;
            if (!peer) {
                peer = calloc(1, sizeof *peer);
                peer->socket = accept(listener, NULL, NULL);
                peer->room = malloc(ROOM);
                setsockopt(peer->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                event.data.ptr = peer;
                epoll_ctl(epoll, EPOLL_CTL_ADD, peer->socket, &event);
            } else if (!take(peer)) {
                close(peer->socket);
                free(peer->room);
                free(peer);
            }
        }
    }
}
