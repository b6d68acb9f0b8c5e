#!/bin/sh
# A program on the runtime API, compiled by nvcc, on the emulator: its device code comes as PTX, its runtime is ours.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
nvcc=$(command -v nvcc || echo "${PTXAS%/*}/nvcc")
if [ ! -e "$out/lib/emulator/libcudart.so.13" ]; then echo "skip nvcc: the runtime was not built"; exit; fi
case $out in */san | */tsan) echo "skip nvcc: sanitizers want to be loaded first"; exit ;; esac
if [ ! -x "$nvcc" ] || ! command -v g++ > /dev/null; then echo "skip nvcc: no nvcc or no g++ here"; exit; fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$nvcc" -cudart shared -gencode arch=compute_90,code=compute_90 -o "$dir/program" tests/data/runtime.cu \
    > "$dir/said" 2>&1 || { echo "not ok nvcc/compile"; cat "$dir/said"; exit; }
for policy in early late random; do
    LD_LIBRARY_PATH=$out/lib/emulator PTXMM_EMU_POLICY=$policy PTXMM_EMU_REPORT=- "$dir/program" > "$dir/said" 2>&1
    [ $? = 0 ] && [ "$(grep -c '^ok ' "$dir/said")" = 11 ] && ! grep -q '^not ok' "$dir/said" && echo "ok nvcc/$policy" ||
        { echo "not ok nvcc/$policy"; cat "$dir/said"; }
done
