#!/bin/sh
# Opening, planning and running execute no other program, open no socket and write no file: the system calls of `ptxmm run` on the
# emulator (a GPU's driver makes calls of its own, which are not ours to judge), or of `ptxmm plan` where there is no emulator.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trace() { # trace NAME COMMAND...
    name=$1
    shift
    ASAN_OPTIONS=detect_leaks=0 strace -f -qq -e trace=execve,execveat,fork,vfork,socket,connect,open,openat,openat2,creat,memfd_create,rename,unlink,mkdir \
        -o "$dir/calls" "$@" > "$dir/said" 2>&1
    status=$?
    if ! grep -q execve "$dir/calls" 2> /dev/null; then
        echo "skip quiet/$name: strace cannot trace here: $(tail -n 1 "$dir/said")"
        return
    fi
    [ "$status" = 0 ] && echo "ok quiet/$name/runs" || { echo "not ok quiet/$name/runs: $*"; cat "$dir/said"; }
    # The first execve is the program itself.
    grep -E 'execve|fork|socket|connect|creat\(|O_WRONLY|O_RDWR|O_CREAT|memfd|rename|unlink|mkdir' "$dir/calls" | sed 1d > "$dir/loud"
    [ -s "$dir/loud" ] && { echo "not ok quiet/$name"; cat "$dir/loud"; } || echo "ok quiet/$name"
}
case $out in */tsan) echo "skip quiet: the thread sanitizer opens files of its own"; exit ;; esac
if ! command -v strace > /dev/null; then
    echo "skip quiet: no strace here"
    exit
fi
trace plan "$out/bin/ptxmm" plan --m 300 --n 504 --k 712 --type bf16 --arch sm90
if [ -e "$out/lib/libptxmm_emulator.so" ]; then
    trace run "$out/bin/ptxmm" run --driver emulator --m 256 --n 256 --k 128 --type bf16
else
    echo "skip quiet/run: no emulator is built"
fi
