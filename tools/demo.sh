#!/bin/sh
# demo.sh OUT -- multiplies two matrices and checks the product: on the GPU where a CUDA driver finds one that the pack has kernels
# for, else on the emulator with a smaller problem, and says which.
set -eu
ptxmm=$1/bin/ptxmm
show() { echo "\$ $*"; "$@"; }
kernels=$("$ptxmm" devices --json 2> /dev/null | sed -n 's/.*"kernels": *\([0-9]*\).*/\1/p' | head -n 1)
case $kernels in
    '') why="No CUDA driver with a GPU was found" ;;
    0) why="The pack has no kernel for the GPU that was found" ;;
    *)
        echo "A GPU was found; multiplying there."
        show "$ptxmm" run --m 4096 --n 4096 --k 4096 --type bf16
        exit ;;
esac
if [ -e "$1/lib/libptxmm_emulator.so" ]; then
    echo "$why: the same kernel runs on the emulator, on this CPU, with a smaller problem."
    show "$ptxmm" run --driver emulator --m 512 --n 512 --k 512 --type bf16
else
    echo "$why, so nothing is multiplied here. What would run on an H200:"
    show "$ptxmm" plan --m 4096 --n 4096 --k 4096 --type bf16 --arch sm90
    echo "Not run: ptxmm run --m 4096 --n 4096 --k 4096 --type bf16"
fi
