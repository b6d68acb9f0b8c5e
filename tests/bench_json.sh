#!/bin/sh
# What ptxmm-bench makes of the files it wrote. --choose: the fastest of each product. --calibrate: times that are all a seventh longer than the model says are fitted, and nothing
# is taken that is no measurement. --chart: a bar for each shape, and names that are not XML do not break the picture.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# measured FACTOR DEVICE: a file as --json writes it, from the predictions of three products. Events add 2 us.
measured() {
    echo "{ \"schema\": 1, \"date\": \"2001-02-03T00:00:00Z\", \"device\": \"$2\", \"emulator\": false, \"results\": ["
    first=
    for size in '512 512 512' '4096 4096 1024' '64 8192 8192'; do
        set -- "$1" "$2" $size
        "$out/bin/ptxmm" plan --workspace 268435456 --m "$3" --n "$4" --k "$5" | awk -v factor="$1" -v m="$3" -v n="$4" -v k="$5" -v first="$first" '
            /^rejected/ { exit }
            /^sm90_/ { parts = split($8, over, "x"); groups = parts == 2 ? over[2] : /_split/ ? 1 : over[1] # K over cluster, cluster x groups, or groups
                       wide = split($9, tiles, "x") == 2 ? tiles[2] : 1 # rows x columns of a cluster, or its CTAs
                       printf "%s{ \"kernel\": \"%s\", \"out_type\": \"bf16\", \"m\": %d, \"n\": %d, \"k\": %d, \"cluster\": %d, \"cluster_rows\": %d, \"groups\": %d, \"pair\": { \"ours\": { \"median_us\": %.3f } } }\n",
                              first, $1, m, n, k, tiles[1] * wide, /_multicast/ ? tiles[1] : 1, groups, $2 * factor + 2; first = "," }'
        first=,
    done
    echo ']}'
}
fails() { # fails NAME FILE WORDS
    "$out/bin/ptxmm-bench" --calibrate "$2" > "$dir/said" 2>&1
    status=$?
    if [ "$status" = 2 ] && grep -q "$3" "$dir/said"; then echo "ok calibrate/$1"; else echo "not ok calibrate/$1: exit code $status"; cat "$dir/said"; fi
}
measured 1.143 'NVIDIA H200' > "$dir/times.json"
if "$out/bin/ptxmm-bench" --calibrate "$dir/times.json" > "$dir/fitted" 2> "$dir/progress" &&
   grep -q 'fitted to times of 2001-02-03' "$dir/fitted" &&
   # Behind "fitted:" each prediction (third word) is within 4 % of the measurement (fourth), before it was a seventh off.
   awk '/^fitted:/ { after = 1 } /^[0-9]+x/ { off = $3 / $4 - 1; off = off < 0 ? -off : off; n[after + 0]++; if (after ? off > 0.04 : off < 0.1) bad = 1 }
        END { exit bad || n[0] != 3 || n[1] != 3 }' "$dir/fitted"
