# shellcheck shell=sh
# What the scripts share, which the shell of `cargo xtask vm` runs.
failed=0

# run NAME COMMAND: says whether the command succeeds, and shows the end of its output if not.
run() {
    name=$1
    shift
    "$@" >/tmp/out 2>&1
    result=$?
    if [ $result = 0 ]; then
        facts=$(grep -E '^test result|operations|grace periods|^ok ' /tmp/out | tr '\n' ' ')
        echo "ok $name: $facts"
    else
        echo "not ok $name: status $result"
        tail -n 30 /tmp/out
        failed=1
    fi
}

# The tests of a program without the one that runs the others again in every configuration.
run_tests() {
    run "$1" "./$1" --skip in_every_configuration
}

run_torture() {
    run "torture $1" ./sheaves torture "$1" --seconds 60
}

# What is tested, and whether it has all that Sheaves uses.
describe() {
    echo "Linux $(uname -rm), $(nproc) CPUs"
    ./sheaves doctor || failed=1
}
