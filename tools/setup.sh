#!/bin/sh
# setup.sh [test] -- brings in what the build lacks, and with `test` also what the tests lack. A machine that has everything
# is left alone. On Debian and Ubuntu, as root, missing packages come from apt; ptxas and cuda.h, if no CUDA 13 is installed,
# come from pip's packages at the versions below, into build/toolchain. Reads CC and CUDA_HOME.
# Exit status: 0 when the build can go on.
set -eu
cd "$(dirname "$0")/.."
nvcc=13.0.88 runtime=13.0.96 # of pip's nvidia-cuda-nvcc and nvidia-cuda-runtime
cc=${CC:-gcc}
say() { printf 'setup: %s\n' "$*"; }
header() { printf '#include <stddef.h>\n#include <stdarg.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <%s>\n' "$1" |
    $cc -fsyntax-only -x "${2:-c}" - 2> /dev/null; }
library() { [ "$($cc -print-file-name="$1")" != "$1" ]; }

# What is missing: packages that the build cannot do without, and ones that only let a test be skipped.
needed='' wanted=''
if ! command -v "$cc" > /dev/null; then
    [ "$cc" = gcc ] || { say "CC is $cc, which is not on this machine"; exit 1; }
    needed='gcc libc6-dev libjansson-dev'
    [ "${1-}" != test ] || needed="$needed libcmocka-dev" wanted='g++'
else
    header stdio.h || needed="$needed libc6-dev"
    { header jansson.h && library libjansson.a; } || needed="$needed libjansson-dev"
    if [ "${1-}" = test ]; then
        { header cmocka.h && library libcmocka.so; } || needed="$needed libcmocka-dev"
        header cstdint c++ || wanted="$wanted g++"
    fi
fi
if [ "${1-}" = test ]; then
    command -v pkg-config > /dev/null || wanted="$wanted pkg-config"
    command -v strace > /dev/null || wanted="$wanted strace"
fi

updated=''
apt() { # apt PACKAGE...: nonzero when they did not come
    command -v apt-get > /dev/null && [ "$(id -u)" = 0 ] || return 1
    if [ -z "$updated" ]; then
        say "apt-get update"
        apt-get update -qq > build/apt.log 2>&1 || say "apt-get update failed (build/apt.log); trying what it knows"
        updated=yes
    fi
    say "apt-get install $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >> build/apt.log 2>&1 || return 1
}
mkdir -p build
if [ -n "$needed$wanted" ] && ! apt $needed $wanted; then
    [ -z "$wanted" ] || say "without$wanted some tests are skipped"
    if [ -n "$needed" ]; then
        say "missing and not to be had from here (it takes root, apt and a network):$needed"
        say "on Debian or Ubuntu: sudo apt-get install$needed$wanted; elsewhere the packages with cmocka, jansson (static) and a C compiler"
        exit 1
    fi
fi

set -- $(tools/find-cuda.sh -v)
if [ "$1" = - ] || [ "$2" = - ]; then
    say "no CUDA 13 in PATH, CUDA_HOME or /usr/local/cuda has both ptxas and cuda.h: getting nvidia-cuda-nvcc $nvcc and nvidia-cuda-runtime $runtime by pip"
    python3 -m pip --version > /dev/null 2>&1 || apt python3-pip || say "pip is missing (Debian's python3-pip)"
    rm -rf build/toolchain.new
    if PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --disable-pip-version-check --target build/toolchain.new \
        "nvidia-cuda-nvcc==$nvcc" "nvidia-cuda-runtime==$runtime" > build/pip.log 2>&1; then
        rm -rf build/toolchain
        mv build/toolchain.new build/toolchain
    else
        say "pip did not get them (build/pip.log): $(tail -n 1 build/pip.log)"
    fi
    set -- $(tools/find-cuda.sh)
    if [ "$2" = - ]; then
        say "cuda.h is needed for its types: install the CUDA 13 toolkit and set CUDA_HOME, or let pip reach its index"
        exit 1
    fi
    [ "$1" != - ] || say "no ptxas: kernels stay unassembled, and tests that need cubins are skipped"
    say "ptxas is $1, cuda.h in $2"
fi