then echo "ok calibrate/fits"; else echo "not ok calibrate/fits"; cat "$dir/fitted" "$dir/progress"; fi
measured 1 'NVIDIA H200' > "$dir/same.json"
if "$out/bin/ptxmm-bench" --calibrate "$dir/same.json" 2> /dev/null | awk '/ shapes: / { if ($6 > 0.01 || $10 > 0.1) bad = 1; n++ } END { exit bad || n != 2 }'
then echo "ok calibrate/nothing_to_gain"; else echo "not ok calibrate/nothing_to_gain"; "$out/bin/ptxmm-bench" --calibrate "$dir/same.json"; fi
# exact FACTOR SIZES...: exactly what the model says of each kernel, launched as it likes or as $launch says; a size is M,N,K or M,N,K,BATCH.
launch=
exact() {
    echo '{ "schema": 1, "date": "2001-02-03T00:00:00Z", "device": "NVIDIA H200", "emulator": false, "workspace_limit": 268435456, "results": ['
    factor=$1 first=; shift
    for size; do
        set -- $(echo "$size" | tr , ' ')
        "$out/bin/ptxmm" plan --workspace 268435456 --m "$1" --n "$2" --k "$3" ${4:+--batch "$4"} $launch --json | tr -d '",' | awk -v factor="$factor" -v m="$1" -v n="$2" -v k="$3" -v batch="${4:-1}" -v first="$first" '
            $1 == "kernel:" { kernel = $2 } $1 == "seconds:" { us = $2 * 1e6 * factor + 2 } $1 == "cluster:" { cluster = $2 } $1 == "cluster_rows:" { rows = $2 }
            $1 == "groups:" { printf "%s{ \"kernel\": \"%s\", \"out_type\": \"bf16\", \"m\": %d, \"n\": %d, \"k\": %d, \"batch\": %d, \"cluster\": %d, \"cluster_rows\": %d, \"groups\": %d, \"pair\": { \"ours\": { \"median_us\": %.6f } } }\n",
                              first, kernel, m, n, k, batch, cluster, rows, $2, us; first = "," }'
        first=,
    done
    echo ']}'
}
# The model is asked about the rows as they lay in memory, and about all matrices of a batch: its word is then the same as that of ptxmm plan.
exact 1 1000,1000,1001 300,4096,4099 64,8192,2052 2048,512,1032,12 > "$dir/rows.json"
if "$out/bin/ptxmm-bench" --judge "$dir/rows.json" | awk '/^[0-9]+x/ { n++; if ($3 != $4 || $2 != $5) bad = 1 } / shapes: / { if ($6 != 0 || $10 != 0) bad = 1; m++ } END { exit bad || n != 4 || m != 1 }'
then echo "ok calibrate/as_it_lay"; else echo "not ok calibrate/as_it_lay"; "$out/bin/ptxmm-bench" --judge "$dir/rows.json"; fi
# What is held out is judged by the constants that stand and by the fitted ones, and changes nothing of the fit.
exact 1.1 512,512,512 4096,4096,1024 64,8192,8192 256,2048,4096 > "$dir/slower.json"
"$out/bin/ptxmm-bench" --calibrate "$dir/slower.json" --descents 2 > "$dir/alone" 2> /dev/null
"$out/bin/ptxmm-bench" --calibrate "$dir/slower.json" --descents 2 --judge "$dir/rows.json" > "$dir/said" 2> "$dir/why"
if sed -n '/^    { .arch/,$p' "$dir/alone" > "$dir/fit" && [ -s "$dir/fit" ] && sed -n '/^    { .arch/,$p' "$dir/said" | cmp -s - "$dir/fit" && [ "$(grep -c 'descent' "$dir/why")" = 1 ] &&
   awk '/^judged by other/ { j = 1 } /^fitted:/ { j = 0 } /^fitted, judged/ { j = 2 } /^[0-9]+x/ { n[j + 0]++; if (j == 2 && $3 == $4) bad = 1; if (j == 1 && $3 != $4) bad = 1 } END { exit bad || n[0] != 8 || n[1] != 4 || n[2] != 4 }' "$dir/said"
then echo "ok calibrate/judge"; else echo "not ok calibrate/judge"; cat "$dir/said" "$dir/why"; fi
# A kernel in two launches is two points; in one launch the faster time counts.
awk '{ print } /_multicast/ && !n++ { sub(/^,/, ""); print "," $0 }' "$dir/slower.json" > "$dir/twice.json"
awk '{ print } /_multicast/ && !n++ { sub(/^,/, ""); sub(/"cluster": [0-9]+, "cluster_rows": [0-9]+, "groups": [0-9]+/, "\"cluster\": 8, \"cluster_rows\": 2, \"groups\": 1"); sub(/"median_us": [0-9.]+/, "\"median_us\": 2.5"); print "," $0 }' "$dir/slower.json" > "$dir/launches.json"
count() { "$out/bin/ptxmm-bench" --judge "$1" | sed -n 's/.*bits: \([0-9]*\) times/\1/p'; }
if [ "$(count "$dir/twice.json")" = "$(count "$dir/slower.json")" ] && [ "$(count "$dir/launches.json")" = $(($(count "$dir/slower.json") + 1)) ] &&
   "$out/bin/ptxmm-bench" --judge "$dir/launches.json" | grep -q '_multicast:2x4x1 *0.50 '
