//! Programs in other languages, each with its own use of memory, and tools that work in large
//! blocks.

use std::process::Command;

use super::commands::{run, script};
use super::program::{Program, Result, Round, Sample, Work, nothing};
use crate::repo;

const JAVA: &[(&str, &str)] = &[("javac", "openjdk-17-jdk-headless")];

pub(super) const PROGRAMS: [Program; 7] = [
    Program {
        name: "ruby",
        what: "hashes, arrays and strings, runs",
        folder: "ruby",
        needs: &[("ruby", "ruby")],
        set_up: nothing,
        run: ruby,
    },
    Program {
        name: "perl",
        what: "hashes, lists and regular expressions, runs",
        folder: "perl",
        needs: &[("perl", "perl")],
        set_up: nothing,
        run: perl,
    },
    Program {
        name: "erlang",
        what: "+Mea min, processes that send lists and binaries, runs",
        folder: "erlang",
        needs: &[("erl", "erlang-base")],
        set_up: set_up_erlang,
        run: erlang,
    },
    Program {
        name: "java-buffers",
        what: "direct buffers and deflation in four threads, runs",
        folder: "java",
        needs: JAVA,
        set_up: set_up_java,
        run: java_buffers,
    },
    Program {
        name: "java-threads",
        what: "4,000 threads that start and end, runs",
        folder: "java",
        needs: JAVA,
        set_up: set_up_java,
        run: java_threads,
    },
    Program {
        name: "g++-large",
        what: "two optimized files at a time, runs",
        folder: "gcc-large",
        needs: &[("g++", "g++")],
        set_up: set_up_gcc,
        run: gcc,
    },
    Program {
        name: "imagemagick",
        what: "blurs, resizes and converts an image, runs",
        folder: "imagemagick",
        needs: &[(CONVERT, "imagemagick")],
        set_up: set_up_image,
        run: image,
    },
];

