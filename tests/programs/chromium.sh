#!/usr/bin/env bash
# chromium as an ordinary user, so with its sandboxes: it renders a page in processes that have
# namespaces and filters (seccomp) of their own. Its malloc is its own, also for its libraries: the
# preload object is there, and has to leave it alone.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

browser=/usr/lib/chromium/chromium
[[ -x $browser ]] || die "chromium is not installed"
[[ $(id -u) == 0 ]] || finish "skipped: not root"
user=(setpriv --reuid nobody --regid nogroup --clear-groups env "HOME=$work/home")
"${user[@]}" unshare --user true 2>/dev/null || finish "skipped: user namespaces are refused"
cd "$work"
# What the user reads.
chmod 711 .
install -o nobody -d home
install "$SHEAVES" "$("$SHEAVES" run -- printenv LD_PRELOAD)" .
install -m 644 "$PROGRAMS_DIR/page.html" .

SHEAVES_PRELOAD=$work/libsheaves_preload.so "${user[@]}" ./sheaves run --verbose -- "$browser" \
    --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --user-data-dir="$work/home/data" \
    --dump-dom "file://$work/page.html" >dom 2>log &
chromium=$!
servers+=("$chromium")

# Some process of it renders, in a sandbox and beside the preload object.
# shellcheck disable=SC2317 # wait_until calls it
one_is_confined() {
    local folder
    for folder in /proc/[0-9]*; do
        if tr '\0' ' ' <"$folder/cmdline" | grep -q -- "--type=renderer .*$work" \
            && is_confined "${folder#/proc/}" && grep -q "$work" "$folder/maps"; then
            return
        fi
    done
    return 1
} 2>/dev/null
wait_until 60 one_is_confined
status=0
wait "$chromium" || status=$?
((status == 0)) || die "status $status: $(tail -n 1 log)"
grep -q 'the sum is 5002400000' dom || die "the page was not rendered: $(grep sum dom)"
grep -q 'does not run on Sheaves .*malloc is that of chromium' log \
    || die "another malloc than it had: $(grep sheaves: log)"
if grep -E 'seccomp-bpf failure|CRASH|Received signal' log >crashes; then
    die "$(head -n 1 crashes)"
fi
version=$("$browser" --version | cut -d ' ' -f 2)
finish "version $version, the page is rendered in a sandbox, with its own malloc"
