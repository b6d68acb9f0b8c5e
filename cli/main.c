/* main.c -- the command `ptxmm`. */
#include <stdio.h>

#include "options.h"

int main(int argc, char **argv)
{
    struct options options;
    int code;
    const struct command *command = options_read(argc, argv, &options, &code);
    if (command)
        code = command->run(&options);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "ptxmm: standard output cannot be written\n");
        return code ? code : EXIT_USAGE;
    }
    return code;
}
