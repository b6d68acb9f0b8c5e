/*
 * The loops of arithmetic handlers. Inside an expression a, b, c are the source rows, l the lane.
 */
#ifndef EMULATOR_EXEC_LOOP_H
#define EMULATOR_EXEC_LOOP_H

#include "exec.h"

/* Over the span; a full warp gets its own loop of constant length. */
#define EACH_LANE(s, statement) do { \
        if ((s).hi - (s).lo == LANES) \
            for (unsigned l = 0; l < LANES; l++) { statement; } \
        else \
            for (unsigned l = (s).lo; l < (s).hi; l++) { statement; } \
    } while (0)

#define UNARY32(expression) do { \
        const struct span s = span_of(mask); \
        uint32_t ta[LANES], d[LANES], defined = UINT32_MAX; \
        const uint32_t *const a = row32(w, &in->o[1], ta, s, &defined); \
        EACH_LANE(s, d[l] = (uint32_t)(expression)); \
        put32(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

#define UNARY64(expression) do { \
        const struct span s = span_of(mask); \
        uint64_t ta[LANES], d[LANES]; \
        uint32_t defined = UINT32_MAX; \
        const uint64_t *const a = row64(w, &in->o[1], ta, s, &defined); \
        EACH_LANE(s, d[l] = (uint64_t)(expression)); \
        put64(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

#define BINARY32(expression) do { \
        const struct span s = span_of(mask); \
        uint32_t ta[LANES], tb[LANES], d[LANES], defined = UINT32_MAX; \
        const uint32_t *const a = row32(w, &in->o[1], ta, s, &defined); \
        const uint32_t *const b = row32(w, &in->o[2], tb, s, &defined); \
        EACH_LANE(s, d[l] = (uint32_t)(expression)); \
        put32(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

#define BINARY64(expression) do { \
        const struct span s = span_of(mask); \
        uint64_t ta[LANES], tb[LANES], d[LANES]; \
        uint32_t defined = UINT32_MAX; \
        const uint64_t *const a = row64(w, &in->o[1], ta, s, &defined); \
        const uint64_t *const b = row64(w, &in->o[2], tb, s, &defined); \
        EACH_LANE(s, d[l] = (uint64_t)(expression)); \
        put64(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

#define TERNARY32(expression) do { \
        const struct span s = span_of(mask); \
        uint32_t ta[LANES], tb[LANES], tc[LANES], d[LANES], defined = UINT32_MAX; \
        const uint32_t *const a = row32(w, &in->o[1], ta, s, &defined); \
        const uint32_t *const b = row32(w, &in->o[2], tb, s, &defined); \
        const uint32_t *const c = row32(w, &in->o[3], tc, s, &defined); \
        EACH_LANE(s, d[l] = (uint32_t)(expression)); \
        put32(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

#define TERNARY64(expression) do { \
        const struct span s = span_of(mask); \
        uint64_t ta[LANES], tb[LANES], tc[LANES], d[LANES]; \
        uint32_t defined = UINT32_MAX; \
        const uint64_t *const a = row64(w, &in->o[1], ta, s, &defined); \
        const uint64_t *const b = row64(w, &in->o[2], tb, s, &defined); \
        const uint64_t *const c = row64(w, &in->o[3], tc, s, &defined); \
        EACH_LANE(s, d[l] = (uint64_t)(expression)); \
        put64(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

/* 64-bit value a, 32-bit amounts b (and c). */
#define SHIFT64(expression) do { \
        const struct span s = span_of(mask); \
        uint64_t ta[LANES], d[LANES]; \
        uint32_t tb[LANES], defined = UINT32_MAX; \
        const uint64_t *const a = row64(w, &in->o[1], ta, s, &defined); \
        const uint32_t *const b = row32(w, &in->o[2], tb, s, &defined); \
        EACH_LANE(s, d[l] = (uint64_t)(expression)); \
        put64(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

/* 32-bit sources, 64-bit result. */
#define WIDEN(expression) do { \
        const struct span s = span_of(mask); \
        uint32_t ta[LANES], tb[LANES], defined = UINT32_MAX; \
        uint64_t tc[LANES], d[LANES]; \
        const uint32_t *const a = row32(w, &in->o[1], ta, s, &defined); \
        const uint32_t *const b = row32(w, &in->o[2], tb, s, &defined); \
        const uint64_t *const c = in->o[3].kind == OPND_NONE \
            ? tc : row64(w, &in->o[3], tc, s, &defined); \
        EACH_LANE(s, d[l] = (uint64_t)(expression)); \
        (void)c; \
        put64(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

/* 64-bit source, 32-bit result. */
#define NARROW(expression) do { \
        const struct span s = span_of(mask); \
        uint64_t ta[LANES]; \
        uint32_t d[LANES], defined = UINT32_MAX; \
        const uint64_t *const a = row64(w, &in->o[1], ta, s, &defined); \
        EACH_LANE(s, d[l] = (uint32_t)(expression)); \
        put32(w, &in->o[0], s, d, defined); \
        return FLOW_NEXT; \
    } while (0)

#endif
