/* An OpenAI-compatible upstream that is never the bottleneck: one thread, epoll, fixed answers.
 *
 *   upstream PORT [bare]
 *
 * Reads three things from a request's body, by plain text search: "stream":true, "max_tokens":N
 * (content chunks, 64 if absent) and "seed":N (milliseconds between chunks; 0 or absent: all at
 * once). With "continuous_usage_stats":true each chunk carries usage, as vLLM does, and with
 * "return_token_ids":true the ids of its tokens; if bare, neither. The first write of a stream is the head, the role
 * and the first token together, as an engine sends them.
 *
 * GET /v1/models names the model; GET /stats counts answers begun, tokens sent, and streams whose
 * client went away with the milliseconds of the monotonic clock at which the last of them did. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4096
#define IN_BYTES 65536
#define OUT_BYTES (1 << 20)
#define TOKENS_MAX 1024

#define CHUNK_HEAD \
    "data: {\"id\":\"chatcmpl-8f3f1c6e5f0b4c8f9d5d\",\"object\":\"chat.completion.chunk\"," \
    "\"created\":1764000000,\"model\":\"bench\",\"choices\":["

struct stream {
    int fd, in_bytes, sent, tokens, every_ms, has_usage, has_ids, active_at;
    long long due_ms;
    char in[IN_BYTES];
};

static struct stream *streams[CONNECTIONS_MAX];
static struct stream *active[CONNECTIONS_MAX];
static int active_count, poll_fd;
static char out[OUT_BYTES];
static int out_bytes, bare;
static long answers, tokens_sent, aborted;
static long long aborted_ms;

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void deactivate(struct stream *s) {
    if (s->active_at < 0) return;
    active[s->active_at] = active[--active_count];
    active[s->active_at]->active_at = s->active_at;
    s->active_at = -1;
}

static void drop(struct stream *s) {
    if (s->active_at >= 0) {
        aborted++;
        aborted_ms = now_ms();
    }
    deactivate(s);
    close(s->fd);
    streams[s->fd] = NULL;
    free(s);
}

static void put(const char *text) {
    int length = strlen(text);
    memcpy(out + out_bytes, text, length);
    out_bytes += length;
}

static void put_event(const char *text) {
    out_bytes += sprintf(out + out_bytes, "%zx\r\n%s\r\n", strlen(text), text);
}

/* Whole or not at all: buffers of the loopback hold far more than one answer. */
static void flush(struct stream *s) {
    int length = out_bytes;
    out_bytes = 0;
    if (send(s->fd, out, length, MSG_NOSIGNAL) != length) drop(s);
}

static void put_chunk(struct stream *s) {
    char usage[128] = "", ids[64] = "", event[1024];
    int last = ++s->sent == s->tokens;
    tokens_sent++;
    if (s->has_ids) sprintf(ids, ",\"token_ids\":[%d]", 1000 + s->sent);
    if (s->has_usage)
        sprintf(usage, ",\"usage\":{\"prompt_tokens\":23,\"total_tokens\":%d,\"completion_tokens\":%d}",
                23 + s->sent, s->sent);
    sprintf(event, CHUNK_HEAD "{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,"
            "\"finish_reason\":%s%s}]%s}\n\n", last ? "\"stop\"" : "null", ids, usage);
    put_event(event);
    if (!last) return;
    sprintf(event, CHUNK_HEAD "],\"usage\":{\"prompt_tokens\":23,\"total_tokens\":%d,"
            "\"completion_tokens\":%d}}\n\n", 23 + s->sent, s->sent);
    put_event(event);
    put_event("data: [DONE]\n\n");
    put("0\r\n\r\n");
    deactivate(s);
}

