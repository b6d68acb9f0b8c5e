#!/bin/sh
# gpu-bundle.sh OUT ARCHIVE -- packs what a machine with a GPU needs to test and time the kernels, laid out as the tree is.
# That machine needs a CUDA driver and a glibc as new as this one's; no compiler, no cmocka, no network.
set -eu
out=$1 archive=$2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
bundle=$stage/ptxmm-gpu
mkdir -p "$bundle/build/lib" "$bundle/build/tests" "$bundle/tools" "$bundle/bench" "$bundle/tests"
cp -r "$out/bin" "$bundle/build/"
cp -rL "$out/ptx" "$bundle/build/ptx"
cp -P "$out"/lib/*.so* "$bundle/build/lib/"
for program in kernels compare_drivers ptx_run; do cp "$out/tests/$program" "$bundle/build/tests/"; done
cmocka=$(ldd "$out/tests/kernels" | awk '/libcmocka/ { print $3 }')
cp -L "$cmocka" "$bundle/build/lib/libcmocka.so.0"
for file in bench/*.txt; do [ ! -e "$file" ] || cp "$file" "$bundle/bench/"; done
[ ! -d tests/ptx ] || cp -r tests/ptx "$bundle/tests/"
cp tools/run-tests.sh tools/run-gpu-tests.sh "$bundle/tools/"
cat > "$bundle/run-gpu-tests" <<'EOF'
#!/bin/sh
cd "$(dirname "$0")" && exec tools/run-gpu-tests.sh build
EOF
chmod +x "$bundle/run-gpu-tests"
printf 'test-gpu:\n\t@./run-gpu-tests\nbench:\n\t@build/bin/ptxmm-bench %s\n.PHONY: test-gpu bench\n' "\$(ARGS)" > "$bundle/Makefile"
find "$bundle/build" -type f -name '[!.]*' ! -name '*.ptx' -exec strip --strip-debug {} +
tar -C "$stage" -czf "$archive" ptxmm-gpu
echo "$archive, $(wc -c < "$archive" | awk '{ printf "%.1f MB", $1 / 1e6 }'). There: tar xzf ${archive##*/} && ptxmm-gpu/run-gpu-tests"
