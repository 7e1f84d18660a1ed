// A program that is not position-independent and takes addresses of operators has stubs of these.
#include <new>

int main() {
    void *(*volatile make)(std::size_t) = ::operator new;
    void (*volatile end)(void *) = ::operator delete;
    end(make(10));
    ::operator delete(make(10), std::size_t{1000});
}
