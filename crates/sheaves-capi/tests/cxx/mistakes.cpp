// With MISTAKES each line that ends in `error: TEXT` is one: the compiler says TEXT of it.
// Without MISTAKES all compiles.
#include <sheaves.hpp>

using namespace sheaves;

#ifdef MISTAKES
// base/7: the base is private
struct private_base : private rcu_obj_base<private_base> {
    void give()
    {
        retire(); // error: T is not rcu-protectable
    }
};

// base/7: the base is virtual
struct virtual_base : virtual rcu_obj_base<virtual_base> {};
void use(virtual_base *is)
{
    is->retire(); // error: T is not rcu-protectable
}

// base/7: two bases
struct one_base : rcu_obj_base<one_base> {};
struct two_bases : one_base, rcu_obj_base<two_bases> {};
void use(two_bases *is)
{
    is->rcu_obj_base<two_bases>::retire(); // error: T is not rcu-protectable
}

// base/7: the base of another type
struct other;
struct base_of_other : rcu_obj_base<other> {};
struct other {};
void use(base_of_other *is)
{
    is->retire(); // error: T is not rcu-protectable
}

// func/6: the deleter cannot be moved
struct fixed {
    fixed() = default;
    fixed(const fixed &) = delete;
    void operator()(int *) const {}
};
void use_fixed(int *is)
{
    rcu_retire<int, fixed>(is); // error: the deleter cannot be moved
}

// func/6: the deleter takes no such pointer
struct of_long {
    void operator()(long *) const {}
};
void use_of_long(int *is)
{
    rcu_retire(is, of_long()); // error: of_long
}

// domain.general: the default domain is the only one, and no aggregate
rcu_domain another;        // error: private
rcu_domain aggregate{};    // error: private
// base: an object of its own
rcu_obj_base<int> alone;   // error: protected

struct pair {
    int first;
};
void use(per_cpu<pair> *is)
{
    is->add(&pair::first, 1); // error: integers of 64 bits
}

struct text {
    text() {}
    text(const text &) {}
};
per_cpu<text> texts; // error: slots are zeroed memory

struct large {
    char bytes[100000];
};
cache<large> larges; // error: too large for a cache

rcu_ptr<int, void (*)(int *)> stateful; // error: each object is retired by a new deleter
#else
struct object : rcu_obj_base<object> {};
void use(object *is);
void use(object *is)
{
    is->retire();
}
#endif
