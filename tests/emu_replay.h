/* The emulator's kinds, as replay.h knows them: an arithmetic of its own to hold them against. */
#ifndef TESTS_EMU_REPLAY_H
#define TESTS_EMU_REPLAY_H

#include "replay.h"
#include "tensor.h"

/* One element after one instruction; sa, sb: its scale factors. */
static inline uint32_t replay_kind(const struct tensor_kind *t, const uint32_t *a,
                                   const uint32_t *b, uint32_t c, const uint32_t *sa,
                                   const uint32_t *sb)
{
    static const enum replay_format formats[] = {
        [TENSOR_BF16] = REPLAY_BF16, [TENSOR_F16] = REPLAY_F16, [TENSOR_TF32] = REPLAY_TF32,
        [TENSOR_E4M3] = REPLAY_E4M3, [TENSOR_E5M2] = REPLAY_E5M2, [TENSOR_E2M3] = REPLAY_E2M3,
        [TENSOR_E3M2] = REPLAY_E3M2, [TENSOR_E2M1] = REPLAY_E2M1, [TENSOR_S8] = REPLAY_S8,
        [TENSOR_U8] = REPLAY_U8,
    };
    const enum replay_format fa = formats[t->a], fb = formats[t->b];
    struct replay_step step;

    if (t->d == TENSOR_TO_S32)
        return replay_integers(fa, fb, t->k, t->saturate, a, b, c);
    /* of the kinds, only wgmma's fp8 keeps 13 bits */
    step = replay_step_of(fa, fb, t->d == TENSOR_TO_F16, t->fraction == 13);
    step.block = t->scale == TENSOR_UNSCALED ? 0 : t->block;
    step.scale = t->scale == TENSOR_UE4M3 ? REPLAY_UE4M3 : REPLAY_UE8M0;
    if (t->groups) {
        step.packed = true;
        step.k = 64;
        step.fraction = 35;
    }
    return replay_instruction(&step, a, b, c, sa, sb);
}

#endif
