#!/bin/sh
# The build refuses what it must refuse: bad kernels, bad rows, a pack that is too large. Each case is fed to the tool that make
# uses, which has to fail and to name the place.
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# expect_refusal NAME WORDS COMMAND...: the command fails and says WORDS, a regular expression.
expect_refusal() {
    case=$1 words=$2
    shift 2
    if "$@" > "$dir/said" 2>&1; then echo "not ok $case: was accepted"
    elif ! grep -q "$words" "$dir/said"; then echo "not ok $case: said no \"$words\" but:"; cat "$dir/said"
    else echo "ok $case"; fi
}

kernel() { # kernel < BODY: a kernel with that body, as cpp would hand it over, lines counted from the body's first
    printf '.version 8.6\n.target sm_90a\n.address_size 64\n'
    printf '.visible .entry probe(.param .u64 args) .maxntid 384 %s {\n# 1 "probe.ptx"\n' "$1"
    cat
    echo 'ret; }'
}
assemble() { tools/assemble.sh "$PTXAS" sm_90a "$dir/$1.i" "$dir/$1.cubin"; }

if [ -z "$PTXAS" ]; then
    echo "skip gate/ptxas: no ptxas here"
else
    { echo '.reg .u64 p; .reg .f32 f<260>; ld.param.u64 p, [args];'
      for i in $(seq 0 255); do echo "ld.volatile.global.f32 f$i, [p + 4 * $i];"; done
      for i in $(seq 0 255); do echo "st.volatile.global.f32 [p + 4 * $i], f$i;"; done; } | kernel > "$dir/spill.i"
    expect_refusal gate/spill 'spill.i:4: .visible .entry probe' assemble spill
    [ -e "$dir/spill.cubin" ] && echo "not ok gate/leaves_no_cubin" || echo "ok gate/leaves_no_cubin"

    kernel > "$dir/stack.i" <<'EOF'
.local .align 8 .b8 place[16]; .reg .u64 p, q;
ld.param.u64 p, [args];
mov.u64 q, place; cvta.local.u64 q, q; st.global.u64 [p], q;
EOF
    expect_refusal gate/stack_frame '16 bytes stack frame' assemble stack

    kernel > "$dir/setmaxnreg.i" <<'EOF'
.reg .u64 p; ld.param.u64 p, [args];
setmaxnreg.dec.sync.aligned.u32 40;
st.global.u64 [p], p;
EOF
    expect_refusal gate/setmaxnreg_ignored "C7508.*'setmaxnreg' ignored" assemble setmaxnreg

    # An accumulator that is read while its group is in flight: ptxas puts a wait there, or serializes, and says so by line.
    kernel '.minnctapersm 1' > "$dir/early.i" <<'EOF'
.reg .u64 p; .reg .f32 f<4>; ld.param.u64 p, [args];
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, p, p, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
add.f32 f0, f0, f1;
wgmma.wait_group.sync.aligned 0;
st.global.f32 [p], f0;
EOF
    expect_refusal gate/wait_injected 'probe.ptx:5: add.f32 f0, f0, f1' assemble early

    # A group left in flight across the back-edge of a loop that reads its accumulator.
    kernel '.minnctapersm 1' > "$dir/serial.i" <<'EOF'
.reg .u64 p; .reg .u32 i; .reg .pred more; .reg .f32 f<4>, s<4>;
ld.param.u64 p, [args];
mov.u32 i, 0; mov.f32 s0, 0f00000000; mov.f32 s1, s0; mov.f32 s2, s0; mov.f32 s3, s0;
mov.f32 f0, s0; mov.f32 f1, s0; mov.f32 f2, s0; mov.f32 f3, s0;
again:
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, p, p, 1, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {s0, s1, s2, s3}, p, p, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1;
add.f32 f0, f0, s0; add.f32 f1, f1, s1; add.f32 f2, f2, s2; add.f32 f3, f3, s3;
add.u32 i, i, 1; setp.lt.u32 more, i, 100;
@more bra again;
wgmma.wait_group.sync.aligned 0;
st.global.v4.f32 [p], {f0, f1, f2, f3};
EOF
    expect_refusal gate/serialized 'C7514' assemble serial

    echo 'nonsense;' | kernel > "$dir/syntax.i"
    expect_refusal gate/syntax 'probe.ptx:1: nonsense' assemble syntax

    echo 'exit;' | kernel > "$dir/good.i"
    assemble good && [ -s "$dir/good.cubin" ] && echo "ok gate/accepts_a_good_kernel" || echo "not ok gate/accepts_a_good_kernel"
