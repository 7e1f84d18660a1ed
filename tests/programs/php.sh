#!/usr/bin/env bash
# php: its modules are loaded with RTLD_DEEPBIND, so that their `free` would be libc's. The script
# loads some and allocates 100 MB in arrays, with php's own allocator and without it.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

php -n -v >/dev/null || die "php does not run"
for own in 1 0; do
    export USE_ZEND_ALLOC=$own
    php "$PROGRAMS_DIR/allocate.php" >"$work/without" 2>"$work/errors" \
        || die "without Sheaves: $(head -n 1 "$work/errors")"
    status=0
    on_sheaves php "$PROGRAMS_DIR/allocate.php" >"$work/with" 2>"$work/errors" || status=$?
    ((status == 0)) || die "USE_ZEND_ALLOC=$own: status $status, $(head -n 1 "$work/errors")"
    same "$work/without" "$work/with" "what php prints with USE_ZEND_ALLOC=$own"
    facts=$(proof_of_sheaves)
    rm -f "$work/stats"
done
finish "$(php -r 'echo "php ", PHP_VERSION;'), digest $(head -c 16 "$work/with")..., $facts"
