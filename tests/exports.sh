#!/bin/sh
# What the libraries give to the programs that link them: ptxmm_* and nothing else.
cd "$(dirname "$0")/.." || exit 1
lib=${OUT:-build}/lib
foreign=$(nm -D --defined-only "$lib/libptxmm.so" | awk '$2 != "A" && $3 !~ /^ptxmm_/ { print $3 }' | grep -v '^__[aou][sd]' || :)
[ -z "$foreign" ] && echo "ok exports/shared" || { echo "not ok exports/shared:"; echo "$foreign"; }
case $lib in
    */san/* | */tsan/*) echo "skip exports/static: sanitizers add names of their own" ;;
    *)
        foreign=$(nm -g --defined-only "$lib/libptxmm.a" | awk 'NF == 3 && $3 !~ /^ptxmm_/ { print $3 }')
        [ -z "$foreign" ] && echo "ok exports/static" || { echo "not ok exports/static:"; echo "$foreign"; } ;;
esac
# Every function of the header is there.
missing=
for name in $(tr '\n' ' ' < include/ptxmm.h | grep -o 'PTXMM_API [a-z][^;(]*(' | sed 's/($//; s/.*[ *]//'); do
    nm -D --defined-only "$lib/libptxmm.so" | grep -q " T $name\$" || missing="$missing $name"
done
[ -z "$missing" ] && echo "ok exports/header" || echo "not ok exports/header: the library lacks$missing"
linked=$(readelf -d "$lib/libptxmm.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v '^libc\.so\|^ld-linux\|^libasan\|^libtsan\|^libubsan' || :)
[ -z "$linked" ] && echo "ok exports/libc_only" || echo "not ok exports/libc_only: it needs $linked"
readelf -d "$lib/libptxmm.so" | grep -q 'SONAME.*\[libptxmm\.so\.[0-9]*\]' && echo "ok exports/soname" || echo "not ok exports/soname"
