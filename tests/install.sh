#!/bin/sh
# What is installed works from where it lies: the README's example compiles by pkg-config, shared and static, and runs.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
case $out in */san | */tsan) echo "skip install: sanitizers change how programs are linked"; exit ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@" > "$dir/said" 2>&1; then echo "ok install/$name"; else echo "not ok install/$name: $*"; cat "$dir/said"; fi
}
install_here() { make -s install OUT="$out" PREFIX="$dir/usr" DESTDIR="$1"; }
check staged install_here "$dir/stage"
check staged/prefix grep -q "^prefix=$dir/usr$" "$dir/stage$dir/usr/lib/pkgconfig/ptxmm.pc"
check installed install_here ''
for file in bin/ptxmm include/ptxmm.h include/ptxmm_abi.h lib/libptxmm.a lib/libptxmm.so lib/pkgconfig/ptxmm.pc; do
    check "$file" test -s "$dir/usr/$file"
done
for ptx in build/ptx/*.ptx; do [ -s "$dir/usr/share/ptxmm/ptx/${ptx##*/}" ] || echo "not ok install/ptx: ${ptx##*/} is missing"; done
check command "$dir/usr/bin/ptxmm" --version
if [ -e "$out/lib/emulator/libcudart.so.13" ]; then
    check runtime sh -c "ldd '$dir/usr/lib/ptxmm-emulator/libcudart.so.13' | grep -q 'libptxmm_emulator.so => $dir'"
    check runtime/driver test -s "$dir/usr/lib/ptxmm-emulator/libcuda.so.1"
fi

# The example is the README's first C block; the program around it calls it where there is no driver.
awk '/^```c$/ && !n { n = 1; next } /^```/ { if (n == 1) n = 2 } n == 1' README.md > "$dir/example.c"
cat >> "$dir/example.c" <<'EOF'

int main(void)
{
    struct ptxmm *mm;
    return ptxmm_open(&mm, NULL, NULL) != PTXMM_ERROR_NO_DRIVER || multiply(mm, 0, 0, 0, 0) == PTXMM_OK;
}
EOF
export PTXMM_DRIVER=/no/such/driver.so
if ! command -v pkg-config > /dev/null; then
    echo "skip install/pkg-config: no pkg-config here"
else
    export PKG_CONFIG_PATH="$dir/usr/lib/pkgconfig"
    strict='-Wall -Wextra -Wpedantic -Werror'
    cc=${CC:-gcc}
    check shared $cc -std=c11 $strict "$dir/example.c" $(pkg-config --cflags --libs ptxmm) -o "$dir/shared"
    check shared/runs env LD_LIBRARY_PATH="$dir/usr/lib" "$dir/shared"
    check shared/soname sh -c "readelf -d '$dir/shared' | grep -q 'NEEDED.*libptxmm.so.[0-9]'"
    check static $cc -std=c11 $strict "$dir/example.c" $(pkg-config --cflags ptxmm) -Wl,-Bstatic $(pkg-config --libs ptxmm) \
        -Wl,-Bdynamic $(pkg-config --static --libs-only-l ptxmm | sed 's/-lptxmm//') -o "$dir/static"
    check static/runs "$dir/static"
    check static/alone sh -c "! readelf -d '$dir/static' | grep -q 'NEEDED.*ptxmm'"
fi
check uninstall make -s uninstall PREFIX="$dir/usr"
left=$(find "$dir/usr" ! -type d)
[ -z "$left" ] && echo "ok install/uninstall/all" || { echo "not ok install/uninstall/all:"; echo "$left"; }
