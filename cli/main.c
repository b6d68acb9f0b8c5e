/* main.c -- the command `ptxmm`. */
#include "options.h"
#include "output.h"

int main(int argc, char **argv)
{
    struct options options;
    int code;
    output_begin();
    const struct command *command = options_read(argc, argv, &options, &code);
    if (command)
        code = command->run(&options);
    if (!output_end("ptxmm") && !code)
        code = EXIT_USAGE;
    return code;
}
