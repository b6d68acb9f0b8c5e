/* error.c -- statuses, their names, and the text of an error. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ptxmm_status_name(enum ptxmm_status status)
{
    switch ((int)status) {
#define NAME(name, value, text) \
    case value: return "PTXMM_" #name;
        PTXMM_STATUS_LIST(NAME)
#undef NAME
    default: return "PTXMM_ERROR_UNKNOWN";
    }
}

const char *ptxmm_status_text(enum ptxmm_status status)
{
    switch ((int)status) {
#define TEXT(name, value, text) \
    case value: return text;
        PTXMM_STATUS_LIST(TEXT)
#undef TEXT
    default: return "unknown status";
    }
}

int ptxmm_version(void)
{
    return 10000 * PTXMM_VERSION_MAJOR + 100 * PTXMM_VERSION_MINOR + PTXMM_VERSION_PATCH;
}

enum ptxmm_status error_none(struct ptxmm_error *error)
{
    if (error) {
        error->status = PTXMM_OK;
        error->driver_result = 0;
        error->text[0] = '\0';
    }
    return PTXMM_OK;
}

enum ptxmm_status error_set(struct ptxmm_error *error, enum ptxmm_status status, const char *format,
                            ...)
{
    if (error) {
        error->status = status;
        error->driver_result = 0;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        // One line, whatever a path or a driver's message held.
        for (char *at = error->text; (at = strpbrk(at, "\r\n")) != NULL;)
            *at = ' ';
    }
    return status;
}
