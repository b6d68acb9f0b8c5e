/* cmd_model.c -- `ptxmm model`: the pipeline model as a table and as a drawing. */
#include <stdio.h>

#include "options.h"
#include "report.h"
#include "table.h"
#include "timeline.h"

static int draw(const struct options *o)
{
    const struct ptxmm_model *m = &o->model;
    char error[512];
    struct timeline t;
    if (m->tiles * m->slices > TIMELINE_MOST)
        return complain(o, "--svg can show at most %d slices, --tiles times --slices is %lld",
                        TIMELINE_MOST, (long long)(m->tiles * m->slices));
    if (!timeline_create(&t, m))
        return complain(o, "host memory is exhausted");
    const bool fine = timeline_draw(&t, o->svg, error, sizeof error);
    timeline_destroy(&t);
    return fine ? 0 : complain(o, "%s", error);
}

static int one(const struct options *o, int stages, int accumulators, json_t *list,
               struct table *table)
{
    struct ptxmm_model model = o->model;
    struct ptxmm_model_result result;
    struct ptxmm_error error;
    model.stages = stages;
    model.accumulators = accumulators;
    if (ptxmm_model_run(&model, &result, &error))
        return complain(o, "%s", error.text);
    table_add(table, "%d", stages);
    table_add(table, "%d", accumulators);
    table_add(table, "%g", result.time);
    table_add(table, "%.1f %%", 100 * result.tensor_busy);
    json_array_append_new(list, json_pack("{s:i, s:i, s:f, s:f}", "stages", stages, "accumulators",
                                          accumulators, "time", result.time, "tensor_busy",
                                          result.tensor_busy));
    return 0;
}

int command_model(const struct options *o)
{
    const struct ptxmm_model *m = &o->model;
    struct table table = { .align = "rrrr" };
    json_t *list = json_array();
    static const char *const headings[] = { "stages", "accumulators", "time", "tensor busy" };
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
        table_add(&table, "%s", headings[i]);

    int code = 0;
    const int first = o->stages_given ? m->stages : 1, last = o->stages_given ? m->stages : 8;
    const int least = o->accumulators_given ? m->accumulators : 1,
              most = o->accumulators_given ? m->accumulators : 2;
    for (int stages = first; !code && stages <= last; stages++)
        for (int accumulators = least; !code && accumulators <= most; accumulators++)
            code = one(o, stages, accumulators, list, &table);
    if (!code && o->svg)
        code = draw(o);
    if (code) {
        json_decref(list);
        table_drop(&table);
        return code;
    }
    if (o->json) {
        json_print(json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "tiles", (json_int_t)m->tiles,
                             "slices", (json_int_t)m->slices, "issue", m->issue, "load", m->load,
                             "mma", m->mma, "epilogue", m->epilogue, "results", list));
        table_drop(&table);
        return EXIT_RIGHT;
    }
    json_decref(list);
    printf("%lld tiles of %lld slices; issue %g, load %g, mma %g, epilogue %g\n",
           (long long)m->tiles, (long long)m->slices, m->issue, m->load, m->mma, m->epilogue);
    table_print(&table, 0);
    if (o->svg)
        printf("%s shows %d stages and %d accumulators\n", o->svg, m->stages, m->accumulators);
    return EXIT_RIGHT;
}
