/* cli_child.h -- runs the command as a child, as a user would, and keeps what it says. Included
 * once by each tests/cli_*.c. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

enum { CHILD_ARGUMENTS = 48, CHILD_TEXT = 400000 };

struct child {
    int code; /* exit code; 128 + signal if it died of one */
    char out[CHILD_TEXT], err[CHILD_TEXT];
};

/* The driver library of tests/cli_driver.c lies beside this program; child_run puts the folder in
 * place of @. */
#define DRIVER "--driver @/libcli_driver.so "

static struct child child;
static char child_folder[2048];  /* of this program */
static char child_scratch[64];   /* a fresh folder, removed at the end; child_run's current one */

static inline int child_setup(void **state)
{
    (void)state;
    const ssize_t n = readlink("/proc/self/exe", child_folder, sizeof child_folder - 1);
    child_folder[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(child_folder, '/');
    if (!slash)
        return -1;
    *slash = 0;
    snprintf(child_scratch, sizeof child_scratch, "/tmp/ptxmm-cli-XXXXXX");
    return mkdtemp(child_scratch) && !chdir(child_scratch) ? 0 : -1;
}

static inline void child_remove(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
            char inner[4096];
            const int n = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
            if (n > 0 && (size_t)n < sizeof inner && unlink(inner))
                child_remove(inner);
        }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static inline int child_clean(void **state)
{
    (void)state;
    child_remove(child_scratch);
    return 0;
}

static inline void child_text(int file, char *text)
{
    const ssize_t n = pread(file, text, CHILD_TEXT - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    close(file);
}

static inline int child_file(void)
{
    char name[] = "/tmp/ptxmm-cli-text-XXXXXX";
    const int file = mkstemp(name);
    assert_true(file >= 0);
    unlink(name);
    return file;
}

/* Runs ../bin/ptxmm with words split at blanks ('' is an empty word, @ the folder of this program).
 * CLI_DRIVER_FAULT and CLI_DRIVER_ARCH are set as given (NULL: not set); the variables of ptxmm
 * itself are not set. */
static inline void child_run_with(const char *fault, const char *arch, const char *words)
{
    static char text[16384], program[2100];
    char *arguments[CHILD_ARGUMENTS + 1] = { program };
    snprintf(program, sizeof program, "%s/../bin/ptxmm", child_folder);
    size_t used = 0;
    for (const char *at = words; *at; at++)
        if (*at == '@')
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", child_folder);
        else
            text[used++] = *at;
    text[used] = 0;
    int count = 1;
    for (char *word = strtok(text, " "); word && count < CHILD_ARGUMENTS; word = strtok(NULL, " "))
        arguments[count++] = strcmp(word, "''") ? word : word + 2;
    arguments[count] = NULL;

    const int out = child_file(), err = child_file();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        static const char *const mine[] = { "CLI_DRIVER_FAULT", "CLI_DRIVER_ARCH", "PTXMM_DRIVER",
                                            "PTXMM_PTX_DIR" };
        for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
            unsetenv(mine[i]);
        if (fault)
            setenv("CLI_DRIVER_FAULT", fault, 1);
        if (arch)
            setenv("CLI_DRIVER_ARCH", arch, 1);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        alarm(300);
        execv(program, arguments);
        _exit(127);
    }
    int status = 0;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    child.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    child_text(out, child.out);
    child_text(err, child.err);
}

static inline void child_run(const char *words)
{
    child_run_with(NULL, NULL, words);
}

/* The child's exit code and a piece of what it printed; on a mismatch everything is shown. */
static inline void child_check(const char *words, int code, const char *text, const char *piece)
{
    if (child.code != code || (piece && !strstr(text, piece)))
        fail_msg("ptxmm %s\nexit code %d, must be %d; must contain \"%s\"\nstdout: %s\nstderr: %s",
                 words, child.code, code, piece ? piece : "", child.out, child.err);
}

static inline void child_expect(const char *words, int code, const char *out)
{
    child_run(words);
    child_check(words, code, child.out, out);
    if (*child.err)
        fail_msg("ptxmm %s\nstderr must be empty, is: %s", words, child.err);
}

/* One line on stderr, nothing on stdout. */
static inline void child_refuses(const char *words, int code, const char *err)
{
    child_run(words);
    child_check(words, code, child.err, err);
    const char *end = strchr(child.err, '\n');
    if (!end || end[1] || *child.out || strncmp(child.err, "ptxmm", 5))
        fail_msg(
            "ptxmm %s\nmust give one line on stderr and nothing on stdout\nstdout: %s\nstderr: %s",
            words, child.out, child.err);
}

/* What the child printed as JSON; nothing else may have been printed. The caller drops it. */
static inline json_t *child_json(const char *words, int code)
{
    child_run(words);
    child_check(words, code, child.out, NULL);
    json_error_t error;
    json_t *object = json_loads(child.out, JSON_REJECT_DUPLICATES, &error);
    if (!object || *child.err)
        fail_msg("ptxmm %s\nmust print JSON alone: %s\nstdout: %s\nstderr: %s", words, error.text,
                 child.out, child.err);
    return object;
}

static inline json_t *member(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    if (!value)
        fail_msg("no member \"%s\"", name);
    return value;
}

static inline long long integer(json_t *object, const char *name)
{
    assert_true(json_is_integer(member(object, name)));
    return json_integer_value(member(object, name));
}

static inline double number(json_t *object, const char *name)
{
    assert_true(json_is_number(member(object, name)));
    return json_number_value(member(object, name));
}

static inline const char *string(json_t *object, const char *name)
{
    assert_true(json_is_string(member(object, name)));
    return json_string_value(member(object, name));
}

static inline bool truth(json_t *object, const char *name)
{
    assert_true(json_is_boolean(member(object, name)));
    return json_is_true(member(object, name));
}

static inline unsigned char *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

static inline void write_whole(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

#endif
