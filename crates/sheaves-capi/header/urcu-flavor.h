/* The flavour of liburcu @what@: its names.
 * Made by `cargo xtask header`: not to be edited. */

#ifndef SHEAVES_URCU_@NAME@_H
#define SHEAVES_URCU_@NAME@_H

#include <urcu/sheaves.h>

@not qsbr@ #define urcu_@name@_read_lock sheaves_urcu_read_lock
@not qsbr@ #define urcu_@name@_read_unlock sheaves_urcu_read_unlock
@not qsbr@ #define urcu_@name@_quiescent_state sheaves_urcu_nothing
@not qsbr@ #define urcu_@name@_thread_offline sheaves_urcu_nothing
@not qsbr@ #define urcu_@name@_thread_online sheaves_urcu_nothing
@not qsbr@ #define urcu_@name@_register_thread sheaves_urcu_nothing
@not qsbr@ #define urcu_@name@_unregister_thread sheaves_urcu_nothing
@not qsbr@ #define urcu_@name@_flavor sheaves_urcu_flavor
@only qsbr@ #define urcu_@name@_read_lock sheaves_urcu_qsbr_read_lock_inline
@only qsbr@ #define urcu_@name@_read_unlock sheaves_urcu_qsbr_read_unlock_inline
@only qsbr@ #define urcu_@name@_quiescent_state sheaves_urcu_qsbr_quiescent_state
@only qsbr@ #define urcu_@name@_thread_offline sheaves_urcu_qsbr_thread_offline
@only qsbr@ #define urcu_@name@_thread_online sheaves_urcu_qsbr_thread_online
@only qsbr@ #define urcu_@name@_register_thread sheaves_urcu_qsbr_thread_online
@only qsbr@ #define urcu_@name@_unregister_thread sheaves_urcu_qsbr_thread_offline
@only qsbr@ #define urcu_@name@_flavor sheaves_urcu_qsbr_flavor
#define urcu_@name@_read_ongoing sheaves_urcu_read_ongoing
#define urcu_@name@_synchronize_rcu sheaves_urcu_synchronize_rcu
#define urcu_@name@_init sheaves_urcu_nothing
#define urcu_@name@_exit sheaves_urcu_nothing
#define urcu_@name@_start_poll_synchronize_rcu sheaves_urcu_start_poll_synchronize_rcu
#define urcu_@name@_poll_state_synchronize_rcu sheaves_urcu_poll_state_synchronize_rcu
#define urcu_@name@_call_rcu sheaves_urcu_call_rcu
#define urcu_@name@_create_call_rcu_data sheaves_urcu_create_call_rcu_data
#define urcu_@name@_call_rcu_data_free sheaves_urcu_call_rcu_data_free
#define urcu_@name@_get_default_call_rcu_data sheaves_urcu_get_default_call_rcu_data
#define urcu_@name@_get_cpu_call_rcu_data sheaves_urcu_get_cpu_call_rcu_data
#define urcu_@name@_get_thread_call_rcu_data sheaves_urcu_get_thread_call_rcu_data
#define urcu_@name@_get_call_rcu_data sheaves_urcu_get_call_rcu_data
#define urcu_@name@_get_call_rcu_thread sheaves_urcu_get_call_rcu_thread
#define urcu_@name@_set_thread_call_rcu_data sheaves_urcu_set_thread_call_rcu_data
#define urcu_@name@_set_cpu_call_rcu_data sheaves_urcu_set_cpu_call_rcu_data
#define urcu_@name@_create_all_cpu_call_rcu_data sheaves_urcu_create_all_cpu_call_rcu_data
#define urcu_@name@_free_all_cpu_call_rcu_data sheaves_urcu_free_all_cpu_call_rcu_data
#define urcu_@name@_call_rcu_before_fork sheaves_urcu_call_rcu_before_fork
#define urcu_@name@_call_rcu_after_fork_parent sheaves_urcu_call_rcu_after_fork_parent
#define urcu_@name@_call_rcu_after_fork_child sheaves_urcu_call_rcu_after_fork_child
#define urcu_@name@_barrier sheaves_urcu_barrier
#define urcu_@name@_defer_rcu sheaves_urcu_defer_rcu
#define urcu_@name@_defer_register_thread sheaves_urcu_defer_register_thread
#define urcu_@name@_defer_unregister_thread sheaves_urcu_defer_unregister_thread
#define urcu_@name@_defer_barrier sheaves_urcu_barrier
#define urcu_@name@_defer_barrier_thread sheaves_urcu_barrier
#define urcu_@name@_defer_exit sheaves_urcu_nothing
#define urcu_@name@_register_rculfhash_atfork sheaves_urcu_register_rculfhash_atfork
#define urcu_@name@_unregister_rculfhash_atfork sheaves_urcu_unregister_rculfhash_atfork
@only bp@ #define urcu_@name@_before_fork sheaves_urcu_nothing
@only bp@ #define urcu_@name@_after_fork_parent sheaves_urcu_nothing
@only bp@ #define urcu_@name@_after_fork_child sheaves_urcu_nothing
#define _urcu_@name@_read_lock urcu_@name@_read_lock
#define _urcu_@name@_read_unlock urcu_@name@_read_unlock
#define _urcu_@name@_read_ongoing urcu_@name@_read_ongoing
#define _urcu_@name@_quiescent_state urcu_@name@_quiescent_state
#define _urcu_@name@_thread_offline urcu_@name@_thread_offline
#define _urcu_@name@_thread_online urcu_@name@_thread_online
@only bp@ #define urcu_@name@_dereference rcu_dereference
@only bp@ #define urcu_@name@_dereference_sym rcu_dereference_sym
@only bp@ #define urcu_@name@_set_pointer rcu_set_pointer
@only bp@ #define urcu_@name@_set_pointer_sym rcu_set_pointer_sym
@only bp@ #define urcu_@name@_xchg_pointer rcu_xchg_pointer
@only bp@ #define urcu_@name@_xchg_pointer_sym rcu_xchg_pointer_sym
@only bp@ #define urcu_@name@_cmpxchg_pointer rcu_cmpxchg_pointer
@only bp@ #define urcu_@name@_cmpxchg_pointer_sym rcu_cmpxchg_pointer_sym