then echo "ok calibrate/launches"; else echo "not ok calibrate/launches"; "$out/bin/ptxmm-bench" --judge "$dir/launches.json"; fi
# Constants stay where they mean something: times that drive one beyond its bound, beside others that hold the rest, bring it close to it.
launch='--cluster 1' exact 1 4096,4096,1024 2048,2048,4096 > "$dir/one.json"
launch='--cluster 2 --cluster-rows 1' exact 3 4096,4096,1024 2048,2048,4096 > "$dir/pair_in_row.json"
launch='--cluster 2 --cluster-rows 2' exact 3 4096,4096,1024 2048,2048,4096 > "$dir/pair_in_column.json"
launch='--cluster 8' exact 6 2048,2048,8192 4096,4096,4096 > "$dir/larger_cluster.json"
exact 0.25 4096,4096,1028 4096,4096,1040 > "$dir/off_line.json"
exact 0.1 512,512,4100 > "$dir/off_sector.json"
exact 0.1 8192,8192,132 > "$dir/split_off_sector.json"
for bound in 'pair_in_row 0.6' 'pair_in_column 0.6' 'larger_cluster 0.6' 'off_line 1' 'off_sector 1' 'split_off_sector 1'; do
    set -- $bound
    "$out/bin/ptxmm-bench" --calibrate "$dir/one.json" --calibrate "$dir/$1.json" --descents 1 2> "$dir/why" > "$dir/said"
    if awk -F '[ =,]+' -v name=".$1" -v most="$2" '$2 == name { n++; if (!($3 > 0.97 * most && $3 <= most)) bad = 1 } END { exit bad || n != 1 }' "$dir/said"
    then echo "ok calibrate/bound_of_$1"; else echo "not ok calibrate/bound_of_$1"; cat "$dir/said" "$dir/why"; fi
done
measured 1 'NVIDIA B200' > "$dir/other.json"
echo '{ "schema": 2 }' > "$dir/schema.json"
echo '{ "schema": 1, "device": "NVIDIA H200", "results": [] }' > "$dir/empty.json"
fails other_gpu "$dir/other.json" "must be an H200's"
sed 's/"groups": [0-9]*, //' "$dir/same.json" > "$dir/ungrouped.json"
fails groups "$dir/ungrouped.json" '"cluster" or no "groups"'
fails schema "$dir/schema.json" '"schema" must be 1'
fails empty "$dir/empty.json" 'no result of the pair protocol'
fails missing "$dir/none.json" none.json
# What no kernel can have been timed with does not come near the model.
strange() { # strange NAME CHANGE WORDS
    sed "$2" "$dir/same.json" > "$dir/strange.json"
    fails "$1" "$dir/strange.json" "$3"
}
strange no_rows '2s/"m": 512/"m": 0/' 'a product that its kernel cannot multiply'
strange size_text '2s/"m": 512/"m": "512"/' 'a product that its kernel cannot multiply'
strange negative '2s/"n": 512/"n": -512/' 'a product that its kernel cannot multiply'
strange huge '2s/512/9223372036854775807/g' 'a product that its kernel cannot multiply'
strange types '2s/"out_type": "bf16"/"out_type": "f32"/' 'a product that its kernel cannot multiply'
strange architecture '2s/"kernel": "[^"]*"/"kernel": "sm100_gemm_16bit_128x256"/' 'a product that its kernel cannot multiply'
strange clusters '2s/"cluster": [0-9]*/"cluster": 1000000000/' 'more than 16 CTAs'
strange rows '2s/"cluster_rows": [0-9]*/"cluster_rows": 7/' '"cluster_rows" that are not'
strange many_groups '2s/"groups": [0-9]*/"groups": 9223372036854775807/' 'more than 64 "groups"'
strange few_stages '2s/"groups"/"stages": 2, "groups"/' '"stages" that are not from 4 to 64'
strange long '2s/"median_us": [0-9.]*/"median_us": 1e300/' 'longer than 1000 s'
strange short '2s/"median_us": [0-9.]*/"median_us": 0/' 'not longer than the events'

cat > "$dir/timed.json" <<'EOF'
{ "schema": 1, "device": "NVIDIA H200", "results": [
  { "shape": "x", "m": 8, "n": 64, "k": 128, "batch": 1, "type": "bf16", "out_type": "bf16", "kernel": "slow", "pair": { "ours": { "median_us": 5 } } },
  { "shape": "x", "m": 8, "n": 64, "k": 128, "batch": 1, "type": "bf16", "out_type": "bf16", "kernel": "quick", "pair": { "ours": { "median_us": 4.5 } } },
  { "shape": "x", "m": 8, "n": 64, "k": 128, "batch": 1, "type": "bf16", "out_type": "bf16", "kernel": "wrong", "failed": "it differs" },
  { "shape": "x", "m": 8, "n": 64, "k": 128, "batch": 1, "type": "e4m3", "b_type": "e5m2", "accumulate": "fast", "out_type": "bf16", "kernel": "other", "pair": { "ours": { "median_us": 3 } } } ] }
