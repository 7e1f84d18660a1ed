//! What help and the man pages say after the options: examples, columns, exit statuses.
//!
//! A note has parts, with an empty line between them. The first line of a part is its heading; each
//! of the others is two spaces, a term, two spaces or more, and what the term means.

/// The exit statuses of the commands that ask a running process, after the lines of the caller.
macro_rules! asks {
    ($($line:literal)*) => { asks!([$($line)*] [] []) };
    ([$($line:literal)*] [$($before:literal)*] [$($between:literal)*]) => {
        concat!(
            $($line, "\n",)*
            "\nExit status:",
            "\n  0   Done.",
            $($before,)*
            "\n  67  There is no such process, or more than one has the name.",
            "\n  69  It does not run on Sheaves or ends, or the terminal or address is not there.",
            $($between,)*
            "\n  74  Stdout cannot be written.",
            "\n  75  The process does not answer now.",
            "\n  76  It refuses, or its answer cannot be understood.",
            "\n  77  It is another user's.",
        )
    };
}

/// The same, where files are read and written.
macro_rules! reads {
    ($($line:literal)*) => {
        asks!(
            [$($line)*]
            [
                "\n  65  The file is no heap profile, or not all of one, or has nothing to draw."
                "\n  66  The file cannot be read."
            ]
            ["\n  73  A file cannot be written."]
        )
    };
}

pub(crate) const SHEAVES: &str = "\
Examples:
  sheaves demo                     Compare with glibc's malloc, in a minute.
  sheaves run redis-server         Start a program on Sheaves.
  sheaves top                      Show the processes that run on it.
  sheaves stat redis-server        Print the statistics of one.
  sheaves prof heap redis-server   Show which calls allocated what it uses.

Exit status:
  0  Done.
  2  The command line is wrong. Other statuses: see the subcommand.";

pub(crate) const RUN: &str = "\
The command becomes PROGRAM: process number, signals and exit status are PROGRAM's. A program that \
cannot run on Sheaves is refused before: one that is static, setuid, for another machine or C \
library, or built with a sanitizer. An allocator that PROGRAM or its libraries bring is named in a \
warning.

Examples:
  sheaves run redis-server --save ''              Everything after PROGRAM is the program's.
  sheaves run --stats make -j4                    A table on stderr as each process ends.
  SHEAVES_PROF=524288 sheaves run python3 app.py  With a heap profile from the start.

Exit status:
  127    PROGRAM is not found.
  126    PROGRAM cannot run, or cannot run on Sheaves.
  125    Sheaves itself failed.
  other  That of PROGRAM.";

pub(crate) const STAT: &str = asks!(
    "Examples:"
    "  sheaves stat 1234                       The process with this number."
    "  sheaves stat --json redis-server | jq   The only process on Sheaves with this name."
    ""
    "Columns:"
    "  cache       Objects of one size: malloc-64 has the blocks of 49 to 64 bytes."
    "  size        Bytes of an object."
    "  out         Objects that the program has."
    "  slots       Free objects at hand in the slots, one for each CPU."
    "  depot       Free objects in full sheaves that any slot may take."
    "  slabs-free  Free objects in slabs."
    "  slabs       Slabs: runs of pages that are cut into objects."
    "  KiB         Their memory."
    "  refills     Times that a slot took objects from slabs."
    "  flushes     Times that a slot gave objects back to slabs."
);

