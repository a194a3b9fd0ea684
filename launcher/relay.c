#define _GNU_SOURCE
#include "relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LISTENERS = RELAY_LISTENERS,
    PAIRS = RELAY_PAIRS,
    BUFFER = 16 << 10,
    REPLY = 2048,  /* bytes of the proxy's answer to a CONNECT */
    RETRY_MS = 20, /* while the proxy's queue, or the table of descriptors, is full */
};

/* Bytes on their way from one socket to another. */
struct flow {
    int from, to;
    int ended;  /* `from` has no more */
    int passed; /* `to` was told so */
    size_t start, end;
    char bytes[BUFFER];
};

struct pair {
    int client, proxy; /* -1: none. A pair without a proxy still waits for one */
    const struct listener *at;
    int asking; /* the answer to our CONNECT is not whole */
    int broken; /* the proxy broke off, but not all it said is passed on */
    struct flow up, down;
};

static const struct sockaddr_un *proxy_address;
static struct pair pairs[PAIRS];
static int out_of_descriptors;

/* What a client sees as "connection reset", on both sides. */
static void drop(struct pair *pair) {
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(pair->client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(pair->client);
    if (pair->proxy >= 0)
        close(pair->proxy);
    pair->client = pair->proxy = -1;
}

static void finish(struct pair *pair) {
    close(pair->client);
    close(pair->proxy);
    pair->client = pair->proxy = -1;
}

/* A unix socket connects at once, or its queue is full and it is tried again. */
static void reach_proxy(struct pair *pair) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        out_of_descriptors = 1;
        return;
    }
    if (connect(fd, (const struct sockaddr *)proxy_address, sizeof *proxy_address) != 0) {
        int refused = errno;
        close(fd);
        if (refused != EAGAIN)
            drop(pair);
        return;
    }
    pair->proxy = fd;
    pair->up.from = pair->down.to = pair->client;
    pair->up.to = pair->down.from = fd;
    if (pair->asking) {
        char ask[RELAY_NAME + 64];
        int size = snprintf(ask, sizeof ask, "CONNECT %s:%d HTTP/1.1\r\n\r\n", pair->at->name, pair->at->port);
        if (send(fd, ask, (size_t)size, MSG_NOSIGNAL) != size)
            drop(pair);
    }
}

static void accept_from(const struct listener *listener, struct pair *pair) {
    int on = 1;
    int client = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) {
        out_of_descriptors = errno == EMFILE || errno == ENFILE;
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pair->client = client;
    pair->at = listener;
    pair->asking = listener->name[0] != '\0';
    pair->broken = 0;
    struct flow *flows[] = {&pair->up, &pair->down};
    for (int i = 0; i < 2; i++)
        flows[i]->ended = flows[i]->passed = 0, flows[i]->start = flows[i]->end = 0;
    reach_proxy(pair);
}

/* Swallows the head of the answer; 0 when the proxy refused or cannot be understood. */
static int hear_answer(struct pair *pair) {
    static const char yes[] = "HTTP/1.1 200 ";
    struct flow *down = &pair->down;
    const char *end = memmem(down->bytes, down->end, "\r\n\r\n", 4);
    if (end == NULL)
        return !down->ended && down->end < REPLY;
    if (memcmp(down->bytes, yes, sizeof yes - 1) != 0)
        return 0;
    down->start = (size_t)(end + 4 - down->bytes);
    pair->asking = 0;
    return 1;
}

static int is_broken(ssize_t result) {
    return result < 0 && errno != EAGAIN && errno != EINTR;
}

/* Reads what is there and fits; 0 when that side is broken. */
static int take(struct flow *flow) {
    if (flow->ended || flow->end == BUFFER)
        return 1;
    ssize_t count = recv(flow->from, flow->bytes + flow->end, BUFFER - flow->end, 0);
    if (count > 0)
        flow->end += (size_t)count;
    flow->ended = count == 0;
    return !is_broken(count);
}

/* Writes what the other side takes; 0 when that side is broken. */
static int give(struct flow *flow) {
    ssize_t count = 0;
    if (flow->start < flow->end)
        count = send(flow->to, flow->bytes + flow->start, flow->end - flow->start, MSG_NOSIGNAL);
    if (count > 0)
        flow->start += (size_t)count;
    if (flow->start == flow->end)
        flow->start = flow->end = 0;
    return !is_broken(count);
}

