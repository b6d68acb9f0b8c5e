#!/bin/sh
# gpu-bundle.sh OUT ARCHIVE -- packs what a machine with a GPU needs to test and time the kernels. That machine needs a CUDA
# driver and glibc as new as this one's; no compiler, no cmocka, no network.
set -eu
out=$1 archive=$2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
bundle=$stage/ptxmm-gpu
mkdir -p "$bundle/lib" "$bundle/tests"
cp -r "$out/bin" "$bundle/bin"
cp -P "$out"/lib/*.so* "$bundle/lib/"
cp -r "$out/ptx/." "$bundle/ptx"
for file in "$out"/tests/*; do
    case ${file##*/} in emu_* | header_*) ;; *) cp "$file" "$bundle/tests/" ;; esac
done
[ ! -d tests/ptx ] || cp -r tests/ptx "$bundle/tests/ptx"
cmocka=$(ldd "$out/tests/kernels" | awk '/libcmocka/ { print $3 }')
cp -L "$cmocka" "$bundle/lib/libcmocka.so.0"
for file in bench/*.txt; do [ ! -e "$file" ] || { mkdir -p "$bundle/bench"; cp "$file" "$bundle/bench/"; }; done
cp tools/run-tests.sh "$bundle/"
cp tools/run-gpu-tests.sh "$bundle/run-gpu-tests"
# The names of the tree, for those who type what the README says.
printf 'test-gpu:\n\t./run-gpu-tests\nbench:\n\tbin/ptxmm-bench $(ARGS)\n.PHONY: test-gpu bench\n' > "$bundle/Makefile"
find "$bundle" -type f -exec strip --strip-debug {} + 2> /dev/null || :
tar -C "$stage" -czf "$archive" ptxmm-gpu
echo "$archive: $(wc -c < "$archive" | awk '{ printf "%.1f MB", $1 / 1e6 }'). There: tar xzf ${archive##*/} && ptxmm-gpu/run-gpu-tests"
