/* lib_sandbox.c -- what the loader must not do: start programs, open sockets, write files, allocate
 * in a run; and what it does when memory is short. */
#include "lib_case.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "failing_memory.h"

/* ---- system calls -------------------------------------------------------------------------- */

/* System calls that kill the process; open and openat only when asked to write. Numbers are of this
 * machine's ABI. */
static int forbid(void)
{
#define NUMBER       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define KILL         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define FORBID(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), KILL
    enum { WRITES = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC };
    struct sock_filter filter[] = {
        NUMBER,
        FORBID(execve),
        FORBID(execveat),
        FORBID(socket),
        FORBID(socketpair),
        FORBID(connect),
        FORBID(bind),
        FORBID(clone),
        FORBID(renameat2),
        FORBID(mkdirat),
        FORBID(unlinkat),
        FORBID(linkat),
        FORBID(symlinkat),
        FORBID(truncate),
        FORBID(ptrace),
#ifdef SYS_fork
        FORBID(fork),
        FORBID(vfork),
        FORBID(creat),
        FORBID(rename),
        FORBID(mkdir),
        FORBID(unlink),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITES, 0, 1),
        KILL,
        ALLOW,
#endif
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITES, 0, 1),
        KILL,
        ALLOW,
        ALLOW,
    };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Open, plan, run, close: 0 if all is right. */
static int whole_life(void)
{
    struct ptxmm *mm;
    struct ptxmm_plan *plan = NULL;
    struct ptxmm_options options = { .driver = case_stub_path() };
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_arguments arguments = case_arguments();
    if (ptxmm_open(&mm, &options, NULL))
        return 1;
    int wrong = ptxmm_load_all(mm, NULL) || ptxmm_plan_create(mm, &problem, NULL, &plan, NULL) ||
                ptxmm_plan_run(plan, &arguments, NULL, NULL);
    ptxmm_plan_destroy(&plan);
    return ptxmm_close(&mm, NULL) || wrong ? 2 : 0;
}

enum { NO_SECCOMP = 77 };

static int child_status(int (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(forbid() ? NO_SECCOMP : body());
    int status;
    waitpid(child, &status, 0);
    return status;
}

static int writes_a_file(void)
{
    return open("/dev/null", O_WRONLY | O_CREAT, 0600) < 0;
}

static int starts_a_program(void)
{
    return execl("/bin/true", "true", (char *)NULL);
}

static void system_calls(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    case_reset();
    int status = child_status(whole_life);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SECCOMP) {
        print_message("skipped: this system has no seccomp filters\n");
        skip();
    }
    if (WIFSIGNALED(status))
        fail_msg("killed by signal %d: a forbidden system call", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    // The fence holds: what is forbidden kills.
    assert_true(WIFSIGNALED(child_status(writes_a_file)));
    assert_true(WIFSIGNALED(child_status(starts_a_program)));
}

/* ---- memory -------------------------------------------------------------------------------- */

#ifdef FAILING_MEMORY

/* A run allocates nothing; the selection, the model and the checks do not either. */
static void no_allocation(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    case_reset();
    struct ptxmm *mm = case_open();
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_arguments arguments = case_arguments();
    struct ptxmm_plan *plan;
    struct ptxmm_error error;
    assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan, &error), PTXMM_OK);
    long before = allocations;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &error), PTXMM_OK);
    arguments.a = 0;
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &error), PTXMM_ERROR_ARGUMENT);
    struct ptxmm_device device;
    struct ptxmm_candidate candidates[4];
    size_t count;
    assert_int_equal(ptxmm_device_known("h200", &device, &error), PTXMM_OK);
    assert_int_equal(ptxmm_select(&device, &problem, candidates, 4, &count, &error), PTXMM_OK);
    assert_int_equal(allocations, before);
    ptxmm_plan_destroy(&plan);
    case_close(&mm);
}

/* Every allocation fails in turn: a status that says so, and nothing is left behind. */
static void short_of_memory(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    struct stub_state *stub = case_reset();
    const struct ptxmm_choice choices[2] = {
        { .device = "a", .m = 1, .n = 1, .a = PTXMM_BF16, .b = PTXMM_BF16, .d = PTXMM_BF16, .kernel = "gone" },
        { .device = "b", .m = 1, .n = 1, .a = PTXMM_BF16, .b = PTXMM_BF16, .d = PTXMM_BF16,
          .kernel = ptxmm_kernel(0)->name },
    };
    struct ptxmm_options options = { .driver = case_stub_path(),
                                     .ptx_dir = "/tmp",
                                     .image_dir = NULL,
                                     .choices = choices,
                                     .choice_count = 2 };
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_error error;
    int done = 0, failures = 0;
    for (long at = 0; !done; at++) {
        assert_true(at < 1000);
        struct ptxmm *mm = NULL;
        struct ptxmm_plan *plan = NULL;
        fails_at = at;
        enum ptxmm_status status = ptxmm_open(&mm, &options, &error);
        if (status == PTXMM_OK)
            status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
        done = fails_at >= 0; // there were not so many
        fails_at = -1;
        // Our own say MEMORY; the dynamic linker's make it find no driver; the stub's are its
        // failure.
        if (status != PTXMM_OK && status != PTXMM_ERROR_MEMORY && status != PTXMM_ERROR_NO_DRIVER &&
            status != PTXMM_ERROR_DRIVER)
            fail_msg("allocation %ld: %s", at, error.text);
        assert_int_equal(status, error.status);
        assert_true(status == PTXMM_OK || plan == NULL);
        failures += status == PTXMM_ERROR_MEMORY;
        ptxmm_plan_destroy(&plan);
        case_close(&mm);
        assert_int_equal(stub->loads, stub->unloads);
    }
    assert_true(failures >= 4); // the handle, a folder's name, the choices, the plan
}

#else
static void no_allocation(void **unused)
{
    (void)unused;
    print_message("skipped: the allocator is not ours to replace\n");
    skip();
}

static void short_of_memory(void **unused)
{
    no_allocation(unused);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_calls),
        cmocka_unit_test(no_allocation),
        cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests_name("lib/sandbox", tests, NULL, NULL);
}