const RUBY: &str = "\
srand(1)
held = {}
400_000.times do |round|
  key = rand(30_000)
  case round % 4
  when 0 then held[key] = Array.new(rand(20)) { |i| (round + i).to_s }
  when 1 then held[key] = { id: key, name: 'n' * rand(200) }
  when 2 then held[key] = (\"a,#{round},\" * 8).split(',').map(&:upcase).length.to_s * 5
  else held.delete(key)
  end
end
puts held.length
";

fn ruby(round: &Round<'_>) -> Result<Sample> {
    let script = script(round.work, "allocate.rb", RUBY)?;
    run(round, "ruby", Command::new("ruby").arg(script))
}

const PERL: &str = "\
use strict;
srand(1);
my %held;
for my $round (1 .. 600_000) {
    my $key = int rand 30_000;
    if ($round % 4 == 0) { $held{$key} = [map { $round + $_ } 0 .. int rand 20]; }
    elsif ($round % 4 == 1) { $held{$key} = { id => $key, name => 'n' x int rand 200 }; }
    elsif ($round % 4 == 2) { $held{$key} = join '-', \"a $round b c d\" =~ /(\\w+)/g; }
    else { delete $held{$key}; }
}
print scalar(keys %held), \"\\n\";
";

fn perl(round: &Round<'_>) -> Result<Sample> {
    let script = script(round.work, "allocate.pl", PERL)?;
    run(round, "perl", Command::new("perl").arg(script))
}

/// Each process keeps lists and binaries, and sends some of them to the next one.
const ERLANG: &str = "\
-module(allocate).
-export([main/0]).
main() ->
    Self = self(),
    Many = [spawn_link(fun() -> work(Self, N, 3000, []) end) || N <- lists:seq(1, 200)],
    [receive {done, P} -> ok end || P <- Many],
    halt(0).
work(Parent, _, 0, _) -> Parent ! {done, self()};
work(Parent, N, Left, Held) ->
    Size = (Left * 7919 + N * 104729) rem 4000,
    Binary = binary:copy(<<Left:32>>, Size div 4 + 20),
    List = lists:seq(1, Size rem 60),
    Kept = lists:sublist([{Left, Binary, List} | Held], 20),
    work(Parent, N, Left - 1, Kept).
";

fn set_up_erlang(work: &Work) -> Result<()> {
    let source = script(work, "allocate.erl", ERLANG)?;
    repo::output_of(Command::new("erlc").arg("-o").arg(&work.folder).arg(source)).map(drop)
}

/// erlang, whose allocators but the necessary ones are off (`+Mea min`), so that libc's serve it.
fn erlang(round: &Round<'_>) -> Result<Sample> {
    let mut erl = Command::new("erl");
    erl.args(["+Mea", "min", "+S", "2", "-noshell", "-pa"]).arg(&round.work.folder);
    run(round, "erl", erl.args(["-s", "allocate", "main"]))
}

/// Memory outside of Java's heap, and threads.
const JAVA_SOURCE: &str = "\
import java.nio.ByteBuffer;
import java.util.*;
import java.util.zip.*;
public class Allocate {
    static void buffers(int seed) {
        Random random = new Random(seed);
        ByteBuffer[] held = new ByteBuffer[64];
        byte[] input = new byte[20000], output = new byte[30000];
        for (int round = 0; round < 4000; round++) {
            int size = 64 << random.nextInt(12);
            held[random.nextInt(64)] = ByteBuffer.allocateDirect(size).putInt(0, round);
            if (round % 8 == 0) {
                Deflater deflater = new Deflater(1);
                random.nextBytes(input);
                deflater.setInput(input);
                deflater.finish();
                deflater.deflate(output);
                deflater.end();
            }
        }
    }
    public static void main(String[] words) throws Exception {
        boolean many = words[0].equals(\"threads\");
        int inAll = many ? 4000 : 4, atOnce = many ? 50 : 4;
        for (int first = 0; first < inAll; first += atOnce) {
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < atOnce; i++) {
                int seed = first + i;
                threads.add(new Thread(() -> {
                    if (many) ByteBuffer.allocateDirect(1000 + seed % 5000); else buffers(seed);
                }));
            }
            for (Thread thread : threads) thread.start();
            for (Thread thread : threads) thread.join();
        }
    }
}
";

fn set_up_java(work: &Work) -> Result<()> {
    let source = script(work, "Allocate.java", JAVA_SOURCE)?;
    repo::output_of(Command::new("javac").arg("-d").arg(&work.folder).arg(source)).map(drop)
}

fn java(round: &Round<'_>, word: &str) -> Result<Sample> {
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-XX:+UseSerialGC", "-cp"]).arg(&round.work.folder);
    run(round, word, java.args(["Allocate", word]))
}

fn java_buffers(round: &Round<'_>) -> Result<Sample> {
    java(round, "buffers")
}

fn java_threads(round: &Round<'_>) -> Result<Sample> {
    java(round, "threads")
}

/// Containers, streams and expressions of the standard library; each file has a type of its own.
const CPP: &str = "\
#include <bits/stdc++.h>
struct TN {
    int key;
    std::string name;
    auto operator<=>(const TN &) const = default;
};
int fN(std::vector<TN> &all, const std::string &words) {
    std::map<TN, std::deque<TN>> tree;
    std::unordered_map<std::string, TN> table;
    std::priority_queue<TN> queue(all.begin(), all.end());
    for (auto &one : all) tree[one].push_back(one), table[one.name] = one;
    std::stable_sort(all.begin(), all.end());
    std::ranges::sort(all);
    std::ostringstream out;
    std::regex pattern(words);
    for (auto &[one, list] : tree) out << std::regex_replace(one.name, pattern, words);
    auto add = [](int sum, auto &one) { return sum + one.key; };
    auto later = std::async([&] { return std::accumulate(all.begin(), all.end(), 0, add); });
    return later.get() + int(out.str().size() + table.size() + queue.size());
}
";

fn set_up_gcc(work: &Work) -> Result<()> {
    for file in ["0", "1"] {
        let text = CPP.replace("TN", &format!("T{file}")).replace("fN", &format!("f{file}"));
        script(work, &format!("part{file}.cc"), &text)?;
    }
    Ok(())
}

/// g++ -O2 on two files at a time.
fn gcc(round: &Round<'_>) -> Result<Sample> {
    let mut xargs = Command::new("sh");
    xargs.args(["-c", "ls part*.cc | xargs -P2 -n1 g++ -std=c++20 -O2 -c"]);
    run(round, "g++-large", xargs.current_dir(&round.work.folder))
}

/// ImageMagick by the name that no other program has.
const CONVERT: &str = "convert-im6.q16";
/// An image to work on.
const INPUT: &str = "input.png";

fn set_up_image(work: &Work) -> Result<()> {
    let mut convert = Command::new(CONVERT);
    convert.args(["-size", "1600x1200", "-seed", "1", "plasma:fractal"]);
    repo::output_of(convert.arg(work.folder.join(INPUT))).map(drop)
}

fn image(round: &Round<'_>) -> Result<Sample> {
    let mut convert = Command::new(CONVERT);
    convert.arg(round.work.folder.join(INPUT)).args([
        "-blur",
        "0x3",
        "-resize",
        "70%",
        "-colorspace",
        "Lab",
        "-negate",
    ]);
    run(
        round,
        "convert",
        convert.args(["-resize", "40%"]).arg(round.work.folder.join("output.png")),
    )
}
