/* Layouts that compiled programs know: reviewed like the list of symbols. What changes here breaks
 * programs, so the number of the shared object changes, too. Structures whose size is passed may
 * grow at their end. */
#include "sheaves.h"

#define SIZE(type, bytes, align)                                \
    _Static_assert(sizeof(type) == (bytes), #type);             \
    _Static_assert(__alignof__(type) == (align), #type)
#define AT(type, member, byte) _Static_assert(offsetof(type, member) == (byte), #type "." #member)

SIZE(sheaves_counter, 16, 8);
SIZE(sheaves_head, 16, 8);
SIZE(sheaves_percpu, 8, 8);
SIZE(sheaves_rcu_cookie, 8, 8);
SIZE(sheaves_srcu_section, 8, 8);

/* The version in its name changes with this. */
SIZE(struct sheaves_thread, 64, 8);
AT(struct sheaves_thread, reader, 40);
AT(struct sheaves_thread, is_online, 52);
_Static_assert(sizeof sheaves_thread_v0 == sizeof(struct sheaves_thread), "one layout");

SIZE(sheaves_cache_statistics, 48, 8);
AT(sheaves_cache_statistics, object_bytes, 0);
AT(sheaves_cache_statistics, stride_bytes, 8);
AT(sheaves_cache_statistics, slab_bytes, 16);
AT(sheaves_cache_statistics, objects_out, 24);
AT(sheaves_cache_statistics, objects_deferred, 32);
AT(sheaves_cache_statistics, objects_free, 40);

SIZE(sheaves_statistics, 120, 8);
AT(sheaves_statistics, used_bytes, 0);
AT(sheaves_statistics, cached_bytes, 8);
AT(sheaves_statistics, dirty_bytes, 16);
AT(sheaves_statistics, heap_bytes, 24);
AT(sheaves_statistics, large_bytes, 32);
AT(sheaves_statistics, grace_periods, 40);
AT(sheaves_statistics, membarriers, 48);
AT(sheaves_statistics, readers_fence, 56);
AT(sheaves_statistics, deferred_objects, 64);
AT(sheaves_statistics, deferred_bytes, 72);
AT(sheaves_statistics, purged_bytes, 80);
AT(sheaves_statistics, returned_bytes, 88);
AT(sheaves_statistics, refilled_bytes, 96);
AT(sheaves_statistics, keeper_looks, 104);
AT(sheaves_statistics, keeper_busy_us, 112);

_Static_assert(SHEAVES_CACHE_ZERO == 1 && SHEAVES_CACHE_TYPESAFE_BY_RCU == 2, "flags");
_Static_assert(SHEAVES_CACHE_DEBUG == 4, "flags");
_Static_assert(SHEAVES_FORMAT_TEXT == 0 && SHEAVES_FORMAT_JSON == 1, "formats");
