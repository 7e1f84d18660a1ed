#!/usr/bin/env bash
# A Go program with cgo: goroutines that allocate C memory, threads of C that call Go, and Go's own
# handlers of signals, on signal stacks. Once more with guarded blocks, for which the library has a
# handler of SIGSEGV, too.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

command -v go >/dev/null || finish "skipped: go is not installed"
export GOTOOLCHAIN=local CGO_ENABLED=1
(cd "$PROGRAMS_DIR/cgo" && go build -o "$work/cgo" .) >"$work/build.log" 2>&1 \
    || die "not built: $(tail -n 1 "$work/build.log")"
cd "$work"
./cgo >without
# It ends without libc's exit, at which statistics would be written.
for guard in 0 1/1; do
    SHEAVES_GUARD=$guard "$SHEAVES" run --verbose -- ./cgo >with 2>errors \
        || die "SHEAVES_GUARD=$guard: status $?, $(head -n 1 errors)"
    same without with "what it prints with SHEAVES_GUARD=$guard"
    grep -q '^sheaves: cgo runs on Sheaves' errors || die "$(head -n 1 errors)"
    [[ $(wc -l <errors) == 1 ]] || die "SHEAVES_GUARD=$guard: $(<errors)"
done
finish "$(go version | cut -d ' ' -f 3), $(<with)"
