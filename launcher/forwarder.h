/* The loopback forwarder of a sandbox without a network: granted hosts, and nothing else, through one socket. */
#ifndef PLUGHOST_FORWARDER_H
#define PLUGHOST_FORWARDER_H

/* Forks a child that listens as `listing` says and tunnels to the unix socket; returns 0 once it listens,
 * or -1 with errno. The child is ours, not the plugin's: it lets go of fds 0 to 3 and outlives our exec. */
int forwarder_start(const char *socket, const char *listing);

#endif
