/* The least a plugin can cost: what comes in goes out again, as soon as it is whole.
 *
 *   echo raw              every line, as it is: the yardstick's other end
 *   echo lines            {"id":…,"params":…} per line, answered by {"id":…,"result":…}
 *   echo content-length   the same behind Content-Length headers
 *   echo ainb             the same by the ainb contract, where it can do more: `publish` publishes
 *                         numbered payloads, `heard` tells of the events and keys that came
 *   echo vai              a package whose every tool returns its input, and whose hook acknowledges
 *
 * Everything that one read completes is answered by one write. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536 };

static enum { LINES, RAW, CONTENT_LENGTH, AINB, VAI } mode;

struct span {
    const char *at, *end;
};

static size_t length_of(struct span span) { return (size_t)(span.end - span.at); }

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

static void append(struct buffer *buffer, const char *bytes, size_t length) {
    reserve(buffer, length);
    memcpy(buffer->bytes + buffer->used, bytes, length);
    buffer->used += length;
}

/* At most a few hundred bytes. */
__attribute__((format(printf, 2, 3))) static void print(struct buffer *buffer, const char *format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= sizeof text)
        die("too much to print");
    append(buffer, text, (size_t)length);
}

static void say(const char *text) { append(&out, text, strlen(text)); }

static void say_span(struct span span) { append(&out, span.at, length_of(span)); }

static void say_header(size_t length) { print(&out, "Content-Length: %zu\r\n\r\n", length); }

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

/* An object's own members of these names: one further inside is somebody else's. */
static void find_members(struct span object, int count, const char *const names[], struct span found[]) {
    const char *at = memchr(object.at, '{', length_of(object));
    if (!at)
        die("not an object");
    for (at = skip_blanks(at + 1, object.end); at < object.end && *at == '"';
         at = skip_blanks(at, object.end)) {
        const char *name = at + 1;
        at = skip_string(name, object.end);
        size_t length = (size_t)(at - name) - 1;
        struct span value = {skip_blanks(at, object.end), NULL};
        at = value.end = skip_value(value.at, object.end);
        for (int i = 0; i < count; i++)
            if (length == strlen(names[i]) && !memcmp(name, names[i], length))
                found[i] = value;
    }
}

static void reply(struct span id, struct span result) {
    static const char middle[] = ",\"result\":";
    const char *opening = mode == AINB ? "{\"jsonrpc\":\"2.0\",\"id\":" : "{\"id\":";
    if (mode != LINES)
        say_header(strlen(opening) + length_of(id) + strlen(middle) + length_of(result) + 1);
    say(opening);
    say_span(id);
    say(middle);
    say_span(result);
    say(mode == LINES ? "}\n" : "}");
}

/* ainb: what it hears, and what it can be asked for */

static const char *own_name;
static size_t events, astray, last_number;
static struct buffer keys; /* the nanosecond each came at, with commas between */

/* A payload's base64 begins with its number in decimal. */
static void hear_event(struct span params) {
    static const char *const names[] = {"payload"};
    struct span payload = {NULL, NULL};
    find_members(params, 1, names, &payload);
    if (!payload.at)
        die("an event without a payload");
    size_t number = strtoul(payload.at + 1, NULL, 10);
    events++;
    astray += number != last_number + 1;
    last_number = number;
}

static void hear_key(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    print(&keys, "%s%lld", keys.used ? "," : "", now.tv_sec * 1000000000LL + now.tv_nsec);
}

/* The given payload, `count` times, each time with its number in place of the first letters. */
static void publish(struct span params) {
    enum { TOPIC, PAYLOAD, COUNT, DIGITS = 8 };
    static const char *const names[] = {"topic", "payload", "count"};
    static const char opening[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"host/snapshot/publish\",\"params\":{\"topic\":";
    static const char middle[] = ",\"payload\":";
    struct span given[3] = {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}};
    find_members(params, 3, names, given);
    if (!given[TOPIC].at || !given[PAYLOAD].at || length_of(given[PAYLOAD]) < DIGITS + 2 || !given[COUNT].at)
        die("publish what, where, how often?");
    struct span rest = {given[PAYLOAD].at + 1 + DIGITS, given[PAYLOAD].end};
    size_t count = strtoul(given[COUNT].at, NULL, 10);
    size_t length =
        strlen(opening) + length_of(given[TOPIC]) + strlen(middle) + length_of(given[PAYLOAD]) + strlen("}}");
    for (size_t number = 1; number <= count; number++) {
        say_header(length);
        say(opening);
        say_span(given[TOPIC]);
        say(middle);
        print(&out, "\"%0*zu", DIGITS, number);
        say_span(rest);
        say("}}");
        if (out.used >= CHUNK)
            flush();
    }
}

