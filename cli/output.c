/* output.c -- see output.h. */
#include "output.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void output_begin(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return; /* nor will others be opened */
}

bool output_end(const char *program)
{
    if (!fflush(stdout) && !ferror(stdout))
        return true;
    fprintf(stderr, "%s: standard output cannot be written\n", program);
    return false;
}
