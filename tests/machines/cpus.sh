#!/bin/sh
# Many CPUs: the storm runs while CPUs go offline and come back, and while the set of CPUs
# that it may use changes; then torture, per-CPU memory, and transactions. See CONTRIBUTING.md.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

group=/sys/fs/cgroup/storm
cpus=$(nproc)
last=$((cpus - 1))

storm() {
    SHEAVES_STORM_SECONDS=60 ./caches --nocapture storm::no_object >/tmp/storm 2>&1
    echo $? >/tmp/status
}

# About eight CPUs, without the first one.
some_cpus() {
    seq 1 $((cpus / 8 + 1)) "$last"
}

# switch 0|1: some CPUs go offline, or come back.
switch() {
    for cpu in $(some_cpus); do
        echo "$1" >"/sys/devices/system/cpu/cpu$cpu/online" && switched=$((switched + 1))
    done
}

# allow CPUS: the storm may use these only.
allow() {
    echo "$1" >$group/cpuset.cpus && allowed=$((allowed + 1))
    sleep 1
}

describe
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
switched=0
allowed=0
storm &
while [ -z "$(pidof caches)" ]; do sleep 1; done
sleep 1
for process in $(pidof caches); do
    echo "$process" >$group/cgroup.procs
done
while ! [ -e /tmp/status ]; do
    switch 0
    allow 0-$((cpus / 4))
    allow $((cpus / 4))-$((cpus / 2))
    switch 1
    allow "0-$last"
done
wait
run storm sh -c 'cat /tmp/storm; exit $(cat /tmp/status)'
echo "meanwhile $switched CPUs went offline or came back, and the cpuset changed $allowed times"
[ $switched -gt 0 ] && [ $allowed -gt 0 ] || failed=1

run_torture reclaim
run_torture rcu
run_tests memory
run_tests transactions
exit $failed
