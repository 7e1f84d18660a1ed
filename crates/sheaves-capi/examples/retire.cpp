// The three ways of C++26 to reclaim what readers may still use, and the barrier at the end. As
// <rcu> has them: with SHEAVES_RCU_IN_STD they are in namespace std.
#define SHEAVES_RCU_IN_STD
#include <sheaves/rcu>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

// An object that can retire itself: no allocation, and nothing is thrown.
struct config : std::rcu_obj_base<config> {
    std::string host;
    int port;

    config(std::string is, int at) : host(std::move(is)), port(at) {}
};

// One that knows nothing of RCU.
struct route {
    int hop, check;
};

// One that is given back elsewhere: a deleter may have state.
struct session {
    int number;
};
struct give_back {
    std::vector<session *> *idle;
    void operator()(session *is) const { idle->push_back(is); }
};

std::atomic<config *> configs{new config("first.example", 1)};
std::atomic<route *> routes{new route{0, ~0}};
std::atomic<bool> is_over{false};

void read_all()
{
    while (!is_over) {
        // What is loaded in a region of RCU protection stays until the region ends.
        const std::scoped_lock region(std::rcu_default_domain());
        const config *const current = configs.load(std::memory_order_acquire);
        const route *const way = routes.load(std::memory_order_acquire);

        if (current->host.empty() || current->port < 1 || way->check != ~way->hop)
            std::abort();
    }
}

} // namespace

int main()
{
    std::thread readers[] = {std::thread(read_all), std::thread(read_all)};
    std::vector<session *> idle;

    for (int i = 1; i <= 1000; i++) {
        // The object is deleted after all regions that were open.
        configs.exchange(new config("other.example", i))->retire();

        // The same, with a block for the deferral.
        std::rcu_retire(routes.exchange(new route{i, ~i}));

        // The updater waits itself, here for many objects at once.
        if (i % 100 == 0) {
            const std::unique_ptr<route> old(routes.exchange(new route{-i, ~-i}));
            std::rcu_synchronize();
            old->check = 0;
        }
        if (i % 10 == 0)
            std::rcu_retire(new session{i}, give_back{&idle});
    }
    is_over = true;
    for (std::thread &reader : readers)
        reader.join();

    // Deleters use idle: all have run before it is read, and before it ends.
    std::rcu_barrier();
    for (const session *is : idle)
        delete is;
    delete configs.load();
    delete routes.load();
    std::puts(idle.size() == 100 ? "ok" : "sessions are missing");
}