EOF
sed 's/"quick"/"quickest"/; s/4\.5/4.25/' "$dir/timed.json" > "$dir/again.json"
"$out/bin/ptxmm-bench" --choose "$dir/timed.json" --choose "$dir/again.json" > "$dir/choices.json" &&
   tr -d ' \n' < "$dir/choices.json" > "$dir/said"; echo >> "$dir/said"
if [ "$(grep -o '"kernel"' "$dir/said" | wc -l)" = 2 ] && grep -q '"a":"bf16","b":"bf16","d":"bf16","accumulate":"default","kernel":"quickest","us":4.25' "$dir/said" &&
   grep -q '"a":"e4m3","b":"e5m2","d":"bf16","accumulate":"fast","kernel":"other"' "$dir/said"
then echo "ok choose/fastest"; else echo "not ok choose/fastest"; cat "$dir/said"; fi
refuses() { # refuses NAME FILE WORDS
    "$out/bin/ptxmm-bench" --choose "$2" > "$dir/said" 2> "$dir/why"
    status=$?
    if [ "$status" = 2 ] && [ ! -s "$dir/said" ] && grep -q "$3" "$dir/why"; then echo "ok choose/$1"; else echo "not ok choose/$1: exit code $status"; cat "$dir/said" "$dir/why"; fi
}
sed 's/"device"/"emulator": true, "device"/' "$dir/timed.json" > "$dir/emulated.json"
# What is the same product to the library is one choice: a batch of 0 is 1, and of 16-bit types there is one accumulation.
sed 's/"batch": 1, "type": "bf16"/"batch": 0, "type": "bf16", "accumulate": "fast"/; s/4\.5/4.125/' "$dir/timed.json" > "$dir/equal.json"
"$out/bin/ptxmm-bench" --choose "$dir/equal.json" --choose "$dir/timed.json" | tr -d ' \n' > "$dir/said"
if [ "$(grep -o '"kernel"' "$dir/said" | wc -l)" = 2 ] && grep -q '"batch":1,"a":"bf16","b":"bf16","d":"bf16","accumulate":"default","kernel":"quick","us":4.125' "$dir/said"
then echo "ok choose/same_product"; else echo "not ok choose/same_product"; cat "$dir/said"; fi
# How it was launched goes with a kernel that can be launched in several ways, and with no other; ptxmm-bench itself takes what comes out.
cat > "$dir/launched.json" <<'EOF'
{ "schema": 1, "device": "NVIDIA H200", "results": [
  { "m": 8, "n": 64, "k": 128, "type": "bf16", "out_type": "bf16", "kernel": "sm90_gemm_bf16_128x64_multicast", "cluster": 4, "cluster_rows": 2, "groups": 1, "pair": { "ours": { "median_us": 5 } } },
  { "m": 8, "n": 64, "k": 128, "type": "bf16", "out_type": "bf16", "kernel": "sm90_gemm_bf16_128x64_multicast", "cluster": 2, "cluster_rows": 1, "groups": 2, "pair": { "ours": { "median_us": 4 } } },
  { "m": 8, "n": 128, "k": 128, "type": "bf16", "out_type": "bf16", "kernel": "sm90_gemm_bf16_8x64_split", "cluster": 2, "groups": 1, "pair": { "ours": { "median_us": 4 } } },
  { "m": 8, "n": 256, "k": 128, "type": "bf16", "out_type": "bf16", "kernel": "sm90_gemm_bf16_128x64", "cluster": 1, "cluster_rows": 1, "groups": 1, "pair": { "ours": { "median_us": 4 } } } ] }
