/* timeline.h -- the pipeline model, slice by slice, and its drawing. */
#ifndef TIMELINE_H
#define TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptxmm.h"

struct timeline {
    struct ptxmm_model model;
    int64_t slices;          /* of all tiles */
    double *issue, *ready;   /* per slice: its load begins; its data are in */
    double *start, *end;     /* its multiplication */
    double *drain, *drained; /* per tile: its epilogue */
    double time;             /* the last epilogue's end */
};

#define TIMELINE_MOST 4096 /* slices that a drawing can show */

/* Evaluates the recurrences (docs/model.md). False: out of memory. */
bool timeline_create(struct timeline *t, const struct ptxmm_model *model);
void timeline_destroy(struct timeline *t);

/* Writes an SVG drawing: a lane for each load slot, the tensor core, and a lane for each
 * accumulator's epilogue. */
bool timeline_draw(const struct timeline *t, const char *file, char *error, size_t size);

#endif
