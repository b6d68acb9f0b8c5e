// Functions: what can be asked about them, and set.
#include "driver.h"

#include "program.h"

void func_init(struct func *f, struct image *image, struct module *module,
               const struct function *function)
{
    f->image = image;
    f->module = module;
    f->function = function;
    f->carveout = -1;
    f->max_dynamic_smem = function->static_smem < 49152 ? 49152 - (int)function->static_smem : 0;
    for (int i = 0; i < 3; i++)
        f->cluster[i] = function->reqnctapercluster[i];
    f->cluster_fixed = f->cluster[0] != 0;
}

unsigned func_smem_most(void)
{
    struct machine_limits limits;
    machine_limits(&driver.config.machine, &limits);
    return limits.smem_cta;
}

static unsigned product(const uint32_t v[3])
{
    return v[0] * (v[1] ? v[1] : 1) * (v[2] ? v[2] : 1);
}

unsigned func_threads_most(const struct func *f)
{
    const unsigned most = product(f->function->maxntid);
    return most && most < 1024 ? most : 1024;
}

static int constant_bytes(const struct program *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->nsymbols; i++)
        if (p->symbols[i].space == SP_CONST)
            n += p->symbols[i].size;
    return (int)n;
}

CUresult func_get(const struct func *f, CUfunction_attribute attribute, int *value)
{
    const struct function *fn = f->function;
    const unsigned part = driver_part_is_b200() ? 100 : 90;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)func_threads_most(f);
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)fn->static_smem;
        break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = constant_bytes(f->image->program);
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)fn->max_frame;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = (int)machine_registers(f->image->program, fn, func_threads_most(f));
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = (int)part;
        break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->max_dynamic_smem;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = f->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = fn->explicitcluster;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = (int)f->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = f->nonportable_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = f->cluster_policy;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult func_set(struct func *f, CUfunction_attribute attribute, int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || f->function->static_smem + (unsigned)value > func_smem_most())
            return CUDA_ERROR_INVALID_VALUE;
        f->max_dynamic_smem = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        f->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (value < 0 || f->cluster_fixed)
            return CUDA_ERROR_INVALID_VALUE;
        f->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = (unsigned)value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        f->nonportable_cluster = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
            value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
            return CUDA_ERROR_INVALID_VALUE;
        f->cluster_policy = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult func_param(const struct func *f, size_t index, size_t *offset, size_t *size)
{
    if (!offset || index >= f->function->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->function->params[index].offset;
    if (size)
        *size = f->function->params[index].size;
    return CUDA_SUCCESS;
}

// ---- entry points -------------------------------------------------------------------------------

static CUresult get(CUfunction handle, CUfunction_attribute attribute, int *value)
{
    const struct func *f = handle_find(HANDLE_FUNCTION, handle);
    return f ? func_get(f, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    IN_HEALTHY(get(function, attribute, value));
}

static CUresult set(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct func *f = handle_find(HANDLE_FUNCTION, handle);
    return f ? func_set(f, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    IN_HEALTHY(set(function, attribute, value));
}

static CUresult preference(CUfunction handle, unsigned config, unsigned most)
{
    if (!handle_find(HANDLE_FUNCTION, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    return config > most ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    IN_HEALTHY(preference(function, (unsigned)config, CU_FUNC_CACHE_PREFER_EQUAL));
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    IN_HEALTHY(preference(function, (unsigned)config, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
}

static CUresult get_module(CUmodule *out, CUfunction handle)
{
    const struct func *f = handle_find(HANDLE_FUNCTION, handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = f->module->handle;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    IN_HEALTHY(get_module(module, function));
}

static CUresult get_name(const char **out, CUfunction handle)
{
    const struct func *f = handle_find(HANDLE_FUNCTION, handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = f->function->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    IN_HEALTHY(get_name(name, function));
}

static CUresult param_info(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    const struct func *f = handle_find(HANDLE_FUNCTION, handle);
    return f ? func_param(f, index, offset, size) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    IN_HEALTHY(param_info(function, index, offset, size));
}

CUresult cuFuncLoad(CUfunction function)
{
    IN_HEALTHY(handle_find(HANDLE_FUNCTION, function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult is_loaded(CUfunctionLoadingState *state, CUfunction handle)
{
    if (!handle_find(HANDLE_FUNCTION, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    IN_HEALTHY(is_loaded(state, function));
}
