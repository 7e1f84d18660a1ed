// The installed headers of C++: an object that its reader outlives, and a container.
#include <cstdio>
#include <list>
#include <mutex>

#include <sheaves.hpp>

static int deleted;

struct value : sheaves::rcu_obj_base<value> {
    int number = 7;
    ~value() { deleted++; }
};

int main()
{
    value *const current = new value;
    std::list<int, sheaves::allocator<int>> numbers(10, 1);
    int found;
    {
        const std::scoped_lock<sheaves::rcu_domain> region(sheaves::rcu_default_domain());
        current->retire();
        found = current->number;
    }
    sheaves::rcu_barrier();
    if (found != 7 || deleted != 1 || numbers.size() != 10)
        return 1;
    std::puts("ok");
}
