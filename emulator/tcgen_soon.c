#include "exec.h"
#define NOT_YET(name) enum flow op_##name(struct warp *w, const struct inst *in, uint32_t mask) \
    { (void)mask; return exec_refuse(w, in, "tcgen05"); }
NOT_YET(tcgen_alloc) NOT_YET(tcgen_dealloc) NOT_YET(tcgen_relinquish) NOT_YET(tcgen_ld) NOT_YET(tcgen_ld_red)
NOT_YET(tcgen_st) NOT_YET(tcgen_wait) NOT_YET(tcgen_cp) NOT_YET(tcgen_shift) NOT_YET(tcgen_commit) NOT_YET(tcgen_fence)
NOT_YET(tcgen_mma) NOT_YET(tcgen_mma_sp) NOT_YET(tcgen_mma_ws) NOT_YET(clc_try_cancel) NOT_YET(clc_query)
