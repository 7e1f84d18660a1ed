/* Lists of <urcu/hlist.h> that are read under RCU. Changes need exclusion; a removed node may be
 * freed or used again after a grace period. */

#ifndef SHEAVES_URCU_RCUHLIST_H
#define SHEAVES_URCU_RCUHLIST_H

#include <urcu/hlist.h>
#include <urcu/pointer.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void cds_hlist_add_head_rcu(struct cds_hlist_node *newp, struct cds_hlist_head *head)
{
    newp->next = head->next;
    newp->prev = (struct cds_hlist_node *)(void *)head;
    if (newp->next)
        newp->next->prev = newp;
    rcu_set_pointer(&head->next, newp);
}

/* Readers that are at the node still find their way to the next one. Others reach that one by this
 * store: if it was added a moment ago, what is in it must be visible first. */
static inline void cds_hlist_del_rcu(struct cds_hlist_node *elem)
{
    if (elem->next)
        elem->next->prev = elem->prev;
    __atomic_store_n(sheaves_urcu_hlist_link(elem->prev), elem->next, __ATOMIC_RELEASE);
}

#ifdef __cplusplus
}
#endif

#define cds_hlist_for_each_rcu(pos, head) \
    for ((pos) = rcu_dereference((head)->next); (pos); (pos) = rcu_dereference((pos)->next))
#define cds_hlist_for_each_entry_rcu(entry, pos, head, member)                      \
    for ((pos) = rcu_dereference((head)->next);                                     \
         (pos) && ((entry) = cds_hlist_entry(pos, __typeof__(*(entry)), member), 1); \
         (pos) = rcu_dereference((pos)->next))
#define cds_hlist_for_each_entry_rcu_2(entry, head, member)                         \
    for ((entry) = SHEAVES_URCU_HENTRY(rcu_dereference((head)->next), entry, member); \
         (entry);                                                                   \
         (entry) = SHEAVES_URCU_HENTRY(rcu_dereference((entry)->member.next), entry, member))

#endif /* SHEAVES_URCU_RCUHLIST_H */
