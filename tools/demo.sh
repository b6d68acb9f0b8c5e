#!/bin/sh
# demo.sh OUT -- multiplies two matrices and checks the product: on the GPU where a CUDA driver finds one, else on the emulator
# with a smaller problem, and says which.
set -eu
ptxmm=$1/bin/ptxmm
show() { echo "\$ $*"; "$@"; }
if "$ptxmm" devices > /dev/null 2>&1; then
    echo "A GPU was found; multiplying there."
    show "$ptxmm" run --m 4096 --n 4096 --k 4096 --type bf16
elif [ -e "$1/lib/libptxmm_emulator.so" ]; then
    echo "No CUDA driver with a GPU was found: the same kernel runs on the emulator, on this CPU, with a smaller problem."
    show "$ptxmm" run --driver emulator --m 512 --n 512 --k 512 --type bf16
else
    echo "No CUDA driver with a GPU was found, so nothing is multiplied here. What would run on an H200:"
    show "$ptxmm" plan --m 4096 --n 4096 --k 4096 --type bf16 --arch sm90
    echo "Not run: ptxmm run --m 4096 --n 4096 --k 4096 --type bf16"
fi
