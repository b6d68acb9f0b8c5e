#!/bin/sh
# pack.sh SM90_MB ALL_MB CUBIN... -- prints the SHA-256 of every cubin as C macros, SHA256_<kernel>, for the loader. Fails
# when the pack is larger than its budget: all sm90 cubins together, and all cubins.
set -eu
sm90=$1 all=$2
shift 2
for cubin; do wc -c "$cubin"; done | awk -v sm90="$sm90" -v all="$all" '
{ total += $1; if ($2 ~ /\/sm90_/) hopper += $1 }
END {
    if (hopper > sm90 * 1000000) { printf "the sm90 cubins take %.2f MB, their budget is %g MB\n", hopper / 1e6, sm90 > "/dev/stderr"; bad = 1 }
    if (total > all * 1000000) { printf "the cubins take %.2f MB, their budget is %g MB\n", total / 1e6, all > "/dev/stderr"; bad = 1 }
    exit bad
}'
for cubin; do
    hash=$(sha256sum < "$cubin")
    printf '#define SHA256_%s "%s"\n' "$(basename "$cubin" .cubin)" "${hash%% *}"
done
