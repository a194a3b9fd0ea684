/* The mcptest reference plugin in C: `echo` returns its params, `ping` returns "pong".
 * It needs no JSON library: it finds the members it knows and copies their text as it stands.
 * Build: cc -O2 -o bin/echo echo.c */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../json_text.h"

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        int id_length, method_length, params_length;
        const char *id = member(line, "id", &id_length);
        const char *method = member(line, "method", &method_length);
        const char *params = member(line, "params", &params_length);
        if (!id || !method)
            printf("{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"not a request\"}}\n");
        else if (!strncmp(method, "\"echo\"", method_length) && params)
            printf("{\"id\":%.*s,\"result\":%.*s}\n", id_length, id, params_length, params);
        else if (!strncmp(method, "\"echo\"", method_length))
            printf("{\"id\":%.*s,\"error\":{\"code\":-32602,\"message\":\"echo needs params\"}}\n", id_length, id);
        else if (!strncmp(method, "\"ping\"", method_length))
            printf("{\"id\":%.*s,\"result\":\"pong\"}\n", id_length, id);
        else
            printf("{\"id\":%.*s,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}\n", id_length, id);
        fflush(stdout);
    }
    free(line);
    return 0;
}
