/* The little JSON that the example plugins in C need: the text of a member of an object, as it stands. */
#include <string.h>

static const char *skip_space(const char *p) {
    return p + strspn(p, " \t\r\n");
}

/* Past one JSON value; NULL when the text ends inside it. */
static const char *skip_value(const char *p) {
    int depth = 0;
    do {
        p = skip_space(p);
        if (*p == '"') {
            for (p++; *p && *p != '"'; p++)
                if (*p == '\\' && p[1])
                    p++;
            if (!*p)
                return NULL;
            p++;
        } else if (*p == '{' || *p == '[') {
            depth++, p++;
        } else if (*p == '}' || *p == ']') {
            depth--, p++;
        } else if (*p == ',' || *p == ':') {
            p++;
        } else if (*p) {
            p += strcspn(p, ",:]} \t\r\n");
        } else {
            return NULL;
        }
    } while (depth > 0);
    return p;
}

/* The text of an object's member, found at the top level only; length 0 when it is not there. */
static const char *member(const char *object, const char *name, int *length) {
    const char *p = skip_space(object);
    *length = 0;
    if (*p++ != '{')
        return NULL;
    while ((p = skip_space(p)) && *p == '"') {
        const char *key = p, *value;
        if (!(p = skip_value(p)) || *(p = skip_space(p)) != ':')
            return NULL;
        value = skip_space(p + 1);
        if (!(p = skip_value(value)))
            return NULL;
        if (!strncmp(key + 1, name, strlen(name)) && key[1 + strlen(name)] == '"') {
            *length = (int)(p - value);
            return value;
        }
        p = skip_space(p);
        if (*p == ',')
            p++;
    }
    return NULL;
}
