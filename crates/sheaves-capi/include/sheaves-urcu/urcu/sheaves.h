/* The functions behind the flavours' names: liburcu's published interface, on Sheaves.
 *
 * All flavours except qsbr are the same: any thread may read at any time, without registration. A
 * thread that is registered or online by qsbr is a reader from one quiescent state to the next; a
 * wait for readers, in any flavour, is a quiescent state. Inside a read section such a wait aborts
 * the process. Forks need no calls before and after.
 *
 * Beside these are lists, stacks, queues, atomic operations and references. The hash table is
 * liburcu's own, if it is installed.
 */

#ifndef SHEAVES_URCU_H
#define SHEAVES_URCU_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#ifdef _LGPL_SOURCE
/* Programs find these here, as in liburcu. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>
#endif

#include <sheaves.h>

#include <urcu/list.h>
#include <urcu/pointer.h>
#include <urcu/system.h>
#include <urcu/wfcqueue.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 16 bytes, which need no initialisation. */
struct rcu_head {
    void *sheaves_next;
    void (*func)(struct rcu_head *head);
};

struct urcu_gp_poll_state {
    unsigned long grace_period_id;
};

struct urcu_atfork {
    void (*before_fork)(void *priv);
    void (*after_fork_parent)(void *priv);
    void (*after_fork_child)(void *priv);
    void *priv;
};

/* Readers. */
extern int sheaves_urcu_read_ongoing(void);
extern void sheaves_urcu_register_thread(void);
extern void sheaves_urcu_unregister_thread(void);
extern void sheaves_urcu_thread_online(void);
extern void sheaves_urcu_thread_offline(void);
extern void sheaves_urcu_quiescent_state(void);
extern void sheaves_urcu_init(void);
extern void sheaves_urcu_exit(void);
extern void sheaves_urcu_before_fork(void);
extern void sheaves_urcu_after_fork_parent(void);
extern void sheaves_urcu_after_fork_child(void);
extern void sheaves_urcu_defer_exit(void);
extern void sheaves_urcu_qsbr_read_lock(void);
extern void sheaves_urcu_qsbr_read_unlock(void);
extern void sheaves_urcu_qsbr_quiescent_state(void);
extern void sheaves_urcu_qsbr_thread_offline(void);
extern void sheaves_urcu_qsbr_thread_online(void);
extern void sheaves_urcu_qsbr_register_thread(void);
extern void sheaves_urcu_qsbr_unregister_thread(void);

static inline void sheaves_urcu_read_lock(void)
{
    sheaves_rcu_read_lock();
}

static inline void sheaves_urcu_read_unlock(void)
{
    sheaves_rcu_read_unlock();
}

#if defined(SHEAVES_INLINED)
static inline void sheaves_urcu_qsbr_read_lock_inline(void)
{
    if (__builtin_expect(!sheaves_thread_v0.is_online, 0))
        sheaves_rcu_read_lock();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void sheaves_urcu_qsbr_read_unlock_inline(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(!sheaves_thread_v0.is_online, 0))
        sheaves_rcu_read_unlock();
}
#else
#define sheaves_urcu_qsbr_read_lock_inline sheaves_urcu_qsbr_read_lock
#define sheaves_urcu_qsbr_read_unlock_inline sheaves_urcu_qsbr_read_unlock
#endif

/* Waiting for readers. */
extern void sheaves_urcu_synchronize_rcu(void);
extern struct urcu_gp_poll_state sheaves_urcu_start_poll_synchronize_rcu(void);
extern bool sheaves_urcu_poll_state_synchronize_rcu(struct urcu_gp_poll_state state);

/* Callbacks. One thread of the library runs all of them: call_rcu_data is stored and has no other
 * effect. */
struct call_rcu_data;

#define URCU_CALL_RCU_RT (1U << 0)
#define URCU_CALL_RCU_RUNNING (1U << 1)
#define URCU_CALL_RCU_STOP (1U << 2)
#define URCU_CALL_RCU_STOPPED (1U << 3)
#define URCU_CALL_RCU_PAUSE (1U << 4)
#define URCU_CALL_RCU_PAUSED (1U << 5)

extern void sheaves_urcu_call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
extern struct call_rcu_data *sheaves_urcu_create_call_rcu_data(unsigned long flags,
                                                               int cpu_affinity);
