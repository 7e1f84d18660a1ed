/* Stacks whose pushes are wait-free: one exchange, and a store that links the node.
 *
 * Between the two the node's next is null. Functions that need it wait if they end in _blocking, or
 * return CDS_WFS_WOULDBLOCK. A pop compares and exchanges the top: what
 * <urcu/lfstack.h> says of pops holds here, too. Pops in read sections wait for the next of a node
 * that another one may have taken: it must not be modified either before a grace period. */

#ifndef SHEAVES_URCU_WFSTACK_H
#define SHEAVES_URCU_WFSTACK_H

#include <urcu/sheaves-wait.h>

#define CDS_WFS_WOULDBLOCK ((struct cds_wfs_node *)~(uintptr_t)0)

enum cds_wfs_state {
    /* The stack is empty now. */
    CDS_WFS_STATE_LAST = 1 << 0,
};

struct cds_wfs_node {
    struct cds_wfs_node *next;
};

struct cds_wfs_head {
    struct cds_wfs_node node;
};

struct __cds_wfs_stack {
    struct cds_wfs_head *head;
};

struct cds_wfs_stack {
    struct cds_wfs_head *head;
    pthread_mutex_t lock;
};

/* Below the last node: null means that a node is not linked yet. */
#define SHEAVES_URCU_WFS_END ((struct cds_wfs_head *)(uintptr_t)1)

