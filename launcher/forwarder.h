/* forwarder: lets programs in an empty network namespace reach the proxy on a unix socket outside.
 *
 * LISTING is lines of text, one for each address to listen on:
 *   proxy 127.0.0.1 PORT          passes bytes through, for clients that speak to a proxy
 *   host 127.x.y.z PORT NAME      asks the proxy to connect to NAME:PORT, for clients that know of none;
 *                                 where it refuses, the client's connection is reset
 */
#ifndef PLUGHOST_FORWARDER_H
#define PLUGHOST_FORWARDER_H

#include <sys/types.h>

/* Listens, forks a process that forwards for as long as the caller's process lives (also after an exec), and
 * returns 0; the plugin can connect at once. Returns -1 with errno, and nothing runs: EINVAL for a listing that
 * cannot be read, E2BIG for one that is too long, EACCES for a low port that may not be taken here.
 *
 * Call it in the network namespace of the plugin and with rights over that namespace: CAP_NET_ADMIN where its
 * loopback may be down, CAP_NET_BIND_SERVICE for ports below 1024. The best place is where the namespace was made,
 * before the rights are given up. Inside bubblewrap, what --cap-add gives counts only where it makes one user
 * namespace; for --dev it makes a second, which has no rights over the network. The process that is started keeps
 * no capability and no descriptor of the caller's, is not a child of the caller's, and runs as UID (and the group of
 * that number), which must be able to connect to the socket. */
int forwarder_start(const char *socket_path, const char *listing, uid_t uid);

#endif
