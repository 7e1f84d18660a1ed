/* Lock-free stacks.
 *
 * Any thread may push. A pop compares and exchanges the top, so while one runs, no popped node may
 * be pushed or freed: pops hold the lock (the functions that end in _blocking), or are in a read
 * section and nodes are used again after a grace period, or one thread only pops. */

#ifndef SHEAVES_URCU_LFSTACK_H
#define SHEAVES_URCU_LFSTACK_H

#include <urcu/sheaves-wait.h>

struct cds_lfs_node {
    struct cds_lfs_node *next;
};

struct cds_lfs_head {
    struct cds_lfs_node node;
};

struct __cds_lfs_stack {
    struct cds_lfs_head *head;
};

struct cds_lfs_stack {
    struct cds_lfs_head *head;
    pthread_mutex_t lock;
};

#ifdef __cplusplus
extern "C++" {
#endif
SHEAVES_URCU_EITHER(cds_lfs_stack_ptr_t, struct cds_lfs_stack, s, struct __cds_lfs_stack, _s);
#ifdef __cplusplus
/* Conversions by name, as in liburcu 0.14. They are implicit, too. */
static inline cds_lfs_stack_ptr_t cds_lfs_stack_cast(struct cds_lfs_stack *s)
{
    return s;
}

static inline cds_lfs_stack_ptr_t cds_lfs_stack_cast(struct __cds_lfs_stack *s)
{
    return s;
}
}
extern "C" {
#endif

static inline void cds_lfs_node_init(struct cds_lfs_node *node)
{
    (void)node;
}

static inline void __cds_lfs_init(struct __cds_lfs_stack *s)
{
    s->head = NULL;
}

static inline void cds_lfs_init(struct cds_lfs_stack *s)
{
    s->head = NULL;
    if (pthread_mutex_init(&s->lock, NULL) != 0)
        abort();
}

static inline void cds_lfs_destroy(struct cds_lfs_stack *s)
{
    if (pthread_mutex_destroy(&s->lock) != 0)
        abort();
}

static inline bool cds_lfs_empty(cds_lfs_stack_ptr_t s)
{
    return !__atomic_load_n(&s._s->head, __ATOMIC_RELAXED);
}

/* True if the stack was not empty. */
static inline bool cds_lfs_push(cds_lfs_stack_ptr_t s, struct cds_lfs_node *node)
{
    struct cds_lfs_head *top = __atomic_load_n(&s._s->head, __ATOMIC_RELAXED);

    do
        node->next = (struct cds_lfs_node *)(void *)top;
    while (!__atomic_compare_exchange_n(&s._s->head, &top, (struct cds_lfs_head *)(void *)node, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return top != NULL;
}

/* NULL if the stack is empty. See above. */
static inline struct cds_lfs_node *__cds_lfs_pop(cds_lfs_stack_ptr_t s)
{
    struct cds_lfs_head *top = __atomic_load_n(&s._s->head, __ATOMIC_ACQUIRE);

    while (top) {
        struct cds_lfs_node *next = __atomic_load_n(&top->node.next, __ATOMIC_RELAXED);

        if (__atomic_compare_exchange_n(&s._s->head, &top, (struct cds_lfs_head *)(void *)next, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
            return &top->node;
    }
    return NULL;
}

/* All nodes, or NULL: the caller's. */
static inline struct cds_lfs_head *__cds_lfs_pop_all(cds_lfs_stack_ptr_t s)
{
    return __atomic_exchange_n(&s._s->head, (struct cds_lfs_head *)NULL, __ATOMIC_SEQ_CST);
}

static inline void cds_lfs_pop_lock(struct cds_lfs_stack *s)
{
    sheaves_urcu_mutex_lock(&s->lock);
}

static inline void cds_lfs_pop_unlock(struct cds_lfs_stack *s)
{
    sheaves_urcu_mutex_unlock(&s->lock);
}

static inline struct cds_lfs_node *cds_lfs_pop_blocking(struct cds_lfs_stack *s)
{
    struct cds_lfs_node *node;

    cds_lfs_pop_lock(s);
    node = __extension__ __cds_lfs_pop(s);
    cds_lfs_pop_unlock(s);
    return node;
}

static inline struct cds_lfs_head *cds_lfs_pop_all_blocking(struct cds_lfs_stack *s)
{
    struct cds_lfs_head *all;

    cds_lfs_pop_lock(s);
    all = __extension__ __cds_lfs_pop_all(s);
    cds_lfs_pop_unlock(s);
    return all;
}

#ifdef __cplusplus
}
#endif

/* Over the nodes that pop_all returned. */
#define cds_lfs_for_each(head, node) \
    for ((node) = (struct cds_lfs_node *)(void *)(head); (node); (node) = (node)->next)
/* The node may be freed. */
#define cds_lfs_for_each_safe(head, node, n)                \
    for ((node) = (struct cds_lfs_node *)(void *)(head);    \
         (node) && ((n) = (node)->next, 1); (node) = (n))

#endif /* SHEAVES_URCU_LFSTACK_H */
