//! Probes for tracers (USDT): places in slow paths that bpftrace, perf and gdb can look at.
//!
//! A probe is one `nop`, which a tracer replaces by a breakpoint, and a note in the file that says
//! where it is and in which registers its arguments are, in the format of SystemTap's `sys/sdt.h`.
//! `docs/tracing.md` describes all probes for users; tests compare it with the notes.
//!
//! Arguments are words, in the registers in which the C ABI passes them: OpenTelemetry's profiler
//! does not decode the notes. A fast path must not have a probe. There are none on architectures
//! other than x86-64.

/// One probe: the instruction, and its note.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! site {
    ($provider:ident $name:ident $places:literal $($register:tt $argument:ident)*) => {
        // SAFETY: a `nop` that changes nothing. Everything else is in sections of its own.
        unsafe {
            core::arch::asm!(
                "990: nop",
                // In the group of the function's section, if it has one. With R, for lld, the note
                // is kept, and so is the function: otherwise the note could point to nothing.
                ".pushsection .note.stapsdt, \"?R\", \"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, _.stapsdt.base, 0",
                concat!(".asciz \"", stringify!($provider), "\""),
                concat!(".asciz \"", stringify!($name), "\""),
                concat!(".asciz \"", $places, "\""),
                "994: .balign 4",
                ".popsection",
                // Its address tells tracers by how much a later tool has moved the code. It is
                // executable: perf takes its offset in the file, and expects the code near it.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"axG\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $(in($register) $argument,)*
                // Not `nomem`: tracers read the memory to which an argument points.
                options(att_syntax, readonly, nostack, preserves_flags)
            );
        }
    };
}

/// No probe, on other architectures.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
macro_rules! site {
    ($provider:ident $name:ident $places:literal $($register:tt $argument:ident)*) => {{
        $(let _ = $argument;)*
    }};
}

/// Assigns registers to arguments.
macro_rules! place {
    ($provider:ident $name:ident $a:ident) => {
        site!($provider $name "8@%rdi" "rdi" $a)
    };
    ($provider:ident $name:ident $a:ident $b:ident) => {
        site!($provider $name "8@%rdi 8@%rsi" "rdi" $a "rsi" $b)
    };
    ($provider:ident $name:ident $a:ident $b:ident $c:ident) => {
        site!($provider $name "8@%rdi 8@%rsi 8@%rdx" "rdi" $a "rsi" $b "rdx" $c)
    };
    ($provider:ident $name:ident $a:ident $b:ident $c:ident $d:ident) => {
        site!(
            $provider $name "8@%rdi 8@%rsi 8@%rdx 8@%rcx" "rdi" $a "rsi" $b "rdx" $c "rcx" $d
        )
    };
}

/// Defines a function for each probe; it is part of its caller, so that the probe is there.
macro_rules! probes {
    ($($(#[$doc:meta])* $function:ident = $provider:ident:$name:ident($($argument:ident),*);)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $function($($argument: usize),*) {
                place!($provider $name $($argument)*);
            }
        )*
    };
}

probes! {
    /// A cache exists. `name` is the address of `name_bytes` bytes.
    cache_made = sheaves:cache_made(cache, object_bytes, name, name_bytes);
    /// Objects were taken from slabs: `got` is less than `wanted` if memory is out.
    refill = sheaves:refill(cache, wanted, got, object_bytes);
    /// Objects went back to their slabs.
    flush = sheaves:flush(cache, objects, object_bytes);
    /// A cache got a slab.
    slab_made = sheaves:slab_made(cache, address, bytes);
    /// A cache gave back a slab.
    slab_released = sheaves:slab_released(cache, address, bytes);
    /// The heap has grown by a chunk.
    chunk_made = sheaves:chunk_made(address, bytes);
    /// Pages went back to the kernel.
    purge = sheaves:purge(address, bytes);
    /// A large block was allocated: a mapping of its own.
    large_alloc = sheaves:large_alloc(address, bytes);
    /// A large block changed its size, and perhaps its place, without a copy.
    large_resize = sheaves:large_resize(old_address, address, bytes);
    /// A large block was freed.
    large_free = sheaves:large_free(address, bytes);
    /// An allocation has failed: memory is out.
    alloc_failed = sheaves:alloc_failed(bytes, align);
    /// The heap is near its limit: unused memory goes back to the kernel.
    limit_near = sheaves:limit_near(heap_bytes, limit_bytes);
    /// A tick of the library's thread is over; `is_left` is 1 if unused memory may be left.
    keeper_look = sheaves:keeper_look(is_left);
    /// A sheaf of deferred objects was sealed: it waits for the grace period `cookie`. `cache` is 0
    /// for deferred calls and for channels.
    seal = sheaves:seal(cache, objects, cookie);
    /// A grace period begins. `domain` is the address of an SRCU domain, 0 for the default one.
    grace_period_begin = sheaves:grace_period_begin(number, domain);
    /// A grace period is over.
    grace_period_end = sheaves:grace_period_end(number, domain);
    /// A thread's read section has delayed a grace period for so long that it is reported; `thread`
    /// is 0 if it is unknown.
    stall = sheaves:stall(thread, age_ms);
    /// A deferred callback has been running for so long that it is reported.
    callback_stall = sheaves:callback_stall(function, age_ms);
    /// A sampled allocation that stands for `weight` bytes, as in OpenTelemetry's design document
    /// 00003.
    sample_alloc = otel_memory:alloc(address, size, weight);
    /// The free of a sampled allocation.
    sample_free = otel_memory:free(address);
}
