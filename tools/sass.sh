#!/bin/sh
# sass.sh KERNEL.cubin -- machine code of a kernel, by cuobjdump or nvdisasm.
set -eu
home=$(dirname "$(dirname "$(tools/find-cuda.sh | cut -d' ' -f1)")")
for dir in "$home/bin" build/disassembler/nvidia/cu13/bin ''; do
    for tool in nvdisasm cuobjdump; do
        path=${dir:+$dir/}$tool
        command -v "$path" > /dev/null || continue
        [ $tool = nvdisasm ] && exec "$path" -c "$1" || exec "$path" -sass "$1"
    done
done
echo "sass: no cuobjdump and no nvdisasm beside ptxas, in build/disassembler or in PATH." >&2
echo "sass: one comes by: python3 -m pip install --no-deps --target build/disassembler nvidia-cuda-nvdisasm" >&2
exit 1
