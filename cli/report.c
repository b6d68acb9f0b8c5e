/* report.c -- pieces of JSON and words that several commands print. */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "product.h"

json_t *json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

void json_print(json_t *object)
{
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(object);
}

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

json_t *report_device(const struct ptxmm_device *d)
{
    json_t *o = json_object();
    put(o, "name", json_string(d->name));
    put(o, "arch", json_integer(d->arch));
    put(o, "sm_count", json_integer(d->sm_count));
    put(o, "shared_bytes", json_integer(d->shared_bytes));
    put(o, "clock_khz", json_integer(d->clock_khz));
    put(o, "l2_bytes", json_integer(d->l2_bytes));
    put(o, "memory_bytes_per_second", json_integer(d->memory_bytes_per_second));
    return o;
}

static json_t *operand(const struct ptxmm_operand *x, bool batch)
{
    json_t *o = json_object();
    put(o, "type", json_string(type_name(x->type)));
    put(o, "ld", json_integer(x->ld));
    if (batch)
        put(o, "batch_stride", json_integer(x->batch_stride));
    return o;
}

json_t *report_problem(const struct ptxmm_problem *p)
{
    json_t *o = json_object();
    const bool batch = p->kind == PTXMM_BATCH_STRIDED;
    put(o, "m", json_integer(p->m));
    put(o, "n", json_integer(p->n));
    put(o, "k", json_integer(p->k));
    if (batch)
        put(o, "batch", json_integer(p->batch));
    put(o, "a", operand(&p->a, batch));
    put(o, "b", operand(&p->b, batch));
    if (p->c.type)
        put(o, "c", operand(&p->c, batch));
    put(o, "d", operand(&p->d, batch));
    put(o, "accumulate",
        json_string(p->accumulate == PTXMM_ACCUMULATE_FAST ? "fast" : "default"));
    const char *constant = constant_name(p->a.constant, p->b.constant);
    if (*constant)
        put(o, "constant", json_string(constant));
    put(o, "flops", json_number(product_flops(p)));
    return o;
}

const char *algorithm_name(enum ptxmm_algorithm algorithm)
{
    switch (algorithm) {
    case PTXMM_COOPERATIVE: return "cooperative";
    case PTXMM_PINGPONG: return "pingpong";
    case PTXMM_ONE_CTA: return "one_cta";
    case PTXMM_CTA_PAIR: return "cta_pair";
    case PTXMM_SPLIT: return "split";
    case PTXMM_MULTICAST: return "multicast";
    }
    return "?";
}

const char *schedule_name(enum ptxmm_schedule schedule)
{
    return schedule == PTXMM_SCHEDULE_LAUNCH_CONTROL ? "launch_control" : "static";
}

json_t *report_kernel(const struct ptxmm_kernel_info *k)
{
    json_t *o = json_object();
    put(o, "name", json_string(k->name));
    put(o, "target", json_string(k->target));
    put(o, "algorithm", json_string(algorithm_name(k->algorithm)));
    put(o, "schedule", json_string(schedule_name(k->schedule)));
    put(o, "a", json_string(type_name(k->a)));
    put(o, "b", json_string(type_name(k->b)));
    put(o, "accumulator", json_string(type_name(k->accumulator)));
    put(o, "d", json_string(type_name(k->d)));
    put(o, "tile_m", json_integer(k->tile_m));
    put(o, "tile_n", json_integer(k->tile_n));
    put(o, "tile_k", json_integer(k->tile_k));
    put(o, "stages", json_integer(k->stages));
    put(o, "threads", json_integer(k->threads));
    put(o, "cluster", json_integer(k->cluster));
    put(o, "shared_bytes", json_integer(k->shared_bytes));
    put(o, "abi_version", json_integer(k->abi_version));
    put(o, "min_driver", json_integer(k->min_driver));
    put(o, "deterministic", json_boolean(k->deterministic));
    put(o, "batch_invariant", json_boolean(k->batch_invariant));
    put(o, "promotion", k->promotion ? json_integer(k->promotion) : json_null());
    return o;
}