pub(crate) const TOP: &str = asks!(
    "Keys: q quits, space asks at once, arrows and enter choose a process, escape goes back, and"
    "the keys of --sort sort the caches."
    ""
    "Examples:"
    "  sheaves top                      Processes, the largest first."
    "  sheaves top --sort c redis-server  The caches of one, by their memory."
    "  sheaves top --once               Print the table once, without a terminal."
    "  sheaves top --json | jq .        A line of JSON each second."
    ""
    "Columns of processes:"
    "  RSS       Resident memory of the process, by the kernel."
    "  USED      Memory of blocks that the program has."
    "  CACHED    Memory of free objects in slots, in the depot and in slabs."
    "  DIRTY     Free memory that the kernel has not got back."
    "  HEAP      Memory that is mapped for slabs."
    "  DEFER     Memory that waits for a grace period."
    "  READ      Threads in an RCU read section."
    "  GP/s      Grace periods per second."
    ""
    "Columns of caches:"
    "  OBJS      Objects, in use or free."
    "  ACTIVE    Objects that the program has."
    "  USE       ACTIVE of OBJS."
    "  SIZE      Bytes of an object."
    "  SLABS     Slabs."
    "  BYTES     Their memory."
    "  REFILL/s  Times per second that a slot took objects from slabs."
    "  FLUSH/s   Times per second that a slot gave objects back to slabs."
    "  SLOTS     Free objects at hand in slots."
    "  DEPOT     Free objects in full sheaves of the depot."
    "  DEFER     Objects that wait for a grace period."
);

pub(crate) const EXPORT: &str = asks!(
    "Examples:"
    "  sheaves export                           All processes, once."
    "  sheaves export --listen 127.0.0.1:9464   At http://127.0.0.1:9464/metrics, until a signal."
    "  sheaves export redis-server nginx        Only processes with these names."
);

pub(crate) const RCU: &str = asks!(
    "A thread with a section of 20 ms or more is stopped for some microseconds, to read its stack."
    ""
    "Examples:"
    "  sheaves rcu 1234                  Look for two seconds."
    "  sheaves rcu --seconds 60 server   Look for a minute."
);

pub(crate) const PROF_ON: &str = asks!(
    "Examples:"
    "  sheaves prof on 1234                        One sample in 512 KiB."
    "  sheaves prof on --rate 65536 redis-server   One in 64 KiB: more exact, and slower."
    "  sheaves prof off redis-server               No further samples."
);

pub(crate) const DUMP: &str = reads!(
    "Examples:"
    "  sheaves prof dump 1234 -o before          Keep what there is now."
    "  sheaves prof diff before 1234             Compare it with what there is later."
);

pub(crate) const DIFF: &str = reads!(
    "Examples:"
    "  sheaves prof diff before after            Compare two files."
    "  sheaves prof diff before redis-server     Compare a file with a process as it is now."
    "  sheaves prof diff --svg d.svg before after   Also draw it."
);

pub(crate) const HEAP: &str = reads!(
    "Turn profiling on first, by `sheaves prof on`, and let the program run. What it has allocated \
     before is not in the profile. A place has an estimate of its bytes in use and their share, of \
     the objects, and their cache; from 10 samples it may be off by a third, from 100 by a tenth. \
     The innermost function is first, where symbols are missing as a file and an offset."
    ""
    "Examples:"
    "  sheaves prof heap redis-server            The 30 largest places, as text."
    "  sheaves prof heap 1234 --svg heap.svg     A flame graph, for a browser."
    "  sheaves prof heap dump -o heap.pb.gz      A file for `go tool pprof`."
);

pub(crate) const LEAKS: &str = reads!(
    "Examples:"
    "  sheaves prof leaks redis-server                      Two profiles, a minute apart."
    "  sheaves prof leaks --seconds 3600 --svg l.svg 1234   An hour apart, as a flame graph too."
);

pub(crate) const GUARD: &str = asks!(
    "Examples:"
    "  sheaves guard on 1234                  Guard one in 16 samples."
    "  sheaves guard on --rate 1/1 server     Guard each sample, as long as there is room."
    "  sheaves guard off server               Guard no further blocks."
);

pub(crate) const INSPECT: &str = "\
Examples:
  sheaves inspect core.1234                          Explain a file.
  coredumpctl dump -o core server && sheaves inspect core   The last dump that systemd has.

Exit status:
  0   An error was found and explained.
  1   The process had no guarded block there.
  65  The file is no core dump of a process with guarded blocks.
  66  The file cannot be read.
  74  Stdout cannot be written.";

pub(crate) const DOCTOR: &str = "\
Examples:
  sheaves doctor                   Check the machine.
  sheaves doctor redis-server      Also check whether this program can run on Sheaves.

Exit status:
  0   Nothing failed. Warnings do not count.
  1   Something failed.
  74  Stdout cannot be written.";
