//! The functions of libc's heap, which Miri knows: with them it finds misuse of blocks.

pub use libc::{calloc, free, malloc, malloc_usable_size, posix_memalign, realloc};
