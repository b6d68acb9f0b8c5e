// A program as people write it, for tests/nvcc.sh: templates, variables, dynamic shared memory, a cluster, a library class.
#include <cstdio>
#include <cuda_fp16.h>
#include <cooperative_groups.h>

#define CHECK(call)                                                                     \
    do {                                                                                \
        const cudaError_t error = call;                                                 \
        if (error != cudaSuccess) {                                                     \
            printf("not ok %s: %s\n", #call, cudaGetErrorString(error));                \
            return 1;                                                                   \
        }                                                                               \
    } while (0)

__constant__ float weights[4];
__device__ unsigned long long calls;

template <typename T> __global__ void weighted(const T *in, float *out, int n)
{
    extern __shared__ float part[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? static_cast<float>(in[i]) * weights[i % 4] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = part[0];
        atomicAdd(&calls, 1ull);
        if (blockIdx.x == 0)
            printf("ok printf\n");
    }
}

__global__ void __cluster_dims__(4, 1, 1) ranks(unsigned *out)
{
    const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    __shared__ unsigned mine;
    if (threadIdx.x == 0)
        mine = 10 * blockIdx.x;
    cluster.sync();
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    if (threadIdx.x == 0)
        out[blockIdx.x] = *cluster.map_shared_rank(&mine, next);
    cluster.sync();
}

// Every CTA adds up what all have written before the grid-wide barrier.
__global__ void rounds(unsigned *values, unsigned *out)
{
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    for (unsigned round = 1; round <= 3; round++) {
        if (threadIdx.x == 0)
            values[blockIdx.x] = round * blockIdx.x;
        grid.sync();
        unsigned sum = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            sum += values[i];
        if (threadIdx.x == 0)
            out[blockIdx.x] += sum;
        grid.sync();
    }
}

template <typename T> int sums()
{
    const int n = 1000, threads = 128, blocks = (n + threads - 1) / threads;
    T host[n], *in;
    float result[blocks], *out;
    for (int i = 0; i < n; i++)
        host[i] = static_cast<T>(i % 13 - 6);
    CHECK(cudaMalloc(&in, sizeof host));
    CHECK(cudaMalloc(&out, sizeof result));
    CHECK(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
    weighted<<<blocks, threads, threads * sizeof(float)>>>(in, out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(result, out, sizeof result, cudaMemcpyDeviceToHost));
    for (int b = 0; b < blocks; b++) {
        float sum = 0;
        for (int i = b * threads; i < (b + 1) * threads && i < n; i++)
            sum += static_cast<float>(i % 13 - 6) * static_cast<float>(1 + i % 4);
        if (sum != result[b]) {
            printf("not ok sum of block %d: %g, not %g\n", b, result[b], sum);
            return 1;
        }
    }
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
    printf("ok sums of %d bytes\n", static_cast<int>(sizeof(T)));
    return 0;
}

int main()
{
    const float host[4] = {1, 2, 3, 4};
    CHECK(cudaMemcpyToSymbol(weights, host, sizeof host));
    if (sums<float>() || sums<double>() || sums<__half>())
        return 1;
    unsigned long long count = 0;
    CHECK(cudaMemcpyFromSymbol(&count, calls, sizeof count));
    printf("%s variable\n", count == 24 ? "ok" : "not ok");

    unsigned *out, result[8];
    CHECK(cudaMalloc(&out, sizeof result));
    ranks<<<8, 32>>>(out);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(result, out, sizeof result, cudaMemcpyDeviceToHost));
    bool right = true;
    for (unsigned i = 0; i < 8; i++)
        right = right && result[i] == 10 * (i / 4 * 4 + (i + 1) % 4);
    printf("%s clusters\n", right ? "ok" : "not ok");

    unsigned *values, *totals;
    CHECK(cudaMallocManaged(&values, 40 * sizeof *values));
    CHECK(cudaMallocManaged(&totals, 40 * sizeof *totals));
    for (unsigned i = 0; i < 40; i++)
        totals[i] = i;
    void *args[] = {&values, &totals};
    CHECK(cudaLaunchCooperativeKernel((const void *)rounds, 40, 64, args, 0, 0));
    CHECK(cudaDeviceSynchronize());
    right = true;
    for (unsigned i = 0; i < 40; i++)
        right = right && totals[i] == i + (1 + 2 + 3) * (39 * 40 / 2);
    printf("%s grid barrier, managed memory\n", right ? "ok" : "not ok");
    CHECK(cudaFree(values));
    CHECK(cudaFree(totals));

    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, weighted<float>, 1024, 0));
    printf("%s occupancy\n", blocks == 2 ? "ok" : "not ok");
    weighted<float><<<1, 4096>>>(nullptr, nullptr, 0);
    printf("%s refusal\n", cudaGetLastError() == cudaErrorInvalidConfiguration ? "ok" : "not ok");
    return 0;
}
