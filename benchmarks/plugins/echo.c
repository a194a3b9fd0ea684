/* The least a plugin can cost: what comes in goes out again, as soon as it is whole.
 *
 *   echo raw              every line, as it is: the yardstick's other end
 *   echo lines            {"id":…,"params":…} per line, answered by {"id":…,"result":…}
 *   echo content-length   the same behind Content-Length headers
 *
 * Everything that one read completes is answered by one write. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 65536 };

struct span {
    const char *at, *end;
};

struct buffer {
    char *bytes;
    size_t used, room;
};

static struct buffer in, out;

static void die(const char *why) {
    fprintf(stderr, "echo: %s\n", why);
    exit(1);
}

static void reserve(struct buffer *buffer, size_t more) {
    if (buffer->used + more <= buffer->room)
        return;
    buffer->room = 2 * (buffer->used + more);
    buffer->bytes = realloc(buffer->bytes, buffer->room);
    if (!buffer->bytes)
        die("out of memory");
}

static void say(const char *bytes, size_t length) {
    reserve(&out, length);
    memcpy(out.bytes + out.used, bytes, length);
    out.used += length;
}

static void flush(void) {
    for (size_t done = 0; done < out.used;) {
        ssize_t written = write(STDOUT_FILENO, out.bytes + done, out.used - done);
        if (written < 0)
            exit(0); /* nobody listens any more */
        done += (size_t)written;
    }
    out.used = 0;
}

/* JSON, only as far as its values must be told apart */

/* From behind the opening quote to behind the closing one. */
static const char *skip_string(const char *at, const char *end) {
    while ((at = memchr(at, '"', (size_t)(end - at)))) {
        const char *slash = at;
        while (slash[-1] == '\\')
            slash--;
        at++;
        if ((at - 1 - slash) % 2 == 0)
            return at;
    }
    die("a string without an end");
    return end;
}

static const char *skip_value(const char *at, const char *end) {
    int depth = 0;
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = skip_string(at + 1, end);
            if (!depth)
                return at;
            continue;
        }
        if (!depth && (c == ',' || c == '}'))
            return at;
        at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return at;
    }
    return at;
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && strchr(" \t\r\n,:", *at))
        at++;
    return at;
}

/* The request's own id and params: a member of that name further inside is somebody else's. */
static void find_members(struct span request, struct span *id, struct span *params) {
    const char *at = memchr(request.at, '{', (size_t)(request.end - request.at));
    if (!at)
        die("not an object");
    for (at = skip_blanks(at + 1, request.end); at < request.end && *at == '"';
         at = skip_blanks(at, request.end)) {
        const char *name = at + 1;
        at = skip_string(name, request.end);
        size_t length = (size_t)(at - name) - 1;
        struct span value = {skip_blanks(at, request.end), NULL};
        at = value.end = skip_value(value.at, request.end);
        if (length == 2 && !memcmp(name, "id", 2))
            *id = value;
        else if (length == 6 && !memcmp(name, "params", 6))
            *params = value;
    }
}

static void answer(struct span request, int with_header) {
    static const char nothing[] = "null";
    struct span id = {nothing, nothing + 4}, params = id;
    find_members(request, &id, &params);
    size_t id_length = (size_t)(id.end - id.at), params_length = (size_t)(params.end - params.at);
    if (with_header) {
        char header[64];
        size_t length = strlen("{\"id\":,\"result\":}") + id_length + params_length;
        say(header, (size_t)snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", length));
    }
    say("{\"id\":", 6);
    say(id.at, id_length);
    say(",\"result\":", 10);
    say(params.at, params_length);
    say("}\n", with_header ? 1 : 2);
}

/* Framings: answer what is complete, tell how many bytes that was. `seen` were looked at before. */

static size_t take_lines(size_t seen, int as_they_are) {
    size_t taken = 0;
    char *stop;
    while ((stop = memchr(in.bytes + seen, '\n', in.used - seen))) {
        struct span line = {in.bytes + taken, stop};
        seen = taken = (size_t)(stop + 1 - in.bytes);
        if (as_they_are)
            say(line.at, (size_t)(line.end + 1 - line.at));
        else
            answer(line, 0);
    }
    return taken;
}

static size_t take_content_length(void) {
    size_t taken = 0;
    const char *blank;
    while ((blank = memmem(in.bytes + taken, in.used - taken, "\r\n\r\n", 4))) {
        const char *colon = memchr(in.bytes + taken, ':', (size_t)(blank - in.bytes) - taken);
        if (!colon)
            die("a header without a colon");
        struct span body = {blank + 4, blank + 4 + strtoul(colon + 1, NULL, 10)};
        if (body.end > in.bytes + in.used)
            break;
        answer(body, 1);
        taken = (size_t)(body.end - in.bytes);
    }
    return taken;
}

int main(int argc, char **argv) {
    const char *framing = argc > 1 ? argv[1] : "lines";
    int raw = !strcmp(framing, "raw"), headers = !strcmp(framing, "content-length");
    for (;;) {
        reserve(&in, CHUNK);
        ssize_t got = read(STDIN_FILENO, in.bytes + in.used, CHUNK);
        if (got <= 0)
            return 0;
        size_t seen = in.used;
        in.used += (size_t)got;
        size_t taken = headers ? take_content_length() : take_lines(seen, raw);
        flush();
        if (taken) {
            in.used -= taken;
            memmove(in.bytes, in.bytes + taken, in.used);
        }
    }
}
