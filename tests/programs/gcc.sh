#!/usr/bin/env bash
# gcc compiles a large file; what it writes must be the same to the byte.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

cd "$work"
awk 'BEGIN {
    print "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>"
    for (i = 0; i < 1000; i++) {
        printf "struct s%d { uint32_t a, b; char name[%d]; struct s%d *next; };\n", i, i % 60 + 1, i
        printf "static const char text%d[] = \"text number %d\";\n", i, i
        printf "uint64_t f%d(struct s%d *s, uint64_t x)\n{\n", i, i
        printf "\tuint64_t sum = %d;\n\n", i
        printf "\tfor (; s; s = s->next) {\n\t\tswitch (s->a %% 7) {\n"
        for (k = 0; k < 5; k++)
            printf "\t\tcase %d:\n\t\t\tsum += s->b * %dU + x;\n\t\t\tbreak;\n", k, i * 31 + k
        printf "\t\tdefault:\n\t\t\tsum ^= strlen(s->name) << %d;\n\t\t}\n\t}\n", i % 30
        printf "\treturn sum + text%d[x %% sizeof(text%d)]", i, i
        if (i > 0)
            printf " + f%d(0, sum)", i - 1
        print ";\n}"
    }
}' >large.c
lines=$(wc -l <large.c)
options=(-O1 -g -c large.c)
gcc "${options[@]}" -o plain.o
on_sheaves gcc "${options[@]}" -o sheaves.o
same plain.o sheaves.o "the object file"

# Each process wrote its own statistics: the driver, the compiler proper and the assembler.
processes=$(grep -c '"pid":' "$work/stats")
((processes >= 3)) || die "only $processes of three processes ran on Sheaves"
finish "$lines lines, $(stat -c %s sheaves.o) bytes of object equal, $processes processes," \
    "$(proof_of_sheaves)"
