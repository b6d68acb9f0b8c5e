#!/bin/sh
# find-cuda.sh [-v] -- prints the paths of ptxas and of the folder that holds cuda.h, both of CUDA 13 or newer, "-" for one
# that is not there. Looks along PATH, in CUDA_HOME, in /usr/local/cuda, in /usr and in build/toolchain, where setup.sh puts
# them. -v says on standard error which older ones were passed over.
toolchain=build/toolchain/nvidia/cu13
onpath=$(command -v ptxas || :)
ptxas=- include=-
for dir in ${onpath:+"$(dirname "$(dirname "$(readlink -f "$onpath")")")"} ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda /usr $toolchain; do
    if [ $ptxas = - ] && [ -x "$dir/bin/ptxas" ]; then
        release=$("$dir/bin/ptxas" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
        if [ "${release:-0}" -ge 13 ]; then ptxas=$dir/bin/ptxas
        elif [ "${1-}" = -v ]; then echo "  $dir/bin/ptxas is of CUDA ${release:-?}, 13 is needed: passed over" >&2; fi
    fi
    if [ $include = - ] && [ -r "$dir/include/cuda.h" ]; then
        release=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$dir/include/cuda.h")
        if [ "${release:-0}" -ge 13000 ]; then include=$dir/include
        elif [ "${1-}" = -v ]; then echo "  $dir/include/cuda.h is of CUDA ${release:-?}, 13000 is needed: passed over" >&2; fi
    fi
done
echo "$ptxas $include"