EOF
"$out/bin/ptxmm-bench" --choose "$dir/launched.json" > "$dir/choices.json" && tr -d ' \n' < "$dir/choices.json" > "$dir/said"; echo >> "$dir/said"
if grep -q '"kernel":"sm90_gemm_bf16_128x64_multicast","cluster":2,"cluster_rows":1,"groups":2,"us":4,' "$dir/said" &&
   grep -q '"kernel":"sm90_gemm_bf16_8x64_split","cluster":2,"groups":1,"us":4,' "$dir/said" && grep -q '"kernel":"sm90_gemm_bf16_128x64","us":4,' "$dir/said"
then echo "ok choose/launch"; else echo "not ok choose/launch"; cat "$dir/said"; fi
# Many products take no longer than it takes to read them.
awk 'BEGIN { printf "{ \"schema\": 1, \"device\": \"NVIDIA H200\", \"results\": ["
             for (m = 1; m <= 60000; m++) printf "%s{ \"m\": %d, \"n\": 8, \"k\": 8, \"type\": \"f16\", \"out_type\": \"f16\", \"kernel\": \"k\", \"pair\": { \"ours\": { \"median_us\": 5 } } }", (m > 1 ? "," : ""), m
             print "]}" }' > "$dir/many.json"
if [ "$(timeout 20 "$out/bin/ptxmm-bench" --choose "$dir/many.json" | grep -c '"kernel"')" = 60000 ]; then echo "ok choose/many"; else echo "not ok choose/many"; fi
# What no reader of choices would take is not written.
spoilt() { # spoilt NAME CHANGE WORDS
    sed "$2" "$dir/timed.json" > "$dir/spoilt.json"
    refuses "$1" "$dir/spoilt.json" "results\[1\] makes no choice: $3"
}
spoilt size '3s/"m": 8/"m": 8.5/' 'm must be a whole number'
spoilt type '3s/"type": "bf16"/"type": "s8"/' 'a must be bf16'
spoilt kernel '3s/"kernel": "quick"/"kernel": null/' 'kernel must be a name'
spoilt time '3s/4\.5/0/' 'median_us must be more than 0'
spoilt_launch() { # spoilt_launch NAME CHANGE WORDS
    sed "$2" "$dir/launched.json" > "$dir/spoilt.json"
    refuses "$1" "$dir/spoilt.json" "results\[0\] makes no choice: $3"
}
spoilt_launch cluster '2s/"cluster": 4/"cluster": 6/' 'cluster must be 0, 1, 2, 3, 4 or 8'
spoilt_launch cluster_rows '2s/"cluster_rows": 2/"cluster_rows": 8/' 'cluster_rows must be 0, 1, 2, 4 or 8, and divide the cluster'
spoilt_launch groups '2s/"groups": 1/"groups": "x"/' 'groups must be a whole number'
spoilt no_time '3s/4\.5/"4.5"/' 'median_us must be more than 0'
sed 's/NVIDIA H200/0123456789012345678901234567890123456789012345678901234567890123/' "$dir/timed.json" > "$dir/named.json"
refuses device "$dir/named.json" 'results\[0\] makes no choice: device must be a name of 1 to 63 characters'
refuses emulator "$dir/emulated.json" "must be a GPU's"
refuses schema "$dir/schema.json" '"schema" must be 1'
refuses empty "$dir/empty.json" 'no result of the pair protocol'
refuses missing "$dir/none.json" none.json

cat > "$dir/ratios.json" <<'EOF'
{ "schema": 1, "device": "NVIDIA H200", "date": "2001-02-03T00:00:00Z", "results": [
  { "shape": "a<b & c", "kernel": "sm90_gemm_bf16_64x64", "type": "bf16", "out_type": "bf16", "pair": { "ours": { "median_us": 5 }, "speed_to_first": 1.25, "speed_to_best": 0.9 } },
  { "shape": "far", "kernel": "sm90_gemm_bf16_64x64", "type": "bf16", "out_type": "bf16", "pair": { "ours": { "median_us": 5 }, "speed_to_first": 4, "speed_to_best": 4 } },
  { "shape": "alone", "kernel": "sm90_gemm_bf16_64x64", "type": "bf16", "out_type": "bf16", "pair": { "ours": { "median_us": 5 } } } ] }
EOF
if "$out/bin/ptxmm-bench" --markdown "$dir/ratios.json" --chart "$dir/chart.svg" > /dev/null && [ "$(grep -c '<rect x=' "$dir/chart.svg")" = 2 ] &&
   grep -q 'a&lt;b &amp; c' "$dir/chart.svg" && grep -q 'geometric mean 2.236 of 2' "$dir/chart.svg" && grep -q '4.00 ' "$dir/chart.svg"
