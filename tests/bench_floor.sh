#!/bin/sh
# ptxmm-bench --floor: the kernels that only read and write are counted right and stand in all outputs; and the check before the timing
# notices kernels that leave something out, read something twice, go too far, or leave their counter behind.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ok() { echo "ok floor/$1"; }
not_ok() { echo "not ok floor/$1"; shift; cat "$@"; }

if [ -z "$PTXAS" ]; then
    echo "skip floor/assembles: no ptxas here"
else # without a spill; the bench leaves it to the driver
    for arch in sm_90 sm_100a; do
        if tools/assemble.sh "$PTXAS" "$arch" build/gen/floor.ptx "$dir/floor.cubin" > "$dir/said" 2>&1; then ok "assembles_$arch"; else not_ok "assembles_$arch" "$dir/said"; fi
    done
fi
if [ ! -e "$out/lib/libptxmm_emulator.so" ]; then
    echo "skip floor: there is no emulator"
    exit
fi
export PTXMM_PTX_DIR="$out/ptx" PTXMM_EMU_RULES=strict
timed() { # timed OPTIONS...
    "$out/bin/ptxmm-bench" --driver "$out/lib/libptxmm_emulator.so" --quick --no-host-time --json "$dir/run.json" "$@" > "$dir/said" 2> "$dir/why"
}

