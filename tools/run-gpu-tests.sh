#!/bin/sh
# run-gpu-tests.sh OUT -- the tests that need a GPU, from a build folder or from the unpacked bundle. Nothing but the CUDA
# driver is needed. Nonzero if anything failed.
set -u
out=$1
tools=$(dirname "$0")
"$out/bin/ptxmm" devices || { echo "test-gpu needs a GPU and its driver (libcuda.so.1)" >&2; exit 1; }
verify=$(mktemp --suffix=.sh)
trap 'rm -f "$verify"' EXIT
printf '"%s" verify --quick && echo "ok verify" || echo "not ok verify"\n' "$out/bin/ptxmm" > "$verify"
"$tools/run-tests.sh" "sh $verify" "env PTXMM_DRIVER=${PTXMM_DRIVER:-libcuda.so.1} $out/tests/ptx_run" "$out/tests/kernels" \
    "$out/tests/compare_drivers"
