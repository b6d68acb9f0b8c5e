#!/bin/sh
# The strict rules notice when a kernel leaves out all of one kind of fence, wait or signal: each kernel below runs once as it
# is, and once for each kind with every such instruction deleted, which must end in the trap named. Deleting one of several may
# be harmless (two fences in a row, a barrier that another follows); deleting all is not. Blackwell's first, then Hopper kernels
# whose CTAs send to each other, and wait for one another, and one whose ring the launch makes short.
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

launch= # as options of ptxmm run
hopper() { # hopper M N K: the text in $dir, 0 if it is right
    rm -f "$dir/report"
    PTXMM_PTX_DIR=$dir PTXMM_EMU_RULES=strict PTXMM_EMU_REPORT=$dir/report \
        "$out/bin/ptxmm" run --driver emulator --type bf16 --kernel $kernel --m "$1" --n "$2" --k "$3" $launch > "$dir/said" 2>&1
}
hopper_mutant() { # hopper_mutant NAME KIND SED M N K: the text changed by SED
    sed -E "$3" "$out/ptx/$kernel.ptx" > "$dir/$kernel.ptx"
    name=mutants/$kernel-$1
    if cmp -s "$out/ptx/$kernel.ptx" "$dir/$kernel.ptx"; then
        echo "not ok $name: nothing to change"
    elif hopper "$4" "$5" "$6"; then
        echo "not ok $name: nothing noticed"
    elif grep -Eq "^ *$2: " "$dir/report"; then
        echo "ok $name"
    else
        echo "not ok $name: another trap than $2"
        cat "$dir/report" "$dir/said" | head -5
    fi
}
delete='(@!?[a-z_]+ +)?'
shared='640 640 1000' # clusters of several tiles, a K longer than the ring
in_groups='128 160 8192'
for kernel in sm90_gemm_bf16_128x80_multicast sm90_gemm_bf16_128x256_multicast; do
    cp "$out/ptx/$kernel.ptx" "$dir"
    for size in "$shared" "$in_groups"; do
        hopper $size && echo "ok mutants/$kernel-$(echo $size | tr ' ' x)" || { echo "not ok mutants/$kernel: wrong as it is"; head "$dir/said"; }
    done
    hopper_mutant arrivals_nobody_waits_for DEAD_TARGET 's/add\.u32 +refilled, count, -\(?[0-9]+\)?;/add.u32 refilled, count, 0;/' $shared
    hopper_mutant far_arrivals DEADLOCK "s/${delete}mbarrier\.arrive\.shared::cluster[^;]*;//g" $shared
    hopper_mutant expected_bytes DEADLOCK 's/mbarrier\.arrive\.expect_tx[^;]*;//g' $shared
    hopper_mutant cluster_wait MBARRIER 's/barrier\.cluster\.wait[^;]*;//g' $shared
    hopper_mutant bulk_wait EXIT_PENDING "s/${delete}cp\.async\.bulk\.wait_group[^;]*;//g" $shared
    hopper_mutant proxy_fence PROXY 's/fence\.proxy\.async[^;]*;//g' $shared
    hopper_mutant group_count LIVELOCK "s/${delete}red\.release\.gpu[^;]*;//g" $in_groups
done
hopper_mutant registers_kept DEADLOCK 's/setmaxnreg\.dec[^;]*;//' $in_groups # of the last, whose consumers need them

kernel=sm90_gemm_bf16_8x64_split launch='--stages 5 --cluster 1 --constant b' long='3 300 1500' # a ring of less than the row has
cp "$out/ptx/$kernel.ptx" "$dir"
hopper $long && echo "ok mutants/$kernel" || { echo "not ok mutants/$kernel: wrong as it is"; head "$dir/said"; }
hopper_mutant longest_ring BOUNDS 's/min\.u32 +slots, slots, [^;]*;/mov.u32 slots, 17;/' $long
hopper_mutant ring_of_one_more BOUNDS 's/(min\.u32 +slots, slots, [^;]*;)/\1 add.u32 slots, slots, 1;/' $long
hopper_mutant refilled_too_soon MBARRIER 's/mbarrier\.try_wait\.parity\.shared::cta\.b64 done_, \[empty\], parity;/setp.eq.u32 done_, 0, 0;/' $long
