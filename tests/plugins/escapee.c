/* escapee.py in C: the same tries by the same words, in whichever contract it is spoken to. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int opened(const char *path, int flags) {
    int fd = open(path, flags, 0666);
    char byte = 'x';
    if (fd < 0)
        return -1;
    return (flags == O_RDONLY ? read(fd, &byte, 1) : write(fd, &byte, 1)) < 0 ? -1 : 0;
}

static int of(const char *pid, const char *file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
    return opened(path, O_RDONLY);
}

static int inet(int type, const char *port) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    struct timeval patience = {20, 0};
    char byte = '?';
    int fd = socket(AF_INET, type, 0);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&place, sizeof place) != 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return type == SOCK_STREAM ? 0 : send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1 ? -1 : 0;
}

static int local(int abstract, const char *name) {
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(place.sun_path + abstract, name, sizeof place.sun_path - 2);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)abstract + strlen(name));
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&place, size);
}

static int forks(int count) {
    pid_t children[1024];
    int made = 0;
    while (made < count && made < 1024) {
        pid_t child = fork();
        if (child < 0)
            break;
        if (child == 0)
            for (;;)
                pause();
        children[made++] = child;
    }
    int refused = errno;
    for (int i = 0; i < made; i++)
        kill(children[i], SIGKILL);
    errno = refused;
    return made == count ? 0 : -1;
}

static int is(const char *name, const char *other) {
    return strcmp(name, other) == 0;
}

static int attempt(const char *name, const char *argument) {
    if (is(name, "read"))
        return opened(argument, O_RDONLY);
    if (is(name, "write"))
        return opened(argument, O_WRONLY | O_CREAT | O_APPEND);
    if (is(name, "tcp"))
        return inet(SOCK_STREAM, argument);
    if (is(name, "udp"))
        return inet(SOCK_DGRAM, argument);
    if (is(name, "abstract"))
        return local(1, argument);
    if (is(name, "unix"))
        return local(0, argument);
    if (is(name, "kill"))
        return kill(atoi(argument), 0);
    if (is(name, "ptrace"))
        return ptrace(PTRACE_SEIZE, atoi(argument), 0, 0) < 0 ? -1 : 0;
    if (is(name, "environ"))
        return of(argument, "environ");
    if (is(name, "proc"))
        return of(argument, "cmdline");
    if (is(name, "userns"))
        return unshare(CLONE_NEWUSER);
    if (is(name, "mount"))
        return unshare(CLONE_NEWUSER | CLONE_NEWNS) ? -1 : mount("none", "/tmp", "tmpfs", 0, NULL);
    if (is(name, "io_uring"))
        return syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno != EFAULT ? -1 : 0;
    if (is(name, "keyctl"))
        return syscall(SYS_keyctl, 0, -3, 0) < 0 ? -1 : 0;
    if (is(name, "userfaultfd"))
        return syscall(SYS_userfaultfd, O_CLOEXEC | 1) < 0 ? -1 : 0;
    if (is(name, "forks"))
        return forks(atoi(argument));
    if (is(name, "memory"))
        return mmap(NULL, strtoul(argument, NULL, 10), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                       MAP_FAILED
                   ? -1
                   : 0;
    if (is(name, "run")) {
        dup2(open("/dev/null", O_WRONLY), 1);
        return execl(argument, argument, (char *)NULL);
    }
    errno = ENOTSUP;
    return -1;
}

/* In a process of its own, whose exit status is the error's number. */
static const char *outcome(const char *name, const char *argument) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(attempt(name, argument) == 0 ? 0 : errno);
    waitpid(child, &status, 0);
    return status == 0 ? "done" : strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EINTR);
}

/* What follows `"NAME":`, up to the end of the value, which is a number or a string without escapes. */
static int value(const char *text, const char *name, char *into, int room) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text, key);
    if (at == NULL)
        return 0;
    at += strlen(key);
    int size = *at == '"' ? (int)strcspn(at + 1, "\"") + 2 : (int)strcspn(at, ",}");
    snprintf(into, (size_t)room, "%.*s", size, at);
    return 1;
}

static void say(const char *text, int framed) {
    printf(framed ? "Content-Length: %zu\r\n\r\n" : "", strlen(text));
    printf(framed ? "%s" : "%s\n", text);
    fflush(stdout);
}

static void answers(char *tries, char *into, int room) {
    char *next = NULL;
    int used = snprintf(into, (size_t)room, "{");
    tries[strlen(tries) - 1] = '\0';
    for (char *each = strtok_r(tries + 1, ";", &next); each; each = strtok_r(NULL, ";", &next)) {
        char name[64] = "", argument[256] = "";
        sscanf(each, "%63s %255s", name, argument);
        used += snprintf(into + used, (size_t)(room - used), "%s\"%s\":\"%s\"", used > 1 ? "," : "", name,
                         outcome(name, argument));
    }
    snprintf(into + used, (size_t)(room - used), "}");
}

static void handle(const char *body, const char *own_name, int framed) {
    static char id[128], tries[16384], told[16384], text[20000];
    int asked = value(body, "id", id, sizeof id) || value(body, "request_id", id, sizeof id);
    if (strstr(body, "\"handshake\"")) {
        value(body, "protocol_version", id, sizeof id);
        snprintf(text, sizeof text,
                 "{\"type\":\"handshake\",\"manifest\":{\"plugin_id\":\"%s\",\"plugin_version\":\"1.0.0\","
                 "\"protocol_version\":%s,\"exposed_tools\":[\"try\"]}}",
                 own_name, id);
        return say(text, framed);
    }
    if (strstr(body, "\"hello\""))
        return say("{\"protocol\":\"vai.rpc.v1\",\"type\":\"hello\",\"role\":\"plugin\",\"plugin\":"
                   "{\"package_id\":\"acme/escapee\",\"version\":\"1.0.0\"}}",
                   framed);
    if (!asked)
        return;
    if (value(body, "tries", tries, sizeof tries))
        answers(tries, told, sizeof told);
    else
        snprintf(told, sizeof told, "{\"name\":\"%s\",\"version\":\"1.0.0\",\"api_version\":1,\"methods\":[\"escapee.try\"]}",
                 own_name);
    if (strstr(body, "\"vai.rpc.v1\""))
        snprintf(text, sizeof text,
                 "{\"protocol\":\"vai.rpc.v1\",\"type\":\"response\",\"id\":%s,\"ok\":true,\"body\":"
                 "{\"status\":\"succeeded\",\"result\":{\"content\":[],\"structured_output\":%s}}}",
                 id, told);
    else if (strstr(body, "\"request_id\""))
        snprintf(text, sizeof text, "{\"type\":\"response\",\"request_id\":%s,\"status\":\"ok\",\"output\":%s}", id, told);
    else
        snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, told);
    say(text, framed);
}

int main(int argc, char **argv) {
    char *line = NULL;
    size_t room = 0;
    if (argc > 1) { /* a victim: whoever may trace it by its user, may */
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        puts("here");
        fflush(stdout);
        getline(&line, &room, stdin);
        return 0;
    }
    while (getline(&line, &room, stdin) > 0) {
        int framed = strncmp(line, "Content-Length:", 15) == 0;
        if (!framed) {
            handle(line, basename(argv[0]), 0);
            continue;
        }
        size_t size = strtoul(line + 15, NULL, 10);
        char *body = calloc(1, size + 1);
        if (getline(&line, &room, stdin) < 0 || fread(body, 1, size, stdin) != size)
            return 1;
        handle(body, basename(argv[0]), 1);
        free(body);
    }
    return 0;
}
