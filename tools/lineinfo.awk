# lineinfo.awk KERNEL.i -- puts a .loc in front of every statement of a kernel's body, on the statement's own line, from the
# line markers that cpp left. The markers stay, so ptxas names the same lines as before.
/^# [0-9]+ "/ { at = $2 - 1; split($0, q, "\""); file = q[2]; text[NR] = $0; next }
{
    at++
    text[NR] = $0
    if (/^\.address_size/) header = NR
    if (depth > 0 && !open && /[^ \t{}]/) {
        if (!(file in number)) { number[file] = ++files; name[files] = file }
        text[NR] = ".loc " number[file] " " at " 0 " $0
    }
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        depth += (c == "{") - (c == "}")
        if (c ~ /[;{}:]/) open = 0
        else if (c !~ /[ \t]/) open = 1
    }
}
END {
    for (i = 1; i <= NR; i++) {
        print text[i]
        if (i == header) for (f = 1; f <= files; f++) printf ".file %d \"%s\"%s", f, name[f], f < files ? " " : "\n"
    }
}
