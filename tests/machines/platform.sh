#!/bin/sh
# A platform: transactions, per-CPU memory, the storm, torture, the examples in C, and two real
# programs. See CONTRIBUTING.md.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

describe
run_tests transactions
run_tests memory
export SHEAVES_STORM_SECONDS=60
run storm ./caches storm::no_object
run_torture reclaim
run_torture rcu
for example in ./example-*; do
    run "$example" "$example"
done
# Debian links this name when it installs a package, which is only unpacked here.
ln -sf gawk /usr/bin/awk
export SHEAVES=$PWD/sheaves PROGRAMS_DIR=$PWD/programs
run sqlite bash programs/sqlite.sh
run redis bash programs/redis.sh
exit $failed