# Rows of 1004 elements are 1008 apart, and the whole buffer counts: 5 x 1008 + 1000 x 1008 + 5 x 1000 elements of 2 bytes.
timed --floor --protocol all --shape 5x1000x1004
status=$?
tr -d '\n' < "$dir/run.json" | sed 's/"samples_us": \[[^]]*\]/"samples_us": 1/g; s/"trial_us": {[^}]*}/"trial_us": 1/g' | grep -o '"floor": {[^}]*}' > "$dir/floors"
if [ "$status" = 0 ] && [ "$(wc -l < "$dir/floors")" = 3 ] && [ "$(grep -c '"bytes": 2036080,' "$dir/floors")" = 3 ] &&
   [ "$(grep -Ec '"variant": "(loads|ring|claimed)_' "$dir/floors")" = 3 ] && [ "$(grep -c '"samples_us"' "$dir/floors")" = 3 ] &&
   [ "$(grep -c '"of_floor": [0-9]' "$dir/run.json")" = 3 ] &&
   # bytes over the median is what it says: us, GB/s
   sed 's/.*"median_us": \([0-9.]*\),.*"gb_per_s": \([0-9.]*\),.*/\1 \2/' "$dir/floors" |
       awk '{ r = 2036080 / $1 / 1e3 / $2; if (!(r > 0.999 && r < 1.001)) bad = 1; } END { exit bad || NR != 3 }'
then ok json; else not_ok json "$dir/said" "$dir/why" "$dir/floors"; fi
if grep -q 'floor us of floor' "$dir/said" && "$out/bin/ptxmm-bench" --markdown "$dir/run.json" > "$dir/tables" &&
   [ "$(grep -c '| x best of 8 | floor us | of floor | SM MHz |$' "$dir/tables")" = 3 ] &&
   awk -F'|' '/^\|/ && NF != 13 { bad = 1 } END { exit bad }' "$dir/tables"
then ok tables; else not_ok tables "$dir/said" "$dir/tables"; fi
timed --protocol pair --shape 5x1000x1004
if [ "$?" = 0 ] && ! grep -q floor "$dir/said" "$dir/run.json" && "$out/bin/ptxmm-bench" --markdown "$dir/run.json" > "$dir/tables" &&
   grep -q '| x best of 8 | SM MHz |$' "$dir/tables" && awk -F'|' '/^\|/ && NF != 11 { bad = 1 } END { exit bad }' "$dir/tables"
then ok not_asked; else not_ok not_asked "$dir/said" "$dir/tables"; fi

# Every variant reads and writes all, whichever operand may be read early: less than a piece, many pieces, several laps of the ring; few
# CTAs and many; in every order of events.
for policy in early late random; do
    bad=
    for constant in '' a b ab; do
        # shellcheck disable=SC2086
        PTXMM_EMU_POLICY=$policy timed --floor --protocol pair --shape 300x200x96 --shape 8x8x8 --shape 64x72x64x3 ${constant:+--constant $constant} &&
            PTXMM_EMU_POLICY=$policy PTXMM_EMU_SMS=2 timed --floor --protocol pair --shape 1x1000x1000 ${constant:+--constant $constant} || bad="$bad ${constant:-none}"
    done
    if [ -z "$bad" ]; then ok "all_read_$policy"; else echo "$bad" >> "$dir/why"; not_ok "all_read_$policy" "$dir/said" "$dir/why"; fi
done

# mutant NAME WORDS CHANGE: kernels with that change are refused with these words, and nothing is timed beside them.
mutant() {
    sed -E "$3" build/gen/floor.ptx > "$dir/floor.ptx"
    if cmp -s build/gen/floor.ptx "$dir/floor.ptx"; then
        echo "not ok floor/$1: nothing to change"
    elif PTXMM_EMU_SMS=2 timed --protocol pair --shape 1x1000x1000 --floor-ptx "$dir/floor.ptx"; then
        not_ok "$1" "$dir/said"
    elif grep -Eq "floor: $2" "$dir/said" && ! grep -q '"floor"' "$dir/run.json"; then
        ok "$1"
    else
        not_ok "$1" "$dir/said" "$dir/why"
    fi
}
mutant skips_units '(loads_.*|ring_.*): the words it read' 's/mul\.lo\.u32 +stride, ctas, threads;/& shl.b32 stride, stride, 1;/'
mutant skips_second 'loads_.*: the words it read' 's/add\.u32 +units, units, first_units;/max.u32 units, units, first_units;/'
mutant drops_last 'loads_.*: the words it read' 's/^ *xor\.b32 +x0, x0, rh0;//'
mutant reads_beyond 'cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS' 's/add\.u32 +units, units, first_units;/& add.u32 units, units, 1;/'
mutant skips_piece 'ring_.*: the words it read' 's/sub\.u64 +at, at, 1;/sub.u64 at, at, piece_bytes;/'
mutant short_pieces 'ring_.*: the words it read' 's/min\.u64 +left, left, piece_bytes;/sub.u64 left, left, 16; &/'
mutant reads_twice 'claimed_.*: the words it read' 's/mul\.lo\.u32 +claimed_from, copiers, slots;/mul.lo.u32 claimed_from, copiers, 2;/'
mutant passes_over 'claimed_.*: the words it read' 's/mul\.lo\.u32 +claimed_from, copiers, slots;/mul.lo.u32 claimed_from, copiers, 7;/'
mutant keeps_counter 'claimed_.*: its counter is left at' 's/st\.relaxed\.gpu\.global\.u32 +\[state\], 0;//'
mutant short_d 'loads_.*: byte 1984 of the 2000 of D was not written' 's/ld\.param\.u32 +units_, \[arg_d_units\];/& sub.u32 units_, units_, 1;/'
mutant long_d 'cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS' 's/ld\.param\.u32 +units_, \[arg_d_units\];/& add.u32 units_, units_, 1;/'

timed --protocol pair --shape 8x8x8 --floor-ptx "$dir/none.ptx"
if [ "$?" = 2 ] && grep -q 'none.ptx cannot be read' "$dir/why"; then ok no_file; else not_ok no_file "$dir/why"; fi
echo 'nothing' > "$dir/wrong.ptx"
timed --protocol pair --shape 8x8x8 --floor-ptx "$dir/wrong.ptx"
if [ "$?" = 2 ] && grep -q 'wrong.ptx: cuModuleLoadData' "$dir/why"; then ok wrong_file; else not_ok wrong_file "$dir/why"; fi
