// With MISTAKE defined as one of the numbers below it must not compile; without it does.
#include <sheaves.hpp>

using namespace sheaves;

#if MISTAKE == 1 // base/7: the base is private
struct object : private rcu_obj_base<object> {
    void give() { retire(); }
};
void use(object *is) { is->give(); }
#elif MISTAKE == 2 // base/7: the base is virtual
struct object : virtual rcu_obj_base<object> {};
void use(object *is) { is->retire(); }
#elif MISTAKE == 3 // base/7: two bases
struct other : rcu_obj_base<other> {};
struct object : other, rcu_obj_base<object> {};
void use(object *is) { is->rcu_obj_base<object>::retire(); }
#elif MISTAKE == 4 // base/7: the base of another type
struct other;
struct object : rcu_obj_base<other> {};
struct other {};
void use(object *is) { is->retire(); }
#elif MISTAKE == 5 // func/6: the deleter cannot be moved
struct fixed {
    fixed() = default;
    fixed(const fixed &) = delete;
    void operator()(int *) const {}
};
void use(int *is) { rcu_retire<int, fixed>(is); }
#elif MISTAKE == 6 // func/6: the deleter takes no such pointer
struct of_long {
    void operator()(long *) const {}
};
void use(int *is) { rcu_retire(is, of_long()); }
#elif MISTAKE == 7 // domain.general: the default domain is the only one
rcu_domain another;
#elif MISTAKE == 8 // base: an object of its own
rcu_obj_base<int> alone;
#elif MISTAKE == 9 // a member that is not 64 bits wide
struct pair {
    int first;
};
void use(per_cpu<pair> *is) { is->add(&pair::first, 1); }
#elif MISTAKE == 10 // slots are zeroed memory
struct text {
    text() {}
    text(const text &) {}
};
per_cpu<text> texts;
#elif MISTAKE == 11 // too large for a cache
struct large {
    char bytes[100000];
};
cache<large> larges;
#elif MISTAKE == 12 // a new deleter retires each object
rcu_ptr<int, void (*)(int *)> stateful;
#elif MISTAKE == 13 // domain.general: nor is it an aggregate
rcu_domain another{};
#else
struct object : rcu_obj_base<object> {};
void use(object *is);
void use(object *is) { is->retire(); }
#endif
