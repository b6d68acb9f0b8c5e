#!/bin/sh
# run-gpu-tests.sh OUT -- the tests that need a GPU, from a build folder or from the unpacked bundle. Nothing but the CUDA
# driver is needed. Nonzero if anything failed.
set -u
out=$1
tools=$(dirname "$0")
"$out/bin/ptxmm" devices || { echo "test-gpu needs a GPU and its driver (libcuda.so.1)" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '#!/bin/sh\n"%s" verify --quick && echo "ok verify" || echo "not ok verify"\n' "$out/bin/ptxmm" > "$scratch/verify.sh"
chmod +x "$scratch/verify.sh"
set --
for program in "$out"/tests/lib_* "$out"/tests/cli_* "$out/tests/ptx_run" "$out/tests/kernels" "$out/tests/compare_drivers"; do
    [ -x "$program" ] && set -- "$@" "$program"
done
"$tools/run-tests.sh" "$scratch/verify.sh" "$@"
