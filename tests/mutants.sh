#!/bin/sh
# The strict rules notice when a kernel leaves out all of one kind of fence, wait or signal: each Blackwell kernel below runs once as it
# is, and once for each kind with every such instruction deleted, which must end in the trap named. Deleting one of several may
# be harmless (two fences in a row, a barrier that another follows); deleting all is not.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
if [ ! -e "$out/lib/emulator/libcuda.so.1" ] && [ ! -e "$out/lib/libptxmm_emulator.so" ]; then
    echo "skip mutants: there is no emulator"
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { # run KERNEL: the text in $dir, 0 if it is right
    PTXMM_PTX_DIR=$dir PTXMM_EMU_PART=b200 PTXMM_EMU_SMS=2 PTXMM_EMU_RULES=strict,mixed-16bit \
        "$out/tests/kernels" "sm100/${1#sm100_} many_tiles" > "$dir/said" 2>&1
}
mutant() { # mutant KERNEL KINDS PATTERN: deletes what matches up to its semicolon, guards included
    sed -E "s/(@!?[a-z_]+ +)?$3[^;]*;//g" "$out/ptx/$1.ptx" > "$dir/$1.ptx"
    name="mutants/$1-$(echo "$3" | tr -d '\\')"
    if cmp -s "$out/ptx/$1.ptx" "$dir/$1.ptx"; then
        echo "not ok $name: nothing to delete"
    elif run "$1"; then
        echo "not ok $name: nothing noticed"
    elif grep -Eq "^ *($2): " "$dir/said"; then
        echo "ok $name"
    else
        echo "not ok $name: another trap than $2"
        grep -E "^ *[A-Z_]+: " "$dir/said" | head -3
    fi
}
for kernel in sm100_gemm_16bit_128x256 sm100_gemm_16bit_f32_128x256_clc sm100_gemm_16bit_256x256_2x1 sm100_gemm_16bit_256x256_2x1_clc; do
    cp "$out/ptx/$kernel.ptx" "$dir"
    run $kernel && echo "ok mutants/$kernel" || { echo "not ok mutants/$kernel: wrong as it is"; head -20 "$dir/said"; }
    mutant $kernel FENCE 'tcgen05\.fence::before_thread_sync'
    mutant $kernel FENCE 'tcgen05\.fence::after_thread_sync'
    mutant $kernel PENDING 'tcgen05\.wait::ld'
    mutant $kernel PROXY 'fence\.proxy\.async\.shared::cta'
    mutant $kernel EXIT_PENDING 'cp\.async\.bulk\.wait_group'
    mutant $kernel 'DEADLOCK|EXIT_PENDING|FENCE' 'tcgen05\.commit'
    mutant $kernel 'TENSOR_MEMORY|PENDING' 'tcgen05\.dealloc'
    mutant $kernel 'UNDEFINED|BOUNDS|TENSOR_MEMORY' 'tcgen05\.alloc'
    mutant $kernel INSTRUCTION 'tcgen05\.mma'
    mutant $kernel 'MBARRIER|MBARRIER_TX|DEADLOCK|PHASE' 'mbarrier\.arrive\.expect_tx'
    rm "$dir/$kernel.ptx"
done
