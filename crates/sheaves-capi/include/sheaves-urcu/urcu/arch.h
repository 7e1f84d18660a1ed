/* Fences between threads, a pause in loops that wait, and a clock of the CPU. */

#ifndef SHEAVES_URCU_ARCH_H
#define SHEAVES_URCU_ARCH_H

#include <stdint.h>
#include <syscall.h>

#include <urcu/compiler.h>

#define CAA_CACHE_LINE_SIZE 128

/* All accesses before are done before all accesses after. */
#define cmm_mb() __sync_synchronize()
#define cmm_smp_mb() cmm_mb()
/* The same for loads, and for stores. Between threads weaker fences do. */
#define cmm_rmb() cmm_mb()
#define cmm_wmb() cmm_mb()
#if defined(__x86_64__)
#define cmm_smp_rmb() cmm_barrier()
#define cmm_smp_wmb() cmm_barrier()
#else
#define cmm_smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define cmm_smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif
/* What a loaded address leads to is loaded after it. */
#define cmm_read_barrier_depends() ((void)0)
#define cmm_smp_read_barrier_depends() ((void)0)
/* Caches are coherent. */
#define cmm_mc() cmm_barrier()
#define cmm_rmc() cmm_barrier()
#define cmm_wmc() cmm_barrier()
#define cmm_smp_mc() cmm_barrier()
#define cmm_smp_rmc() cmm_barrier()
#define cmm_smp_wmc() cmm_barrier()

#if defined(__x86_64__)
#define caa_cpu_relax() __asm__ __volatile__("pause" : : : "memory")
#elif defined(__aarch64__)
#define caa_cpu_relax() __asm__ __volatile__("yield" : : : "memory")
#else
#define caa_cpu_relax() cmm_barrier()
#endif

typedef uint64_t caa_cycles_t;

#if defined(__x86_64__)
#define HAS_CAA_GET_CYCLES
static inline caa_cycles_t caa_get_cycles(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define HAS_CAA_GET_CYCLES
static inline caa_cycles_t caa_get_cycles(void)
{
    caa_cycles_t cycles;

    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(cycles));
    return cycles;
}
#endif

#endif /* SHEAVES_URCU_ARCH_H */
