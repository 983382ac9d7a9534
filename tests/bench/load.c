/* A closed-loop client for JSON and event streams: one thread, epoll, keep-alive.
 *
 *   load PORT CONNECTIONS SECONDS REQUEST_FILE
 *
 * Each connection sends the file's raw request, reads the whole answer and sends again; when the
 * time is over, answers that have begun are read to their end. Prints one JSON line: calls, chunks
 * ("data: " lines), bad (not 200, or a broken connection), the median microseconds to the first
 * byte of a body and to the end, and of the gaps between two reads of a stream the median and the
 * 99th of a hundred. Connections begin one after another within the first half second. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 2000000
#define HEAD_BYTES 8192

struct caller {
    int fd, in_body, chunked, head_bytes, matched;
    long left;
    long long sent_at, first_at, read_at;
    char head[HEAD_BYTES + 1], tail[5];
};

static char request[1 << 20];
static int request_bytes, port, poll_fd;
static long calls, chunks, bad;
static long long firsts[SAMPLES_MAX], wholes[SAMPLES_MAX], gaps[SAMPLES_MAX];
static long gap_count;
static long long until;
static int running;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void ask(struct caller *c) {
    c->in_body = c->head_bytes = c->matched = 0;
    c->first_at = c->read_at = 0;
    memset(c->tail, 0, sizeof c->tail);
    c->sent_at = now();
    if (send(c->fd, request, request_bytes, MSG_NOSIGNAL) != request_bytes) bad++;
}

static void dial(struct caller *c) {
    int one = 1;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port)};
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (void *)&place, sizeof place)) {
        perror("load");
        exit(1);
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

static void again(struct caller *c) {
    if (++bad > 1000) {
        fprintf(stderr, "load: too many broken connections\n");
        exit(3);
    }
    close(c->fd);
    dial(c);
    ask(c);
}

static void finish(struct caller *c) {
    long at = calls++ % SAMPLES_MAX;
    firsts[at] = c->first_at - c->sent_at;
    wholes[at] = now() - c->sent_at;
    if (strncmp(c->head + 9, "200", 3) && !bad++) fprintf(stderr, "load: %s\n", c->head);
    if (now() < until) ask(c);
    else running--;
}

static void count_chunks(struct caller *c, const char *data, long size) {
    static const char pattern[] = "\ndata: ";
    for (long i = 0; i < size; i++) {
        if (data[i] != pattern[c->matched]) c->matched = data[i] == '\n';
        else if (++c->matched == 7) {
            chunks++;
            c->matched = 0;
        }
    }
}

static void read_body(struct caller *c, const char *data, long size) {
    if (!size) return;
    long long at = now();
    if (!c->first_at) c->first_at = at;
    else if (c->chunked) gaps[gap_count++ % SAMPLES_MAX] = at - c->read_at;
    c->read_at = at;
    if (!c->chunked) {
        c->left -= size;
        if (c->left <= 0) finish(c);
        return;
    }
    count_chunks(c, data, size);
    /* The last five bytes tell: nothing in our streams but their end is "0 CRLF CRLF". */
    for (long i = size > 5 ? size - 5 : 0; i < size; i++) {
        memmove(c->tail, c->tail + 1, 4);
        c->tail[4] = data[i];
    }
    if (!memcmp(c->tail, "0\r\n\r\n", 5)) finish(c);
}

static void read_head(struct caller *c, const char *data, long size) {
    long before = c->head_bytes, room = HEAD_BYTES - before;
    memcpy(c->head + before, data, size < room ? size : room);
    c->head_bytes += size < room ? size : room;
    c->head[c->head_bytes] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return;
    long taken = end + 4 - c->head - before;
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    char *chunked = strcasestr(c->head, "\r\ntransfer-encoding: chunked");
    c->chunked = chunked && chunked < end;
    c->left = length && length < end ? atol(length + 17) : 0;
    c->in_body = 1;
    c->matched = 0;
    read_body(c, data + taken, size - taken);
}

static int by_size(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return x < y ? -1 : x > y;
}

static double microseconds(long long *samples, long count, int percent) {
    if (count > SAMPLES_MAX) count = SAMPLES_MAX;
    qsort(samples, count, sizeof *samples, by_size);
    return count ? samples[count * percent / 100] / 1000.0 : 0;
}

int main(int count, char **words) {
    if (count != 5) return 64;
    port = atoi(words[1]);
    int connections = atoi(words[2]);
    FILE *file = fopen(words[4], "rb");
    if (!file) return 66;
    request_bytes = fread(request, 1, sizeof request, file);
    poll_fd = epoll_create1(0);
    struct caller *callers = calloc(connections, sizeof *callers);
    for (int i = 0; i < connections; i++) dial(&callers[i]);
    long long began = now(), apart = 500000000LL / connections;
    until = began + atof(words[3]) * 1e9;
    static char data[262144];
    struct epoll_event events[256];
    int begun = 0;
    while (now() < until || (running && now() < until + 60000000000LL)) {
        for (; begun < connections && now() >= began + begun * apart; begun++, running++)
            ask(&callers[begun]);
        int ready = epoll_wait(poll_fd, events, 256, begun < connections ? 1 : 20);
        for (int i = 0; i < ready; i++) {
            struct caller *c = events[i].data.ptr;
            ssize_t got = recv(c->fd, data, sizeof data, MSG_DONTWAIT);
            if (got <= 0) again(c);
            else if (c->in_body) read_body(c, data, got);
            else read_head(c, data, got);
        }
    }
    bad += running;
    printf("{\"calls\":%ld,\"chunks\":%ld,\"bad\":%ld,\"first_microseconds\":%.1f,"
           "\"whole_microseconds\":%.1f,\"gap_microseconds\":%.1f,\"gap_p99_microseconds\":%.1f}\n",
           calls, chunks, bad, microseconds(firsts, calls, 50), microseconds(wholes, calls, 50),
           microseconds(gaps, gap_count, 50), microseconds(gaps, gap_count, 99));
    return 0;
}
