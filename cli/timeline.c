/* timeline.c -- the pipeline model, slice by slice, and its drawing. */
#define _GNU_SOURCE
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* L[g] = max(L[g-1] + issue, D[g-S])      M[g] = max(L[g] + load, D[g-1], E[t-A] if g starts tile
 * t) D[g] = M[g] + mma                       E[t] = max(D[last of t], E[t-1]) + epilogue */
bool timeline_create(struct timeline *t, const struct ptxmm_model *model)
{
    const int64_t per_tile = model->slices, total = model->tiles * per_tile;
    *t = (struct timeline){ .model = *model, .slices = total };
    double **const arrays[6] = { &t->issue, &t->ready, &t->start, &t->end, &t->drain, &t->drained };
    for (int i = 0; i < 6; i++) {
        *arrays[i] = calloc((size_t)(i < 4 ? total : model->tiles) + 1, sizeof(double));
        if (!*arrays[i]) {
            timeline_destroy(t);
            return false;
        }
    }
    const int64_t stages = model->stages, accumulators = model->accumulators;
    for (int64_t g = 0; g < total; g++) {
        const int64_t tile = g / per_tile;
        double at = g ? t->issue[g - 1] + model->issue : 0;
        if (g >= stages && t->end[g - stages] > at)
            at = t->end[g - stages];
        t->issue[g] = at;
        t->ready[g] = at + model->load;

        double begin = t->ready[g];
        if (g && t->end[g - 1] > begin)
            begin = t->end[g - 1];
        if (g % per_tile == 0 && tile >= accumulators && t->drained[tile - accumulators] > begin)
            begin = t->drained[tile - accumulators];
        t->start[g] = begin;
        t->end[g] = begin + model->mma;

        if (g % per_tile == per_tile - 1) {
            double drain = t->end[g];
            if (tile && t->drained[tile - 1] > drain)
                drain = t->drained[tile - 1];
            t->drain[tile] = drain;
            t->drained[tile] = t->time = drain + model->epilogue;
        }
    }
    return true;
}

void timeline_destroy(struct timeline *t)
{
    free(t->issue);
    free(t->ready);
    free(t->start);
    free(t->end);
    free(t->drain);
    free(t->drained);
    *t = (struct timeline){ 0 };
}

/* ---- the drawing ---- */

#define LEFT 96
#define LANE 22
#define WIDTH 1000.0

/* By tile. */
static const char *const colours[] = { "#4477aa", "#ee6677", "#228833",
                                       "#ccbb44", "#66ccee", "#aa3377" };

struct drawing {
    FILE *f;
    double scale;
};

static void box(const struct drawing *d, int lane, double from, double to, int64_t tile,
                const char *style, const char *words, int64_t number)
{
    const double x = LEFT + from * d->scale, width = (to - from) * d->scale;
    if (width <= 0)
        return;
    fprintf(d->f,
            "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" %s><title>%s %lld "
            "of tile %lld: %g to %g"
            "</title></rect>\n",
            x, 30 + lane * LANE, width, LANE - 4,
            colours[(size_t)tile % (sizeof colours / sizeof *colours)], style, words,
            (long long)number, (long long)tile, from, to);
    char label[24];
    const int length = snprintf(label, sizeof label, "%lld", (long long)number);
    if (width > 7 * length + 2)
        fprintf(d->f, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\" fill=\"#fff\">%s</text>\n",
                x + width / 2, 30 + lane * LANE + 13, label);
}

static void lane_name(const struct drawing *d, int lane, const char *format, int number)
{
    fprintf(d->f, "<text x=\"4\" y=\"%d\">", 30 + lane * LANE + 13);
    fprintf(d->f, format, number);
    fprintf(d->f, "</text>\n");
}

/* A round step that gives at most a dozen marks. */
static double mark_step(double time)
{
    double step = 1;
    while (step * 12 < time)
        step *= 10;
    while (step > 1e-12 && step / 2 * 12 >= time)
        step /= 2;
    return step;
}

static void draw(const struct timeline *t, FILE *f)
{
    const struct ptxmm_model *m = &t->model;
    /* Only lanes that are used. */
    const int64_t used_slots = t->slices < m->stages ? t->slices : m->stages,
                  used_buffers = m->tiles < m->accumulators ? m->tiles : m->accumulators;
    const int slots = (int)used_slots, buffers = (int)used_buffers, lanes = slots + 1 + buffers;
    const struct drawing d = { f, t->time > 0 ? WIDTH / t->time : 1 };
    const double busy = t->time > 0 ? 100 * (double)t->slices * m->mma / t->time : 0;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" "
            "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            LEFT + (int)WIDTH + 20, 30 + lanes * LANE + 24);
    fprintf(f,
            "<text x=\"4\" y=\"16\" font-weight=\"bold\">%lld tiles of %lld slices, %d stages, %d "
            "accumulators: time %g, "
            "tensor core busy %.1f %%</text>\n",
            (long long)m->tiles, (long long)m->slices, m->stages, m->accumulators, t->time, busy);
    const double step = mark_step(t->time);
    for (double at = 0; at <= t->time; at += step)
        fprintf(f,
                "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"26\" y2=\"%d\" stroke=\"#ddd\"/><text "
                "x=\"%.2f\" y=\"%d\" "
                "text-anchor=\"middle\">%g</text>\n",
                LEFT + at * d.scale, LEFT + at * d.scale, 30 + lanes * LANE, LEFT + at * d.scale,
                30 + lanes * LANE + 14, at);
    for (int i = 0; i < slots; i++)
        lane_name(&d, i, "load slot %d", i);
    fprintf(f, "<text x=\"4\" y=\"%d\">tensor core</text>\n", 30 + slots * LANE + 13);
    for (int i = 0; i < buffers; i++)
        lane_name(&d, slots + 1 + i, "epilogue %d", i);

    for (int64_t g = 0; g < t->slices; g++) {
        const int64_t tile = g / m->slices, slice = g % m->slices;
        const int slot = (int)(g % m->stages);
        box(&d, slot, t->issue[g], t->ready[g], tile, "", "load of slice", slice);
        /* Waits, then is read. */
        box(&d, slot, t->ready[g], t->end[g], tile, "fill-opacity=\"0.45\"", "slot held by slice",
            slice);
        box(&d, slots, t->start[g], t->end[g], tile, "stroke=\"#fff\"", "multiplication of slice",
            slice);
    }
    for (int64_t i = 0; i < m->tiles; i++)
        box(&d, slots + 1 + (int)(i % m->accumulators), t->drain[i], t->drained[i], i, "",
            "epilogue", i);
    fprintf(f, "</svg>\n");
}

bool timeline_draw(const struct timeline *t, const char *file, char *error, size_t size)
{
    FILE *f = fopen(file, "w");
    if (f)
        draw(t, f);
    const bool fine = f && !fflush(f) && !ferror(f);
    const int why = errno;
    if (f)
        fclose(f);
    if (!fine)
        snprintf(error, size, "%s cannot be written: %s", file, strerror(why));
    return fine;
}