then echo "ok chart/draws"; else echo "not ok chart/draws"; cat "$dir/chart.svg"; fi
"$out/bin/ptxmm-bench" --markdown "$dir/empty.json" --chart "$dir/none.svg" > "$dir/said" 2>&1
[ "$?" = 2 ] && [ ! -e "$dir/none.svg" ] && grep -q 'no result was timed' "$dir/said" && echo "ok chart/empty" || { echo "not ok chart/empty"; cat "$dir/said"; }

# What could not be printed is an error, and does not go into another file that is written.
unwritten() { # unwritten NAME OPTIONS...
    name=$1; shift
    "$out/bin/ptxmm-bench" "$@" > /dev/full 2> "$dir/why"
    status=$?
    "$out/bin/ptxmm-bench" "$@" >&- 2>> "$dir/why"
    status="$status, $?"
    if [ "$status" = '2, 2' ] && [ "$(grep -c 'standard output cannot be written' "$dir/why")" = 2 ]; then echo "ok output/$name"; else echo "not ok output/$name: exit codes $status"; cat "$dir/why"; fi
}
unwritten choose --choose "$dir/timed.json"
unwritten markdown --markdown "$dir/ratios.json"
unwritten help --help
head -2 "$dir/same.json" > "$dir/one.json"
echo ']}' >> "$dir/one.json"
unwritten calibrate --calibrate "$dir/one.json"

# Random products: the same for a seed, others for another, as many as asked for and in the promised ranges.
"$out/bin/ptxmm-bench" --random-shapes 300 --seed 7 > "$dir/shapes.txt"
"$out/bin/ptxmm-bench" --random-shapes 300 --seed 8 > "$dir/others.txt"
if [ "$(cksum < "$dir/shapes.txt")" = '2598877030 14469' ] && ! cmp -s "$dir/shapes.txt" "$dir/others.txt" &&
   awk '!/^#/ { nk = i % 3 == 0 ? 64 : 8; step = i % 3 == 0 ? 64 : i % 3 == 1 ? 8 : 1; i++; odd += $2 % 8 != 0; small += $2 < 64; large += $2 > 2048
                if (NF != 6 || $1 != $2 "x" $3 "x" $4 || $2 < 1 || $2 > 8192 || $2 % step || $3 < 64 || $3 > 16384 || $3 % nk || $4 < 64 || $4 > 16384 || $4 % nk || $2 * $3 * $4 > 2e12 || seen[$1]++) bad = 1 }
        END { exit bad || i != 300 || odd < 60 || small < 50 || large < 20 }' "$dir/shapes.txt"
then echo "ok random_shapes/list"; else echo "not ok random_shapes/list"; cksum < "$dir/shapes.txt"; fi
wrong() { # wrong NAME WORDS OPTIONS...: exit code 2 and one line
    name=$1; words=$2; shift 2
    "$out/bin/ptxmm-bench" "$@" > "$dir/said" 2> "$dir/why"
    if [ "$?" = 2 ] && [ ! -s "$dir/said" ] && [ "$(wc -l < "$dir/why")" = 1 ] && grep -q "$words" "$dir/why"; then echo "ok $name"; else echo "not ok $name"; cat "$dir/said" "$dir/why"; fi
}
wrong random_shapes/none 'random-shapes is "0", must be a number from 1 to 10000' --random-shapes 0
wrong random_shapes/twice 'give it without --shape' --random-shapes 3 --shape 64
wrong calibrate/descents 'descents is of --calibrate' --descents 3
wrong calibrate/judge_missing none.json --judge "$dir/none.json"
wrong launch/none 'all-launches is "0", must be a number from 1 to 640' --all-launches 0
wrong launch/cluster 'prefer.cluster is 5, must be 0, 1, 2, 3, 4 or 8' --cluster 5
wrong launch/rows 'cluster_rows is 4, must be 0 or divide cluster, 2' --cluster 2 --cluster-rows 4
wrong launch/groups 'groups is "65", must be a number from 1 to 64' --groups 65

