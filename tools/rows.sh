#!/bin/sh
# rows.sh KERNELS.DEF OUTDIR -- turns the rows of kernels.def into what make and cpp read:
#   OUTDIR/kernels.mk    KERNELS, and for each kernel its source and its target architecture
#   OUTDIR/<name>.row    the row as macro definitions, for `cc -E @<name>.row`; rewritten only when the row changed, so
#                        that an edit of one row rebuilds one kernel
set -eu
def=$1 out=$2
mkdir -p "$out"
# The columns in order, as the macros they become. Those without one are suffix, source and name.
columns='SM,,,,TYPE_A,TYPE_B,TYPE_ACC,TYPE_D,BM,BN,BK,STAGES,THREADS,CLUSTER,SCHEDULE,SMEM'
awk -v out="$out" -v def="$def" -v columns="$columns" '
BEGIN { width = split(columns, macro, ",") }
function bad(why) { printf "%s:%d: %s\n", def, FNR, why > "/dev/stderr"; failed = 1 }
/^[ \t]*KERNEL[ \t]*\(/ {
    row = $0
    gsub(/[ \t]/, "", row)
    if (row !~ /^KERNEL\([^()]*\)$/) { bad("a row is KERNEL(...) on one line"); next }
    n = split(substr(row, 8, length(row) - 8), f, ",")
    if (n != width) { bad("a row has " width " columns, this one has " n); next }
    for (i = 1; i <= n; i++) {
        number = macro[i] !~ /^$|^TYPE_|^SCHEDULE$/
        if (number && f[i] !~ /^[1-9][0-9]*$/) bad("column " i " must be a positive number, it is \"" f[i] "\"")
        if (!number && f[i] !~ /^[a-z][a-z0-9_]*$/) bad("column " i " must be a lower-case word, it is \"" f[i] "\"")
    }
    name = "sm" f[1] "_" f[4]
    if (name in seen) bad(name " is already in line " seen[name])
    seen[name] = FNR
    names = names " " name
    rules = rules "SOURCE_" name " := ptx/sm" f[1] "/" f[3] ".ptx\nARCH_" name " := sm_" f[1] f[2] "\n"
    file = out "/" name ".row.new"
    printf "-DKERNEL=%s\n-DTARGET=sm_%s%s\n", name, f[1], f[2] > file
    for (i = 1; i <= n; i++) if (macro[i] != "") printf "-D%s=%s\n", macro[i], f[i] > file
    close(file)
}
END {
    if (names == "") bad("there is no row")
    if (failed) exit 1
    printf "KERNELS :=%s\n%s", names, rules > (out "/kernels.mk.new")
}' "$def" || { rm -f "$out"/*.new; exit 1; }
for new in "$out"/*.row.new; do
    old=${new%.new}
    cmp -s "$new" "$old" && rm "$new" || mv "$new" "$old"
done
mv "$out/kernels.mk.new" "$out/kernels.mk"