static int is(struct span method, const char *quoted) {
    return length_of(method) == strlen(quoted) && !memcmp(method.at, quoted, strlen(quoted));
}

/* What the method gives; whatever it does not know is an echo. */
static struct span obey(struct span method, struct span params) {
    static struct buffer result;
    result.used = 0;
    if (is(method, "\"plugin/init\"")) {
        print(&result, "{\"name\":\"%s\",\"version\":\"1.0.0\"}", own_name);
    } else if (is(method, "\"heard\"")) {
        print(&result, "{\"events\":%zu,\"astray\":%zu,\"keys\":[", events, astray);
        append(&result, keys.bytes, keys.used);
        print(&result, "]}");
    } else {
        if (is(method, "\"publish\""))
            publish(params);
        return params;
    }
    return (struct span){result.bytes, result.bytes + result.used};
}

static void say_framed(const char *opening, struct span middle, const char *between, struct span rest,
                       const char *closing) {
    say_header(strlen(opening) + length_of(middle) + strlen(between) + length_of(rest) + strlen(closing));
    say(opening);
    say_span(middle);
    say(between);
    say_span(rest);
    say(closing);
}

static void answer_vai(struct span message) {
    enum { ID, TYPE, BODY, OP };
    static const char *const names[] = {"id", "type", "body", "op"}, *const inner[] = {"input"};
    struct span found[4] = {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}, {NULL, NULL}}, input = {NULL, NULL};
    struct span nothing = {names[0], names[0]};
    find_members(message, 4, names, found);
    if (is(found[TYPE], "\"hello\""))
        say_framed("{\"protocol\":\"vai.rpc.v1\",\"type\":\"hello\",\"role\":\"plugin\",\"plugin\":"
                   "{\"package_id\":\"bench/echo\",\"version\":\"1.0.0\"}}",
                   nothing, "", nothing, "");
    if (!is(found[TYPE], "\"request\""))
        return;
    if (is(found[OP], "\"hook.handle\"")) {
        say_framed("{\"protocol\":\"vai.rpc.v1\",\"type\":\"response\",\"id\":", found[ID],
                   ",\"ok\":true,\"body\":{\"status\":\"ack\"}}", nothing, "");
        return;
    }
    find_members(found[BODY], 1, inner, &input);
    say_framed("{\"protocol\":\"vai.rpc.v1\",\"type\":\"response\",\"id\":", found[ID],
               ",\"ok\":true,\"body\":{\"status\":\"succeeded\",\"result\":{\"content\":[],\"structured_output\":",
               input, "}}}");
}

static void answer(struct span message) {
    enum { ID, METHOD, PARAMS };
    static const char *const names[] = {"id", "method", "params"};
    static const char nothing[] = "null";
    struct span null = {nothing, nothing + 4}, found[3] = {null, null, null};
    if (mode == VAI) {
        answer_vai(message);
        return;
    }
    find_members(message, 3, names, found);
    if (mode != AINB)
        reply(found[ID], found[PARAMS]);
    else if (is(found[METHOD], "\"plugin/handle_event\""))
        hear_event(found[PARAMS]);
    else if (is(found[METHOD], "\"plugin/handle_key\""))
        hear_key();
    else if (found[ID].at != nothing)
        reply(found[ID], obey(found[METHOD], found[PARAMS]));
}

/* Framings: answer what is complete, tell how many bytes that was. `seen` were looked at before. */

static size_t take_lines(size_t seen) {
    size_t taken = 0;
    char *stop;
    while ((stop = memchr(in.bytes + seen, '\n', in.used - seen))) {
        struct span line = {in.bytes + taken, stop};
        seen = taken = (size_t)(stop + 1 - in.bytes);
        if (mode == RAW)
            append(&out, line.at, length_of(line) + 1);
        else
            answer(line);
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
        answer(body);
        taken = (size_t)(body.end - in.bytes);
    }
    return taken;
}

int main(int argc, char **argv) {
    static const char *const modes[] = {"lines", "raw", "content-length", "ainb", "vai"};
    while (argc > 1 && strcmp(modes[mode], argv[1]))
        if (++mode > VAI)
            die("lines, raw, content-length, ainb or vai?");
    own_name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0]; /* a plugin has its program's */
    for (;;) {
        reserve(&in, CHUNK);
        ssize_t got = read(STDIN_FILENO, in.bytes + in.used, CHUNK);
        if (got <= 0)
            return 0;
        size_t seen = in.used;
        in.used += (size_t)got;
        size_t taken = mode >= CONTENT_LENGTH ? take_content_length() : take_lines(seen);
        flush();
        if (taken) {
            in.used -= taken;
            memmove(in.bytes, in.bytes + taken, in.used);
        }
    }
}