#ifdef __cplusplus
extern "C++" {
#endif
SHEAVES_URCU_EITHER(cds_wfs_stack_ptr_t, struct cds_wfs_stack, s, struct __cds_wfs_stack, _s);
#ifdef __cplusplus
/* Conversions by name, as in liburcu 0.14. They are implicit, too. */
static inline cds_wfs_stack_ptr_t cds_wfs_stack_cast(struct cds_wfs_stack *s)
{
    return s;
}

static inline cds_wfs_stack_ptr_t cds_wfs_stack_cast(struct __cds_wfs_stack *s)
{
    return s;
}
}
extern "C" {
#endif

static inline void cds_wfs_node_init(struct cds_wfs_node *node)
{
    node->next = NULL;
}

static inline void __cds_wfs_init(struct __cds_wfs_stack *s)
{
    s->head = SHEAVES_URCU_WFS_END;
}

static inline void cds_wfs_init(struct cds_wfs_stack *s)
{
    s->head = SHEAVES_URCU_WFS_END;
    if (pthread_mutex_init(&s->lock, NULL) != 0)
        abort();
}

static inline void cds_wfs_destroy(struct cds_wfs_stack *s)
{
    if (pthread_mutex_destroy(&s->lock) != 0)
        abort();
}

static inline bool cds_wfs_empty(cds_wfs_stack_ptr_t s)
{
    return __atomic_load_n(&s._s->head, __ATOMIC_RELAXED) == SHEAVES_URCU_WFS_END;
}

/* 1 if the stack was not empty, else 0. A full fence, as in liburcu. */
static inline int cds_wfs_push(cds_wfs_stack_ptr_t s, struct cds_wfs_node *node)
{
    struct cds_wfs_head *below;

    node->next = NULL;
    below = uatomic_xchg(&s._s->head, (void *)node);
    __atomic_store_n(&node->next, (struct cds_wfs_node *)(void *)below, __ATOMIC_RELEASE);
    return below != SHEAVES_URCU_WFS_END;
}

static inline struct cds_wfs_node *sheaves_urcu_wfs_pop(cds_wfs_stack_ptr_t s, int *state,
                                                        int waits)
{
    struct cds_wfs_head *top = __atomic_load_n(&s._s->head, __ATOMIC_ACQUIRE);

    if (state)
        *state = 0;
    while (top != SHEAVES_URCU_WFS_END) {
        struct cds_wfs_node *next = SHEAVES_URCU_LINKED(&top->node.next, waits);

        if (!next)
            return CDS_WFS_WOULDBLOCK;
        if (__atomic_compare_exchange_n(&s._s->head, &top, (struct cds_wfs_head *)(void *)next, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
            if (state && (struct cds_wfs_head *)(void *)next == SHEAVES_URCU_WFS_END)
                *state = CDS_WFS_STATE_LAST;
            return &top->node;
        }
    }
    return NULL;
}

/* NULL if the stack is empty. */
static inline struct cds_wfs_node *__cds_wfs_pop_with_state_blocking(cds_wfs_stack_ptr_t s,
                                                                     int *state)
{
    return sheaves_urcu_wfs_pop(s, state, 1);
}

static inline struct cds_wfs_node *__cds_wfs_pop_blocking(cds_wfs_stack_ptr_t s)
{
    return sheaves_urcu_wfs_pop(s, NULL, 1);
}

static inline struct cds_wfs_node *__cds_wfs_pop_with_state_nonblocking(cds_wfs_stack_ptr_t s,
                                                                        int *state)
{
    return sheaves_urcu_wfs_pop(s, state, 0);
}

static inline struct cds_wfs_node *__cds_wfs_pop_nonblocking(cds_wfs_stack_ptr_t s)
{
    return sheaves_urcu_wfs_pop(s, NULL, 0);
}

/* All nodes, the caller's, or NULL. They may be linked later. */
static inline struct cds_wfs_head *__cds_wfs_pop_all(cds_wfs_stack_ptr_t s)
{
    struct cds_wfs_head *all =
        __atomic_exchange_n(&s._s->head, SHEAVES_URCU_WFS_END, __ATOMIC_SEQ_CST);

    return all == SHEAVES_URCU_WFS_END ? NULL : all;
}

static inline void cds_wfs_pop_lock(struct cds_wfs_stack *s)
{
    sheaves_urcu_mutex_lock(&s->lock);
}

static inline void cds_wfs_pop_unlock(struct cds_wfs_stack *s)
{
    sheaves_urcu_mutex_unlock(&s->lock);
}

static inline struct cds_wfs_node *cds_wfs_pop_with_state_blocking(struct cds_wfs_stack *s,
                                                                   int *state)
{
    struct cds_wfs_node *node;

    cds_wfs_pop_lock(s);
    node = __extension__ sheaves_urcu_wfs_pop(s, state, 1);
    cds_wfs_pop_unlock(s);
    return node;
}

static inline struct cds_wfs_node *cds_wfs_pop_blocking(struct cds_wfs_stack *s)
{
    return cds_wfs_pop_with_state_blocking(s, NULL);
}

static inline struct cds_wfs_head *cds_wfs_pop_all_blocking(struct cds_wfs_stack *s)
{
    struct cds_wfs_head *all;

    cds_wfs_pop_lock(s);
    all = __extension__ __cds_wfs_pop_all(s);
    cds_wfs_pop_unlock(s);
    return all;
}

/* The first of the nodes that pop_all returned. */
static inline struct cds_wfs_node *cds_wfs_first(struct cds_wfs_head *head)
{
    return head ? &head->node : NULL;
}

static inline struct cds_wfs_node *sheaves_urcu_wfs_next(struct cds_wfs_node *node, int waits)
{
    struct cds_wfs_node *next = SHEAVES_URCU_LINKED(&node->next, waits);

    if (!next)
        return CDS_WFS_WOULDBLOCK;
    return (struct cds_wfs_head *)(void *)next == SHEAVES_URCU_WFS_END ? NULL : next;
}

static inline struct cds_wfs_node *cds_wfs_next_blocking(struct cds_wfs_node *node)
{
    return sheaves_urcu_wfs_next(node, 1);
}

static inline struct cds_wfs_node *cds_wfs_next_nonblocking(struct cds_wfs_node *node)
{
    return sheaves_urcu_wfs_next(node, 0);
}

#ifdef __cplusplus
}
#endif

#define cds_wfs_for_each_blocking(head, node) \
    for ((node) = cds_wfs_first(head); (node); (node) = cds_wfs_next_blocking(node))
/* The node may be freed. */
#define cds_wfs_for_each_blocking_safe(head, node, n)                       \
    for ((node) = cds_wfs_first(head);                                      \
         (node) && ((n) = cds_wfs_next_blocking(node), 1); (node) = (n))

#endif /* SHEAVES_URCU_WFSTACK_H */