fi

# A row whose numbers disagree with its source: the source refuses. One row of each source stands for all.
make -s build/gen/kernels.mk
sources=
for row in build/gen/*.row; do
    name=$(basename "$row" .row)
    source=$(sed -n "s/^SOURCE_$name := //p" build/gen/kernels.mk)
    [ -e "$source" ] || continue
    case $sources in *" $source "*) continue ;; *) sources="$sources $source " ;; esac
    for change in BM BN BK STAGES THREADS CLUSTER SMEM; do
        awk -F= -v change="-D$change" '$1 == change { print $1 "=" $2 + 32; next } { print }' "$row" > "$dir/bad.row"
        expect_refusal "gate/row/$name/$change" '#error' ${CC:-gcc} -E -undef -nostdinc -x assembler-with-cpp -Wall -Wundef -Werror \
            -Iptx/common "-I$(dirname "$source")" "@$dir/bad.row" -o "$dir/bad.i" "$source"
    done
done

# kernels.def itself.
rows() { printf '%b\n' "$1" > "$dir/kernels.def"; tools/rows.sh "$dir/kernels.def" "$dir/rows"; }
good=$(grep -m 1 '^KERNEL' ptx/kernels.def | tr -d ' ')
name=$(echo "$good" | awk -F'[(,]' '{ print "sm" $2 "_" $5 }')
width=$(echo "$good" | awk -F, '{ print NF }')
rows "$good" && grep -q "KERNELS := $name\$" "$dir/rows/kernels.mk" && echo "ok gate/def/good" || echo "not ok gate/def/good"
expect_refusal gate/def/columns "kernels.def:2: a row has $width columns, this one has $((width - 1))" rows "$good\n${good%,*})"
expect_refusal gate/def/twice "kernels.def:2: $name is already in line 1" rows "$good\n$good"
expect_refusal gate/def/number "column $width must be a positive number, it is \"many\"" rows "${good%,*},many)"
expect_refusal gate/def/word 'column 2 must be a lower-case word, it is "7"' rows "$(echo "$good" | sed 's/,[af],/,7,/')"
expect_refusal gate/def/split 'a row is KERNEL(...) on one line' rows "KERNEL(90, a,\ngemm)"
expect_refusal gate/def/empty 'there is no row' rows ''

# The budget.
mkdir "$dir/pack"
head -c 600000 /dev/zero > "$dir/pack/sm90_a.cubin"
head -c 600000 /dev/zero > "$dir/pack/sm90_b.cubin"
head -c 600000 /dev/zero > "$dir/pack/sm100_c.cubin"
expect_refusal gate/budget/sm90 'the sm90 cubins take 1.20 MB, their budget is 1 MB' tools/pack.sh 1 60 "$dir"/pack/*.cubin
expect_refusal gate/budget/all 'the cubins take 1.80 MB, their budget is 1.5 MB' tools/pack.sh 1.3 1.5 "$dir"/pack/*.cubin
tools/pack.sh 25 60 "$dir"/pack/*.cubin > "$dir/hashes.h" && [ "$(grep -c '^#define SHA256_sm[0-9a-z_]* "[0-9a-f]\{64\}"$' "$dir/hashes.h")" = 3 ] \
    && echo "ok gate/budget/kept" || echo "not ok gate/budget/kept"