static void begin_stream(struct stream *s) {
    put("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        "transfer-encoding: chunked\r\n\r\n");
    put_event(CHUNK_HEAD "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
              "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    s->sent = 0;
    if (s->every_ms) {
        s->active_at = active_count;
        s->due_ms = now_ms() + s->every_ms;
        active[active_count++] = s;
    }
    do put_chunk(s); while (!s->every_ms && s->sent < s->tokens);
    flush(s);
}

static void tell(struct stream *s, const char *body) {
    out_bytes = sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                        "content-length: %zu\r\n\r\n%s", strlen(body), body);
    flush(s);
}

static void answer_whole(struct stream *s) {
    char body[1024];
    tokens_sent += s->tokens;
    sprintf(body, "{\"id\":\"chatcmpl-8f3f1c6e5f0b4c8f9d5d\",\"object\":\"chat.completion\","
            "\"created\":1764000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":"
            "{\"role\":\"assistant\",\"content\":\"A short answer of an engine that thinks little.\"},"
            "\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":23,"
            "\"total_tokens\":%d,\"completion_tokens\":%d}}", 23 + s->tokens, s->tokens);
    out_bytes = sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                        "content-length: %zu\r\n\r\n%s", strlen(body), body);
    flush(s);
}

/* Who is asked before a call tells the name that calls ask for; it is well, too. */
static int number_of(const char *body, const char *name, int otherwise) {
    const char *found = strstr(body, name);
    if (!found) return otherwise;
    found += strlen(name);
    while (*found == ' ' || *found == ':') found++;
    return atoi(found);
}

static int says(const char *body, const char *name) {
    const char *found = strstr(body, name);
    if (!found) return 0;
    found += strlen(name);
    while (*found == ' ' || *found == ':') found++;
    return *found == 't';
}

static void inform(struct stream *s, const char *path) {
    char body[256];
    if (!strncmp(path, "/stats", 6))
        sprintf(body, "{\"answers\":%ld,\"tokens\":%ld,\"aborted\":%ld,\"aborted_ms\":%lld}",
                answers, tokens_sent, aborted, aborted_ms);
    else
        strcpy(body, "{\"object\":\"list\",\"status\":\"ok\",\"data\":[{\"id\":\"bench\","
                     "\"object\":\"model\",\"created\":1764000000,\"owned_by\":\"vllm\"}]}");
    tell(s, body);
}

static void answer(struct stream *s, const char *body) {
    answers++;
    s->tokens = number_of(body, "\"max_tokens\"", 64);
    if (s->tokens < 1 || s->tokens > TOKENS_MAX) s->tokens = TOKENS_MAX;
    s->every_ms = number_of(body, "\"seed\"", 0);
    s->has_usage = !bare && says(body, "\"continuous_usage_stats\"");
    s->has_ids = !bare && says(body, "\"return_token_ids\"");
    if (says(body, "\"stream\"")) begin_stream(s);
    else answer_whole(s);
}

static void receive(struct stream *s) {
    ssize_t got = recv(s->fd, s->in + s->in_bytes, IN_BYTES - 1 - s->in_bytes, 0);
    if (got <= 0) {
        drop(s);
        return;
    }
    s->in_bytes += got;
    s->in[s->in_bytes] = 0;
    char *end = strstr(s->in, "\r\n\r\n");
    if (!end) return;
    char *length = strcasestr(s->in, "content-length:");
    int wanted = length && length < end ? atoi(length + 15) : 0;
    if (s->in_bytes < end + 4 - s->in + wanted) return;
    s->in_bytes = 0; /* one request at a time: no client of ours pipelines */
    if (!strncmp(s->in, "GET ", 4)) inform(s, s->in + 4);
    else answer(s, end + 4);
}

static void greet(int listening) {
    int fd, one = 1;
    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= CONNECTIONS_MAX) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct stream *s = calloc(1, sizeof *s);
        s->fd = fd;
        s->active_at = -1;
        streams[fd] = s;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

static void advance(void) {
    long long now = now_ms();
    for (int i = active_count - 1; i >= 0; i--) {
        struct stream *s = active[i];
        if (s->due_ms > now) continue;
        s->due_ms += s->every_ms;
        put_chunk(s);
        flush(s);
    }
}

int main(int count, char **words) {
    bare = count > 2;
    int one = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    place.sin_port = htons(count > 1 ? atoi(words[1]) : 0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (void *)&place, sizeof place) || listen(listening, 4096)) {
        perror("upstream");
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    poll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, events[256];
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listening, &event);
    for (;;) {
        int ready = epoll_wait(poll_fd, events, 256, active_count ? 1 : 1000);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listening) greet(fd);
            else if (streams[fd]) receive(streams[fd]);
        }
        if (active_count) advance();
    }
}
