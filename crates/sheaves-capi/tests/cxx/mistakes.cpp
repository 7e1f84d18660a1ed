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

// base/7: the base is protected
struct protected_base : protected rcu_obj_base<protected_base> {
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

// base/7: the same base twice
struct twice;
struct left : rcu_obj_base<twice> {};
struct right : rcu_obj_base<twice> {};
struct twice : left, right {};
void use(left *is)
{
    is->retire(); // error: T is not rcu-protectable
}

// base/7: bases for two deleters
struct no_delete {
    template <class T> void operator()(T *) const {}
};
struct two_deleters : rcu_obj_base<two_deleters>, rcu_obj_base<two_deleters, no_delete> {};
void use(two_deleters *is)
{
    is->rcu_obj_base<two_deleters>::retire(); // error: T is not rcu-protectable
}

// base/7: the base of another type
struct other;
struct base_of_other : rcu_obj_base<other> {};
struct other {};
void use(base_of_other *is)
{
    is->retire(); // error: T is not rcu-protectable
}

// base/3: the type is incomplete
struct never;
void use(rcu_obj_base<never> *is)
{
    is->retire(); // error: T is not rcu-protectable
}

// base/4: the deleter takes no such pointer
struct of_int {
    void operator()(int *) const {}
};
struct not_int : rcu_obj_base<not_int, of_int> {};
void use(not_int *is)
{
    is->retire(); // error: of_int
}

// base/5: the deleter cannot be constructed, or assigned
struct by_number {
    explicit by_number(int) {}
    template <class T> void operator()(T *) const {}
};
struct numbered : rcu_obj_base<numbered, by_number> {};
numbered number; // error: deleted
struct by_constant {
    const int number = 0;
    template <class T> void operator()(T *) const {}
};
struct constant : rcu_obj_base<constant, by_constant> {};
void use(constant *is)
{
    is->retire(); // error: operator=
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