/* Names with the flavour at the end, of old programs. */
#ifndef URCU_NO_COMPAT_IDENTIFIERS
#define rcu_read_lock_@name@ urcu_@name@_read_lock
#define rcu_read_unlock_@name@ urcu_@name@_read_unlock
#define rcu_quiescent_state_@name@ urcu_@name@_quiescent_state
#define rcu_thread_offline_@name@ urcu_@name@_thread_offline
#define rcu_thread_online_@name@ urcu_@name@_thread_online
#define rcu_register_thread_@name@ urcu_@name@_register_thread
#define rcu_unregister_thread_@name@ urcu_@name@_unregister_thread
#define rcu_flavor_@name@ urcu_@name@_flavor
#define rcu_read_ongoing_@name@ urcu_@name@_read_ongoing
#define synchronize_rcu_@name@ urcu_@name@_synchronize_rcu
#define rcu_init_@name@ urcu_@name@_init
#define rcu_exit_@name@ urcu_@name@_exit
#define call_rcu_@name@ urcu_@name@_call_rcu
#define create_call_rcu_data_@name@ urcu_@name@_create_call_rcu_data
#define call_rcu_data_free_@name@ urcu_@name@_call_rcu_data_free
#define get_default_call_rcu_data_@name@ urcu_@name@_get_default_call_rcu_data
#define get_cpu_call_rcu_data_@name@ urcu_@name@_get_cpu_call_rcu_data
#define get_thread_call_rcu_data_@name@ urcu_@name@_get_thread_call_rcu_data
#define get_call_rcu_data_@name@ urcu_@name@_get_call_rcu_data
#define get_call_rcu_thread_@name@ urcu_@name@_get_call_rcu_thread
#define set_thread_call_rcu_data_@name@ urcu_@name@_set_thread_call_rcu_data
#define set_cpu_call_rcu_data_@name@ urcu_@name@_set_cpu_call_rcu_data
#define create_all_cpu_call_rcu_data_@name@ urcu_@name@_create_all_cpu_call_rcu_data
#define free_all_cpu_call_rcu_data_@name@ urcu_@name@_free_all_cpu_call_rcu_data
#define call_rcu_before_fork_@name@ urcu_@name@_call_rcu_before_fork
#define call_rcu_after_fork_parent_@name@ urcu_@name@_call_rcu_after_fork_parent
#define call_rcu_after_fork_child_@name@ urcu_@name@_call_rcu_after_fork_child
#define rcu_barrier_@name@ urcu_@name@_barrier
#define defer_rcu_@name@ urcu_@name@_defer_rcu
#define rcu_defer_register_thread_@name@ urcu_@name@_defer_register_thread
#define rcu_defer_unregister_thread_@name@ urcu_@name@_defer_unregister_thread
#define rcu_defer_barrier_@name@ urcu_@name@_defer_barrier
#define rcu_defer_barrier_thread_@name@ urcu_@name@_defer_barrier_thread
#define rcu_defer_exit_@name@ urcu_@name@_defer_exit
@only bp@ #define rcu_bp_before_fork urcu_@name@_before_fork
@only bp@ #define rcu_bp_after_fork_parent urcu_@name@_after_fork_parent
@only bp@ #define rcu_bp_after_fork_child urcu_@name@_after_fork_child
#endif

