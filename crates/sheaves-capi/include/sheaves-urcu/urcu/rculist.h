/* Lists that are read under RCU. Changes need exclusion; a removed node may be freed or used again
 * after a grace period. */

#ifndef SHEAVES_URCU_RCULIST_H
#define SHEAVES_URCU_RCULIST_H

#include <urcu/list.h>
#include <urcu/pointer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Links a node between two neighbours. Readers, which go forward, find it linked. */
static inline void sheaves_urcu_link(struct cds_list_head *node, struct cds_list_head *prev,
                                     struct cds_list_head *next)
{
    node->next = next;
    node->prev = prev;
    rcu_set_pointer(&prev->next, node);
    next->prev = node;
}

static inline void cds_list_add_rcu(struct cds_list_head *newp, struct cds_list_head *head)
{
    sheaves_urcu_link(newp, head, head->next);
}

static inline void cds_list_add_tail_rcu(struct cds_list_head *newp, struct cds_list_head *head)
{
    sheaves_urcu_link(newp, head->prev, head);
}

static inline void cds_list_replace_rcu(struct cds_list_head *old, struct cds_list_head *_new)
{
    sheaves_urcu_link(_new, old->prev, old->next);
}

/* Readers that are at the node still find their way to the next one. Others reach that one by this
 * store: if it was added a moment ago, what is in it must be visible first. */
static inline void cds_list_del_rcu(struct cds_list_head *elem)
{
    elem->next->prev = elem->prev;
    __atomic_store_n(&elem->prev->next, elem->next, __ATOMIC_RELEASE);
}

#ifdef __cplusplus
}
#endif

#define cds_list_for_each_rcu(pos, head)                                        \
    for ((pos) = rcu_dereference((head)->next); (pos) != (head);                \
         (pos) = rcu_dereference((pos)->next))
#define cds_list_for_each_entry_rcu(pos, head, member)                          \
    for ((pos) = SHEAVES_URCU_ENTRY(rcu_dereference((head)->next), pos, member); \
         &(pos)->member != (head);                                              \
         (pos) = SHEAVES_URCU_ENTRY(rcu_dereference((pos)->member.next), pos, member))

#endif /* SHEAVES_URCU_RCULIST_H */
