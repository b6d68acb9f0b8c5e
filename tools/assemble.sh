#!/bin/sh
# assemble.sh PTXAS ARCH KERNEL.i KERNEL.cubin [ptxas options] -- ptxas with its words taken as errors.
#
# ptxas exits 0 after it spilled, gave the stack a frame, ignored setmaxnreg or put waits between the wgmmas, and only
# says so in its output. Here each of these fails, with the line of the source it is about, and leaves no cubin. The output
# itself stays in KERNEL.log.
set -eu
ptxas=$1 arch=$2 input=$3 cubin=$4
shift 4
log=${cubin%.cubin}.log
rm -f "$cubin"
status=0
"$ptxas" "-arch=$arch" -v -warn-spills "$@" -o "$cubin.new" "$input" > "$log" 2>&1 || status=$?

# Advisories give a line but no file: the line markers of the input tell which sources have text on that line.
verdict=$(awk -v status="$status" '
FNR == 1 { part++ }
part == 1 && FNR == 1 { file = FILENAME }
part == 1 && /^# [0-9]+ "/ { line = $2 - 1; split($0, q, "\""); file = q[2]; next }
part == 1 {
    line++
    if ($0 ~ /[.]entry/) entry = "    " file ":" line ": " $0
    if ($0 ~ /[^ \t]/ && (line in text == 0 || length(text[line]) < 400)) text[line] = text[line] "\n    " file ":" line ": " $0
    next
}
function fail(why) {
    print why
    print match($0, /line [0-9]+/) ? substr(text[substr($0, RSTART + 5, RLENGTH - 5)], 2) : entry
}
/\(C7[0-9][0-9][0-9]\)/ { fail($0); next }
/setmaxnreg/ && /ignored/ { fail($0); next }
/warning/ || /error/ || /fatal/ { fail($0); next }
/bytes stack frame/ {
    if (match($0, /[0-9]+ bytes stack frame/) && substr($0, RSTART) + 0) fail($0)
    else if (match($0, /[0-9]+ bytes spill stores/) && substr($0, RSTART) + 0) fail($0)
    else if (match($0, /[0-9]+ bytes spill loads/) && substr($0, RSTART) + 0) fail($0)
    seen = 1
}
END { if (!seen && !status) print "ptxas did not report stack and spills (is -v still its word for it?)" }
' "$input" "$log")
if [ "$status" -ne 0 ] || [ -n "$verdict" ]; then
    rm -f "$cubin.new"
    printf '%s: refused\n%s\n' "$(basename "$cubin" .cubin)" "${verdict:-$(cat "$log")}" >&2
    exit 1
fi
mv "$cubin.new" "$cubin"
