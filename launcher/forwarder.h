/* forwarder: lets programs in an empty network namespace reach the proxy on a unix socket outside.
 *
 * LISTING is lines of text, one for each address to listen on:
 *   proxy 127.0.0.1 PORT          passes bytes through, for clients that speak to a proxy
 *   host 127.x.y.z PORT NAME      asks the proxy to connect to NAME:PORT, for clients that know of none;
 *                                 where it refuses, the client's connection is reset
 */
#ifndef PLUGHOST_FORWARDER_H
#define PLUGHOST_FORWARDER_H

/* Listens, forks a process that forwards for as long as the caller's process lives (also after an exec), and
 * returns 0; the plugin can connect at once. Returns -1 with errno, and nothing runs: EINVAL for a listing that
 * cannot be read, E2BIG for one that is too long, EACCES for a low port that may not be taken here.
 *
 * Call it in the network namespace of the plugin, with CAP_NET_ADMIN over that namespace if its loopback may be
 * down or ports below 1024 are listed; CAP_NET_BIND_SERVICE is enough for the latter. (What bubblewrap's
 * --cap-add gives counts only where it makes no second user namespace, which it does for --dev.) The process it
 * starts keeps no capability, no descriptor of the caller's, and is not a child of the caller's. */
int forwarder_start(const char *socket_path, const char *listing);

#endif