"$out/bin/ptxmm-bench" --constant ba > "$dir/said" 2> "$dir/why"
if [ "$?" = 2 ] && [ ! -s "$dir/said" ] && grep -q 'constant is "ba", must be a, b or ab' "$dir/why"; then echo "ok constant/refused"; else echo "not ok constant/refused"; cat "$dir/said" "$dir/why"; fi
if [ -e "$out/lib/libptxmm_emulator.so" ]; then
    export PTXMM_PTX_DIR="$out/ptx"
    unwritten run --driver "$out/lib/libptxmm_emulator.so" --shape 64x64x64 --quick --protocol pair --no-host-time --json "$dir/run.json"
    if [ "$(head -c 2 "$dir/run.json" | tr -d '\n')" = '{' ] && tail -1 "$dir/run.json" | grep -q '^}$'; then echo "ok output/json"; else echo "not ok output/json"; cat "$dir/run.json"; fi
    # What was promised stands in both outputs; without a promise nothing does.
    constant() { # constant OPTIONS...
        "$out/bin/ptxmm-bench" --driver "$out/lib/libptxmm_emulator.so" --shape 64x64x64 --quick --protocol pair --no-host-time --json "$dir/run.json" "$@" > "$dir/said" 2> "$dir/why"
    }
    if constant --constant b && grep -q 'promised that these are constant: b$' "$dir/said" && grep -q '"constant": "b"' "$dir/run.json" &&
       constant && ! grep -q 'constant' "$dir/said" "$dir/run.json"
    then echo "ok constant/said"; else echo "not ok constant/said"; cat "$dir/said" "$dir/why" "$dir/run.json"; fi
    # Launches that are asked for are timed, and all launches are different ones; what was chosen of them is launched again.
    bench() { # bench OPTIONS...
        "$out/bin/ptxmm-bench" --driver "$out/lib/libptxmm_emulator.so" --pairs 1 --protocol pair --no-host-time --json "$dir/run.json" "$@" > "$dir/said" 2> "$dir/why"
    }
    if bench --shape 64x64x512 --cluster 2 --groups 3 --kernel sm90_gemm_bf16_8x64_split && grep -q ' 2x3  *pair' "$dir/said" &&
       bench --shape 200x200x192 --cluster 4 --cluster-rows 2 --kernel sm90_gemm_bf16_128x64_multicast && grep -q ' 2x2x[123]  *pair' "$dir/said"
    then echo "ok launch/asked"; else echo "not ok launch/asked"; cat "$dir/said" "$dir/why"; fi
    if bench --shape 64x64x512 --all-launches 2 &&
       awk '/ pair / { all[$2 " " $3]++; n[$2]++ } END { for (x in all) if (all[x] > 1) bad = 1; for (x in n) if (n[x] != (x ~ /_split|_multicast/ ? 2 : 1)) bad = 1
                      exit bad || n["sm90_gemm_bf16_64x64"] != 1 || n["sm90_gemm_bf16_128x64_multicast"] != 2 }' "$dir/said" &&
       [ "$(grep -c '"method": "every element"' "$dir/run.json")" -lt 10 ] && grep -q '"method": "bits equal to a right result"' "$dir/run.json"
    then echo "ok launch/all"; else echo "not ok launch/all"; cat "$dir/said" "$dir/why"; fi
    sed 's/"emulator": true/"emulator": false/; s/"median_us": [0-9.]*/"median_us": 5/' "$dir/run.json" |
        awk '/"kernel"/ { here = /sm90_gemm_bf16_128x128_multicast/ } here && /median_us/ { sub(/5/, "4") } { print }' > "$dir/chosen.json"
    "$out/bin/ptxmm-bench" --choose "$dir/chosen.json" > "$dir/choices.json" 2> "$dir/why"
    launch=$(tr -d ' \n' < "$dir/choices.json" | sed -n 's/.*_multicast","cluster":\([0-9]*\),"cluster_rows":\([0-9]*\),"groups":\([0-9]*\),.*/\1 \2 \3/p')
    set -- $launch
    if [ $# = 3 ] && bench --shape 64x64x512 --choices "$dir/choices.json" && grep -q "sm90_gemm_bf16_128x128_multicast  *$2x$(($1 / $2))x$3 " "$dir/said"
    then echo "ok launch/chosen"; else echo "not ok launch/chosen: $launch"; cat "$dir/said" "$dir/why" "$dir/choices.json"; fi
fi
