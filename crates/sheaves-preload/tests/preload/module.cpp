// A module in C++ of a program that does not link the C++ runtime.
#include <cstdint>
#include <new>

static volatile std::size_t huge = SIZE_MAX / 2;

extern "C" int module() {
    if (::operator new(huge, std::nothrow) || ::operator new[](huge, std::nothrow)) return 1;
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc &) {
        delete new int;
        return 0;
    }
    return 2;
}
