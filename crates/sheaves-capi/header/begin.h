#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__linux__) || UINTPTR_MAX != UINT64_MAX
#error "Sheaves needs Linux on a 64-bit machine"
#endif

/* Version of this header. */
#define SHEAVES_VERSION_MAJOR @MAJOR@
#define SHEAVES_VERSION_MINOR @MINOR@
#define SHEAVES_VERSION_PATCH @PATCH@
#define SHEAVES_VERSION "@MAJOR@.@MINOR@.@PATCH@"

#if defined(__GNUC__)
#define SHEAVES_MUST_USE __attribute__((warn_unused_result))
#define SHEAVES_API __attribute__((visibility("default")))
#define SHEAVES_MALLOC __attribute__((malloc))
#else
#define SHEAVES_MUST_USE
#define SHEAVES_API
#define SHEAVES_MALLOC
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/* At least size bytes at a multiple of 16, uninitialised; NULL and ENOMEM when memory is out. Size
 * 0 gives a unique pointer.
 *
 * About 20 instructions, no lock, no atomic instruction. The slow path may sleep on a lock for
 * microseconds. For any thread at any time; not for signal handlers. After fork() the child has a
 * copy of all blocks. */
SHEAVES_API SHEAVES_MUST_USE SHEAVES_MALLOC void *sheaves_malloc(size_t size);

/* Frees a block. NULL is ignored, errno is kept. As cheap as sheaves_malloc.
 *
 * An address that is not a block of this family, or was freed before, aborts the process with one
 * line, at once or when the block returns to its slab. Until then a block that was freed twice may
 * be allocated twice; with SHEAVES_HARDEN each free is checked. */
SHEAVES_API void sheaves_free(void *block);

#if defined(__cplusplus)
}
#endif
