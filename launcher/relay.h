/* relay: the forwarder's connections. One process, one poll loop, a fixed number of connections with two fixed
 * buffers each: a buffer that is full is not read into, a table that is full accepts nothing, and nothing is ever
 * allocated.
 *
 *   client ── TCP on loopback ── pair ── unix socket ── proxy
 *
 * The end of one direction is passed on (half close) and the other goes on. When one side breaks, so does the
 * other: a client must not take half an answer for a whole one. */
#ifndef PLUGHOST_RELAY_H
#define PLUGHOST_RELAY_H

#include <sys/un.h>

enum { RELAY_LISTENERS = 256, RELAY_PAIRS = 128, RELAY_NAME = 254 };

struct listener {
    int fd, port;
    char name[RELAY_NAME]; /* what the proxy is asked for; empty: bytes are passed through */
};

/* Until the process behind the pidfd `caller` ends. */
void relay(const struct sockaddr_un *proxy, const struct listener *listeners, int count, int caller);

#endif