#endif /* SHEAVES_URCU_@NAME@_H */

/* Names without a flavour, those of the header that was included last. */
#ifdef URCU_API_MAP
#include <urcu/sheaves-unmap.h>
#define rcu_read_lock urcu_@name@_read_lock
#define rcu_read_unlock urcu_@name@_read_unlock
#define rcu_quiescent_state urcu_@name@_quiescent_state
#define rcu_thread_offline urcu_@name@_thread_offline
#define rcu_thread_online urcu_@name@_thread_online
#define rcu_register_thread urcu_@name@_register_thread
#define rcu_unregister_thread urcu_@name@_unregister_thread
#define rcu_flavor urcu_@name@_flavor
#define rcu_read_ongoing urcu_@name@_read_ongoing
#define synchronize_rcu urcu_@name@_synchronize_rcu
#define rcu_init urcu_@name@_init
#define rcu_exit urcu_@name@_exit
#define start_poll_synchronize_rcu urcu_@name@_start_poll_synchronize_rcu
#define poll_state_synchronize_rcu urcu_@name@_poll_state_synchronize_rcu
#define call_rcu urcu_@name@_call_rcu
#define create_call_rcu_data urcu_@name@_create_call_rcu_data
#define call_rcu_data_free urcu_@name@_call_rcu_data_free
#define get_default_call_rcu_data urcu_@name@_get_default_call_rcu_data
#define get_cpu_call_rcu_data urcu_@name@_get_cpu_call_rcu_data
#define get_thread_call_rcu_data urcu_@name@_get_thread_call_rcu_data
#define get_call_rcu_data urcu_@name@_get_call_rcu_data
#define get_call_rcu_thread urcu_@name@_get_call_rcu_thread
#define set_thread_call_rcu_data urcu_@name@_set_thread_call_rcu_data
#define set_cpu_call_rcu_data urcu_@name@_set_cpu_call_rcu_data
#define create_all_cpu_call_rcu_data urcu_@name@_create_all_cpu_call_rcu_data
#define free_all_cpu_call_rcu_data urcu_@name@_free_all_cpu_call_rcu_data
#define call_rcu_before_fork urcu_@name@_call_rcu_before_fork
#define call_rcu_after_fork_parent urcu_@name@_call_rcu_after_fork_parent
#define call_rcu_after_fork_child urcu_@name@_call_rcu_after_fork_child
#define rcu_barrier urcu_@name@_barrier
#define defer_rcu urcu_@name@_defer_rcu
#define rcu_defer_register_thread urcu_@name@_defer_register_thread
#define rcu_defer_unregister_thread urcu_@name@_defer_unregister_thread
#define rcu_defer_barrier urcu_@name@_defer_barrier
#define rcu_defer_barrier_thread urcu_@name@_defer_barrier_thread
#define rcu_defer_exit urcu_@name@_defer_exit
#define urcu_register_rculfhash_atfork urcu_@name@_register_rculfhash_atfork
#define urcu_unregister_rculfhash_atfork urcu_@name@_unregister_rculfhash_atfork
#define _rcu_read_lock urcu_@name@_read_lock
#define _rcu_read_unlock urcu_@name@_read_unlock
#define _rcu_read_ongoing urcu_@name@_read_ongoing
#define _rcu_quiescent_state urcu_@name@_quiescent_state
#define _rcu_thread_offline urcu_@name@_thread_offline
#define _rcu_thread_online urcu_@name@_thread_online
#endif
