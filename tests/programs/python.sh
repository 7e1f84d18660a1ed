#!/usr/bin/env bash
# CPython's own tests of lists, dictionaries, threads and JSON. PYTHONMALLOC=malloc takes its pool
# allocator away: every object comes from malloc. `python.sh find` prints the python that can do it.
set -euo pipefail

tests=(test_list test_dict test_threading test_json)

# The first python that has the tests and starts bare: one whose site modules already import
# `threading` fails a test of its own. Its real file, for `python3` may be a script that looks for
# one.
find_python() {
    local candidate
    for candidate in /usr/bin/python3 python3; do
        if "$candidate" -I -c 'import sys; assert "threading" not in sys.modules' 2>/dev/null \
            && "$candidate" -I -c 'import test.test_list' 2>/dev/null; then
            "$candidate" -I -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

if [[ ${1-} == find ]]; then
    find_python
    exit
fi

# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
cd "$work"
python=$(find_python) || die "no python3 has its test modules"
status=0
PYTHONMALLOC=malloc on_sheaves "$python" -m test "${tests[@]}" >log 2>&1 || status=$?
if ((status != 0)); then
    failures=$(grep -E '^(FAIL|ERROR|test .* failed)' log | head -n 3 || true)
    die "exit status $status: ${failures//$'\n'/, }"
fi
grep -qE "All ${#tests[@]} tests OK" log || die "not all tests ran: $(tail -n 2 log | xargs)"
grep -q 'esult: SUCCESS' log || die "no success: $(tail -n 1 log)"
finish "$("$python" --version), ${#tests[@]} test modules, $(proof_of_sheaves)"