json_t *report_candidate(const struct ptxmm_candidate *c)
{
    char words[512];
    json_t *o = json_object();
    put(o, "kernel", json_string(c->kernel->name));
    put(o, "usable", json_boolean(c->reason == PTXMM_REASON_NONE));
    if (c->reason) {
        ptxmm_candidate_describe(c, words, sizeof words);
        put(o, "reason", json_string(ptxmm_reason_name(c->reason)));
        put(o, "field", c->field ? json_string(c->field) : json_null());
        put(o, "has", json_integer(c->has));
        put(o, "needs", json_integer(c->needs));
        put(o, "words", json_string(words));
        return o;
    }
    put(o, "seconds", json_number(c->seconds));
    put(o, "tensor_busy", json_number(c->tensor_busy));
    put(o, "tiles", json_integer(c->tiles));
    put(o, "ctas", json_integer(c->ctas));
    put(o, "cluster", json_integer(c->cluster));
    put(o, "cluster_rows", json_integer(c->cluster_rows));
    put(o, "groups", json_integer(c->groups));
    put(o, "workspace_bytes", json_integer(c->workspace_bytes));
    put(o, "waves", json_number(c->waves));
    put(o, "stages", json_integer(c->stages));
    put(o, "shared_bytes", json_integer(c->shared_bytes));
    put(o, "compute_seconds", json_number(c->compute_seconds));
    put(o, "memory_seconds", json_number(c->memory_seconds));
    put(o, "bound", json_string(bound_name(c)));
    return o;
}

json_t *report_check(const struct check_result *r)
{
    json_t *o = json_object();
    put(o, "right", json_boolean(r->ok));
    put(o, "method", json_string(r->method));
    put(o, "elements", json_integer(r->elements));
    if (r->blocks) {
        put(o, "blocks", json_integer(r->blocks));
        put(o, "block_columns", json_integer(r->block_columns));
        put(o, "blocks_looked_at_again", json_integer(r->flagged));
    }
    put(o, "max_abs_error", json_number(r->max_abs));
    put(o, "max_error_in_tolerances", json_number(r->max_units));
    put(o, "wrong", json_integer(r->wrong));
    if (r->wrong) {
        if (r->matrices > 1)
            put(o, "first_wrong_matrix", json_integer(r->matrix));
        put(o, "first_wrong_row", json_integer(r->row));
        put(o, "first_wrong_col", json_integer(r->col));
        put(o, "expected", json_number(r->expected));
        put(o, "got", json_number(r->got));
        put(o, "tolerance", json_number(r->tolerance));
    }
    return o;
}

const char *time_text(double seconds, char *text, size_t size)
{
    if (seconds < 1e-3)
        snprintf(text, size, "%.1f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(text, size, "%.2f ms", seconds * 1e3);
    else
        snprintf(text, size, "%.2f s", seconds);
    return text;
}

const char *split_text(const struct ptxmm_candidate *c, char *text, size_t size)
{
    int at = 0;
    text[0] = 0;
    const bool split = c->kernel->algorithm == PTXMM_SPLIT;
    if (split)
        at = snprintf(text, size, ", K over clusters of %lld", (long long)c->cluster);
    if (c->kernel->algorithm == PTXMM_MULTICAST && c->cluster > 1)
        at = snprintf(text, size, ", loads shared by %lldx%lld tiles", (long long)c->cluster_rows,
                      (long long)(c->cluster / c->cluster_rows));
    if (c->groups > 1 && (size_t)at < size)
        snprintf(text + at, size - (size_t)at, "%s %lld groups with %.1f MB of workspace",
                 split ? " x" : ", K over", (long long)c->groups,
                 (double)c->workspace_bytes / (1 << 20));
    return text;
}

const char *bound_name(const struct ptxmm_candidate *c)
{
    return c->memory_seconds > c->compute_seconds ? "memory" : "compute";
}