static int is_through(const struct flow *flow) {
    return flow->ended && flow->end == 0;
}

static void pass_end(struct flow *flow) {
    if (is_through(flow) && !flow->passed) {
        shutdown(flow->to, SHUT_WR);
        flow->passed = 1;
    }
}

static int has_hung_up(int proxy) {
    struct pollfd one = {.fd = proxy};
    return poll(&one, 1, 0) > 0 && (one.revents & POLLHUP);
}

static void lose_proxy(struct pair *pair) {
    pair->broken = 1;
    pair->up.ended = pair->up.passed = 1;
    pair->up.start = pair->up.end = 0;
}

static void serve(struct pair *pair) {
    struct flow *up = &pair->up, *down = &pair->down;
    if (!take(down)) {
        down->ended = 1; /* what it said before is still passed on */
        lose_proxy(pair);
    }
    if (!take(up) || (pair->asking && !hear_answer(pair))) {
        drop(pair);
        return;
    }
    if (pair->asking)
        return;
    if (!give(down)) {
        drop(pair);
        return;
    }
    if (!give(up))
        lose_proxy(pair);
    /* A proxy that is gone before it was told of our end has broken off; one that only ended has not. */
    if (is_through(down) && (pair->broken || (!up->passed && has_hung_up(pair->proxy)))) {
        drop(pair);
        return;
    }
    pass_end(down);
    pass_end(up);
    if (up->passed && down->passed)
        finish(pair);
}

static short wanted(const struct flow *in, const struct flow *out, int hold) {
    short events = 0;
    if (!in->ended && in->end < BUFFER)
        events |= POLLIN;
    if (!hold && out->start < out->end)
        events |= POLLOUT;
    return events;
}

/* Who hung up is reported whatever is asked for: a side that nothing is wanted of is not watched at all. */
static void watch_pair(const struct pair *pair, struct pollfd *client, struct pollfd *proxy) {
    *client = (struct pollfd){.fd = -1};
    *proxy = (struct pollfd){.fd = -1};
    if (pair->client < 0 || pair->proxy < 0)
        return;
    client->events = wanted(&pair->up, &pair->down, pair->asking);
    proxy->events = wanted(&pair->down, &pair->up, pair->asking);
    if (client->events)
        client->fd = pair->client;
    if (proxy->events || (pair->down.passed && !pair->up.passed))
        proxy->fd = pair->proxy;
}

static int poll_once(const struct listener *listeners, int listener_count, int caller) {
    static struct pollfd watched[1 + LISTENERS + 2 * PAIRS];
    struct pair *room = NULL;
    int waiting = out_of_descriptors;
    nfds_t count = 0;
    watched[count++] = (struct pollfd){.fd = caller, .events = POLLIN};
    for (int i = 0; i < PAIRS; i++) {
        struct pair *pair = &pairs[i];
        if (pair->client >= 0 && pair->proxy < 0)
            reach_proxy(pair);
        if (pair->client < 0)
            room = pair;
        else if (pair->proxy < 0)
            waiting = 1;
        watch_pair(pair, &watched[count], &watched[count + 1]);
        count += 2;
    }
    for (int i = 0; i < listener_count; i++) /* a negative descriptor is not watched */
        watched[count++] = (struct pollfd){.fd = room && !out_of_descriptors ? listeners[i].fd : -1, .events = POLLIN};
    out_of_descriptors = 0;
    if (poll(watched, count, waiting ? RETRY_MS : -1) < 0)
        return errno == EINTR;
    if (watched[0].revents)
        return 0;
    for (int i = 0; i < PAIRS; i++)
        if (watched[1 + 2 * i].revents | watched[2 + 2 * i].revents)
            serve(&pairs[i]);
    for (int i = 0; i < listener_count; i++) {
        if (room && room->client < 0 && (watched[1 + 2 * PAIRS + i].revents & POLLIN)) {
            accept_from(&listeners[i], room);
            break; /* the others at the next turn, when there is room again */
        }
    }
    return 1;
}

void relay(const struct sockaddr_un *proxy, const struct listener *listeners, int count, int caller) {
    proxy_address = proxy;
    for (int i = 0; i < PAIRS; i++)
        pairs[i].client = pairs[i].proxy = -1;
    while (poll_once(listeners, count, caller))
        ;
}
