#!/usr/bin/env bash
# git: a repository of thousands of objects is made, cloned, repacked and checked. Every child of
# git runs on Sheaves, too.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME=$work
commits=400

# A history in which each commit adds eight files and changes two of the commit before.
history() {
    awk -v commits="$commits" '
        function text(seed, lines,   i, all) {
            all = ""
            for (i = 0; i < lines; i++) {
                seed = (seed * 16807) % 2147483647
                all = all sprintf("line %d: %08x and some words\n", i, seed)
            }
            return all
        }
        function file(path, content) {
            printf "M 100644 inline %s\ndata %d\n%s\n", path, length(content), content
        }
        BEGIN {
            for (c = 1; c <= commits; c++) {
                printf "commit refs/heads/main\nmark :%d\n", c
                printf "committer Tester <tester@example.org> %d +0000\n", 1700000000 + c
                printf "data %d\ncommit %d\n", length("commit " c), c
                for (f = 1; f <= 8; f++)
                    file("d" c % 20 "/f" c "_" f, text(c * 100 + f, 5 + (c * f) % 200))
                if (c > 1)
                    for (f = 1; f <= 2; f++)
                        file("d" (c - 1) % 20 "/f" (c - 1) "_" f, text(c * 100 + f, 40))
            }
        }'
}

git init -q -b main origin
history >commands
(cd origin && on_sheaves git fast-import --quiet <../commands && git reset -q --hard main)
objects=$(git -C origin count-objects -v | awk '/^(count|in-pack)/ { sum += $2 } END { print sum }')
((objects > 4000)) || die "only $objects objects"

on_sheaves git clone -q --no-local "file://$work/origin" clone
(cd clone && on_sheaves git repack -adfq)
proof=$(proof_of_sheaves)
on_sheaves git -C clone fsck --full --strict >fsck.log 2>&1 || die "fsck: $(head -n 1 fsck.log)"
on_sheaves git -C clone log -p --stat >log.sheaves
git -C origin log -p --stat >log.plain
same log.plain log.sheaves "git log -p"
[[ $(git -C origin rev-parse main) == "$(git -C clone rev-parse HEAD)" ]] || die "another commit"
diff -r --exclude=.git origin clone >/dev/null || die "the work trees differ"
git -C clone fsck --full --strict >fsck.log 2>&1 \
    || die "fsck without Sheaves: $(head -n 1 fsck.log)"
finish "$objects objects, clone, repack and fsck, trees and log equal, $proof"
