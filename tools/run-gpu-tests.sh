#!/bin/sh
# run-gpu-tests.sh [ROOT] -- the tests that need a GPU, from a build folder or from the unpacked bundle (where this script
# lies in its root and is called without argument). Nothing but the CUDA driver is needed. Nonzero if anything failed.
set -u
root=${1:-$(cd "$(dirname "$0")" && pwd)}
"$root/bin/ptxmm" devices || { echo "test-gpu needs a GPU and its driver (libcuda.so.1)" >&2; exit 1; }
runner=$root/run-tests.sh
[ -e "$runner" ] || runner=$(dirname "$0")/run-tests.sh
verify=$(mktemp)
trap 'rm -f "$verify"' EXIT
printf '#!/bin/sh\n"%s" verify --quick && echo "ok verify --quick" || echo "not ok verify --quick"\n' "$root/bin/ptxmm" > "$verify"
chmod +x "$verify"
set --
for program in "$root"/tests/kernels "$root"/tests/ptx_run "$root"/tests/compare_drivers "$root"/tests/cli_* "$root"/tests/lib_*; do
    [ -x "$program" ] && set -- "$@" "$program"
done
"$runner" "$@" "$verify"
