#!/usr/bin/env bash
# node: V8, libuv and worker threads. The script allocates buffers, strings and objects in several
# threads; its digest is known.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

expected=97311cdb9c0ea6f6df4473ae8b97813b6e87155373dfa017e30193a0e0fa0147
digest=$(on_sheaves node "$PROGRAMS_DIR/allocate.js")
proof=$(proof_of_sheaves)
[[ $digest == "$(node "$PROGRAMS_DIR/allocate.js")" ]] || die "another digest than without Sheaves"
[[ $digest == "$expected" ]] || die "digest $digest, not $expected"
finish "node $(node --version), digest ${digest:0:16}..., $proof"
