#!/bin/sh
# install.sh OUT DESTDIR PREFIX LIBDIR VERSION -- installs what was built in OUT; OUT of "-u" takes it away again.
set -eu
out=$1 dest=$2 prefix=$3 libdir=$4 version=$5
major=${version%%.*}
bin=$dest$prefix/bin include=$dest$prefix/include lib=$dest$libdir share=$dest$prefix/share/ptxmm
if [ "$out" = -u ]; then
    rm -f "$bin/ptxmm" "$include/ptxmm.h" "$include/ptxmm_abi.h" "$lib/pkgconfig/ptxmm.pc" "$lib/libptxmm.a" \
        "$lib/libptxmm.so" "$lib/libptxmm.so.$major" "$lib/libptxmm.so.$version" "$lib/libptxmm_emulator.so"
    rm -rf "$share" "$lib/ptxmm-emulator"
    exit
fi
mkdir -p "$bin" "$include" "$lib/pkgconfig" "$share/ptx"
install -m 644 include/ptxmm.h include/ptxmm_abi.h "$include"
install -m 644 "$out/lib/libptxmm.a" "$lib"
install -m 755 "$out/lib/libptxmm.so.$version" "$lib"
ln -sf "libptxmm.so.$version" "$lib/libptxmm.so.$major"
ln -sf "libptxmm.so.$major" "$lib/libptxmm.so"
[ ! -e "$out/lib/libptxmm_emulator.so" ] || install -m 755 "$out/lib/libptxmm_emulator.so" "$lib"
if [ -e "$out/lib/emulator/libcudart.so.13" ]; then
    mkdir -p "$lib/ptxmm-emulator"
    install -m 755 "$out/lib/emulator/libcudart.so.13" "$lib/ptxmm-emulator"
    ln -sf ../libptxmm_emulator.so "$lib/ptxmm-emulator/libcuda.so.1"
fi
[ ! -e "$out/bin/ptxmm" ] || install -m 755 "$out/bin/ptxmm" "$bin"
install -m 644 build/ptx/*.ptx "$share/ptx"
cat > "$lib/pkgconfig/ptxmm.pc" <<EOF
prefix=$prefix
libdir=$libdir
includedir=\${prefix}/include

Name: ptxmm
Description: tensor-core matrix multiplication from hand-written PTX
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lptxmm
Libs.private: -ldl -lpthread -lm
EOF
# The linker's cache, where the library went into a folder that it covers.
[ -n "$dest" ] || [ "$(id -u)" != 0 ] || ldconfig 2> /dev/null || :
echo "installed ptxmm $version under $dest$prefix"
