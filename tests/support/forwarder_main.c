/* forwarder-main SOCKET LISTING PROGRAM [ARG...]: starts a forwarder and becomes the program, as a launcher does. */
#include <stdio.h>
#include <unistd.h>

#include "forwarder.h"

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    if (forwarder_start(argv[1], argv[2], geteuid()) != 0) {
        perror("forwarder_start");
        return 3;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 127;
}