extern void sheaves_urcu_call_rcu_data_free(struct call_rcu_data *crdp);
extern struct call_rcu_data *sheaves_urcu_get_default_call_rcu_data(void);
extern struct call_rcu_data *sheaves_urcu_get_cpu_call_rcu_data(int cpu);
extern struct call_rcu_data *sheaves_urcu_get_thread_call_rcu_data(void);
extern struct call_rcu_data *sheaves_urcu_get_call_rcu_data(void);
extern pthread_t sheaves_urcu_get_call_rcu_thread(struct call_rcu_data *crdp);
extern void sheaves_urcu_set_thread_call_rcu_data(struct call_rcu_data *crdp);
extern int sheaves_urcu_set_cpu_call_rcu_data(int cpu, struct call_rcu_data *crdp);
extern int sheaves_urcu_create_all_cpu_call_rcu_data(unsigned long flags);
extern void sheaves_urcu_free_all_cpu_call_rcu_data(void);
extern void sheaves_urcu_call_rcu_before_fork(void);
extern void sheaves_urcu_call_rcu_after_fork_parent(void);
extern void sheaves_urcu_call_rcu_after_fork_child(void);
extern void sheaves_urcu_barrier(void);

extern void sheaves_urcu_defer_rcu(void (*fct)(void *p), void *p);
extern int sheaves_urcu_defer_register_thread(void);
extern void sheaves_urcu_defer_unregister_thread(void);
extern void sheaves_urcu_defer_barrier(void);
extern void sheaves_urcu_defer_barrier_thread(void);

extern void sheaves_urcu_register_rculfhash_atfork(struct urcu_atfork *atfork);
extern void sheaves_urcu_unregister_rculfhash_atfork(struct urcu_atfork *atfork);

/* A flavour as a value. */
struct rcu_flavor_struct {
    void (*read_lock)(void);
    void (*read_unlock)(void);
    int (*read_ongoing)(void);
    void (*read_quiescent_state)(void);
    void (*update_call_rcu)(struct rcu_head *head, void (*func)(struct rcu_head *head));
    void (*update_synchronize_rcu)(void);
    void (*update_defer_rcu)(void (*fct)(void *p), void *p);
    void (*thread_offline)(void);
    void (*thread_online)(void);
    void (*register_thread)(void);
    void (*unregister_thread)(void);
    void (*barrier)(void);
    void (*register_rculfhash_atfork)(struct urcu_atfork *atfork);
    void (*unregister_rculfhash_atfork)(struct urcu_atfork *atfork);
    struct urcu_gp_poll_state (*update_start_poll_synchronize_rcu)(void);
    bool (*update_poll_state_synchronize_rcu)(struct urcu_gp_poll_state state);
};

extern const struct rcu_flavor_struct sheaves_urcu_flavor;
extern const struct rcu_flavor_struct sheaves_urcu_qsbr_flavor;

#ifdef __cplusplus
}
#endif

/* What <sheaves.h> tells ThreadSanitizer of its calls. In a thread of qsbr, quiescent states end
 * sections. Calls by the value of a flavour are not told. */
#if defined(SHEAVES_TSAN) && defined(SHEAVES_INLINED)
#define SHEAVES_URCU_ENDS(call) (sheaves_tsan_ends(), (call))
#define SHEAVES_URCU_WAITS(call) (sheaves_tsan_ends(), (call), (void)sheaves_tsan_waited(0))
#define sheaves_urcu_qsbr_unregister_thread() \
    SHEAVES_URCU_ENDS(sheaves_urcu_qsbr_unregister_thread())
#define sheaves_urcu_qsbr_thread_offline() SHEAVES_URCU_ENDS(sheaves_urcu_qsbr_thread_offline())
#define sheaves_urcu_qsbr_quiescent_state() SHEAVES_URCU_ENDS(sheaves_urcu_qsbr_quiescent_state())
#define sheaves_urcu_call_rcu(head, func) SHEAVES_URCU_ENDS(sheaves_urcu_call_rcu(head, func))
#define sheaves_urcu_defer_rcu(fct, p) SHEAVES_URCU_ENDS(sheaves_urcu_defer_rcu(fct, p))
#define sheaves_urcu_synchronize_rcu() SHEAVES_URCU_WAITS(sheaves_urcu_synchronize_rcu())
#define sheaves_urcu_poll_state_synchronize_rcu(state) \
    (sheaves_tsan_waited(sheaves_urcu_poll_state_synchronize_rcu(state)) != 0)
#define sheaves_urcu_barrier() SHEAVES_URCU_WAITS(sheaves_urcu_barrier())
#define sheaves_urcu_defer_barrier() SHEAVES_URCU_WAITS(sheaves_urcu_defer_barrier())
#define sheaves_urcu_defer_barrier_thread() \
    SHEAVES_URCU_WAITS(sheaves_urcu_defer_barrier_thread())
#define sheaves_urcu_defer_unregister_thread() \
    SHEAVES_URCU_WAITS(sheaves_urcu_defer_unregister_thread())
#endif

#endif /* SHEAVES_URCU_H */
