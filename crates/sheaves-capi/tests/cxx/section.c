/* One read section. In C by the inlined readers; as C++ by the classes of <sheaves/rcu>, which have
 * to become the same instructions. */
#if defined(__cplusplus)
#include <mutex>

#include <sheaves/rcu>

extern "C" int read_section(const int *const *place)
{
    const std::scoped_lock region(sheaves::rcu_default_domain());

    return **place;
}
#else
#include <sheaves.h>

int read_section(const int *const *place)
{
    sheaves_rcu_read_lock();
    const int found = **place;
    sheaves_rcu_read_unlock();
    return found;
}
#endif
