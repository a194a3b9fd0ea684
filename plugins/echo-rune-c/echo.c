/* The rune reference plugin in C: one process per call; the tool `echo` returns its input.
 * Build: cc -O2 -o bin/echo echo.c */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../json_text.h"

int main(void) {
    char *line = NULL;
    size_t room = 0;
    int id_length, tool_length, input_length;
    if (getline(&line, &room, stdin) <= 0)
        return 1;
    printf("{\"type\":\"handshake\",\"manifest\":{\"plugin_id\":\"example.echo-c\",\"plugin_version\":\"1.0.0\","
           "\"protocol_version\":\"rterm.plugin.v1\",\"exposed_tools\":[\"echo\"]}}\n");
    fflush(stdout);
    if (getline(&line, &room, stdin) <= 0)
        return 0;
    const char *id = member(line, "request_id", &id_length);
    const char *tool = member(line, "tool_name", &tool_length);
    const char *input = member(line, "input", &input_length);
    if (!id || !tool || !input)
        return 1;
    if (!strncmp(tool, "\"echo\"", tool_length))
        printf("{\"type\":\"response\",\"request_id\":%.*s,\"status\":\"ok\",\"output\":%.*s}\n", id_length, id,
               input_length, input);
    else
        printf("{\"type\":\"response\",\"request_id\":%.*s,\"status\":\"error\","
               "\"error\":{\"code\":\"not_found\",\"message\":\"no such tool\"}}\n",
               id_length, id);
    fflush(stdout);
    while (getline(&line, &room, stdin) > 0) /* until the host is done: an early exit can cost it the answer */
        ;
    free(line);
    return 0;
}
