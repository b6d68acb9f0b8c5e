#!/bin/sh
# The C programs of docs/embedding.md compile without a warning; the first runs, on the emulator, where that is built.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk -v to="$dir/" '/^```c$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > (to n ".c") }' docs/embedding.md
for n in 1 2; do
    if ${CC:-gcc} -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude ${CUDA_INC:+-isystem "$CUDA_INC"} -c "$dir/$n.c" -o "$dir/$n.o" \
        > "$dir/said" 2>&1; then echo "ok embedding/compiles/$n"; else echo "not ok embedding/compiles/$n"; cat "$dir/said"; fi
done
emulator=$(ls "$out/lib/libptxmm_emulator.so" 2> /dev/null)
case $out in build) ;; *) echo "skip embedding/runs: only without sanitizers"; exit 0 ;; esac
[ "$emulator" ] || { echo "skip embedding/runs: there is no emulator"; exit 0; }
${CC:-gcc} "$dir/1.o" "$out/lib/libptxmm.a" "$emulator" -o "$dir/1" > "$dir/said" 2>&1 &&
    LD_LIBRARY_PATH=$out/lib PTXMM_DRIVER=$emulator PTXMM_PTX_DIR=build/ptx "$dir/1" > "$dir/said" 2>&1 && grep -q ': right$' "$dir/said" &&
    echo "ok embedding/runs" || { echo "not ok embedding/runs"; cat "$dir/said"; }
