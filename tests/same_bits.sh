#!/bin/sh
# The Blackwell kernels give the bits of the Hopper kernel on the emulator: both add K in steps of 16 in the same order, and the model of
# tcgen05.mma's arithmetic for 16-bit inputs is that of wgmma, which was held against an H200 (docs/numerics.md).
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
if [ ! -e "$out/lib/libptxmm_emulator.so" ]; then
    echo "skip same_bits: there is no emulator"
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { # run FILE ARCH KERNEL M N K TYPE OUT
    "$out/bin/ptxmm" run --driver emulator --arch "$2" --kernel "$3" --m "$4" --n "$5" --k "$6" --type "$7" --out-type "$8" \
        --seed 7 --out "$dir/$1" > "$dir/said" 2>&1 || { echo "not ok same_bits/$3: does not run"; cat "$dir/said"; }
}
for size in "300 300 200" "64 40 1000"; do
    set -- $size
    for types in "bf16 bf16" "bf16 f32" "f16 f16" "f16 f32"; do
        type=${types% *} to=${types#* }
        [ "$to" = f32 ] && f32=_f32 || f32=
        run hopper.npy sm90 "sm90_gemm_${type}${f32}_128x256" "$1" "$2" "$3" "$type" "$to"
        for kernel in 128x256 128x256_clc 256x256_2x1 256x256_2x1_clc; do
            rm -f "$dir/blackwell.npy"
            run blackwell.npy sm100 "sm100_gemm_16bit${f32}_$kernel" "$1" "$2" "$3" "$type" "$to"
            name="same_bits/$type-$to-$kernel-$1x$2x$3"
            cmp -s "$dir/hopper.npy" "$dir/blackwell.npy" && echo "ok $name" || echo "not ok $name: the bits differ"
        done
    done
done
