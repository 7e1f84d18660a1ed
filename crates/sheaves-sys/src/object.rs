//! Loaded objects: their symbols, and the one that this copy of the library is in, the program or a
//! shared object.
//!
//! An object that was loaded by `dlopen` has to stay: threads, libc and the kernel use its code and
//! data. `libsheaves` and the preload object are linked for that. Any other, such as a plugin in
//! Rust that contains the library, opens itself once more when it is loaded.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::reports::symbol;
use crate::{function, tls};

/// By its address one copy of the library in a process is told from another.
pub static COPY: u8 = 0;

/// True where the preload object is in the process, and this code is not of it: what is said once
/// for a process is said by the preload object. Only for constructors and destructors.
pub fn is_beside_preload() -> bool {
    let mark = symbol(c"sheaves_preload_copy").cast::<*const u8>();
    // SAFETY: null, or the preload object's static, which has this type.
    let copy = unsafe { mark.as_ref() };
    copy.is_some_and(|copy| !core::ptr::eq(*copy, &raw const COPY))
}

/// The first definition of a symbol in the process, null where there is none.
pub(crate) fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        // Otherwise the program's next call of it would return this failure.
        // SAFETY: no precondition.
        let _ = unsafe { libc::dlerror() };
    }
    found
}

/// Tags of the dynamic section, from `<elf.h>`.
const DT_NULL: usize = 0;
/// In programs only.
const DT_DEBUG: usize = 21;
const DT_FLAGS_1: usize = 0x6fff_fffb;
/// In [`DT_FLAGS_1`]: the object is never unloaded.
const DF_1_NODELETE: usize = 8;

/// True for a shared object that may be unloaded.
fn may_be_unloaded() -> bool {
    let section = tls::dynamic_section();
    if section.is_null() {
        return false;
    }
    for index in 0.. {
        // SAFETY: the section ends with `DT_NULL`, where this ends.
        let [tag, value] = unsafe { section.wrapping_add(index).read() };
        match tag {
            DT_NULL => break,
            DT_DEBUG => return false,
            DT_FLAGS_1 if value & DF_1_NODELETE != 0 => return false,
            _ => {}
        }
    }
    true
}

/// Keeps this object loaded until the process ends. Nothing to do for a program.
fn hold() {
    if may_be_unloaded()
        && let Some(own) = object_at((&raw const COPY).cast())
    {
        // SAFETY: the object's own name; its constructors are running.
        let _held = unsafe { hold_loaded(own.dli_fname) };
    }
}

/// The handle of an object that is loaded, and stays so for ever; null if it is not.
///
/// # Safety
/// `name` is a C string.
unsafe fn hold_loaded(name: *const c_char) -> *mut c_void {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    // By its name: a static program would get `dlopen`, and a warning of the linker.
    // SAFETY: null, or libc's function or the preload object's, which have this type.
    let open = unsafe { function::at::<Open>(symbol(c"dlopen")) };
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the caller's contract. Nothing is loaded, and the handle is never closed.
    open.map_or(core::ptr::null_mut(), |open| unsafe { open(name, flags) })
}

crate::run_when_loaded!(hold());

/// The next definition of a symbol after this object's own, null where there is none.
///
/// The dynamic linker may allocate for it: not for paths below `malloc`.
pub fn next_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// [`next_symbol`], which is looked up once and kept in `known`: for symbols of libc, which stays.
pub fn next_symbol_kept(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // Relaxed, both: code, which is there before any thread.
    let mut next = known.load(Ordering::Relaxed);
    if next.is_null() {
        next = next_symbol(name);
        known.store(next, Ordering::Relaxed);
    }
    next
}

/// The definition of a symbol in the first of these objects that is loaded, in whatever scope, and
/// has one; null where there is none.
///
/// The dynamic linker may allocate for it.
pub fn symbol_of_loaded(objects: &[&CStr], name: &CStr) -> *mut c_void {
    let find = |object: &&CStr| {
        // SAFETY: a C string.
        let handle = unsafe { hold_loaded(object.as_ptr()) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: an object that stays, and a C string.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let found = objects.iter().find_map(find);
    // Otherwise the program's next call of it would return a failure of these.
    // SAFETY: no precondition.
    let _ = unsafe { libc::dlerror() };
    found.unwrap_or(core::ptr::null_mut())
}

/// What the dynamic linker knows of an address; `None` where no object is loaded.
fn object_at(address: *const c_void) -> Option<libc::Dl_info> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `found` is valid for the call to fill, for any address.
    let status = unsafe { libc::dladdr(address, found.as_mut_ptr()) };
    // SAFETY: zeroed or filled; pointers may be null.
    (status != 0).then(|| unsafe { found.assume_init() })
}

/// True when two addresses lie in the same loaded object.
pub fn is_same_object(one: *const c_void, other: *const c_void) -> bool {
    let range = symbol::object_range(other.addr());
    if !range.is_empty() {
        return range.contains(&one.addr());
    }
    // musl, and glibc before 2.35. It walks through all symbols of an object.
    let base_of = |address| object_at(address).map(|object| object.dli_fbase);
    base_of(one).is_some_and(|base| base_of(other) == Some(base))
}

/// True when all addresses lie in this object. Takes no lock. False also where libc cannot say:
/// musl, and glibc before 2.35.
pub fn has_all(addresses: &[usize]) -> bool {
    let own = symbol::object_range((&raw const COPY).addr());
    addresses.iter().all(|address| own.contains(address))
}

/// The file of the object at an address, as it was loaded by name. For the program itself this is
/// its first argument.
pub fn object_name(address: *const c_void) -> Option<&'static CStr> {
    let name = object_at(address).map(|object| object.dli_fname)?;
    // SAFETY: a C string that the dynamic linker keeps while the object is loaded.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

/// [`first_symbol`], where that is in another object than this code. A stub of the program is not:
/// it leads here, as this object's definition is the next one.
#[cfg(target_env = "gnu")]
pub fn foreign_symbol(name: &CStr) -> Option<*const c_void> {
    let found = first_symbol(name).cast_const();
    let is_foreign = !found.is_null() && !is_same_object(found, (&raw const COPY).cast());
    is_foreign.then_some(found)
}

/// The definition of a symbol that the objects of this process share: the first one in the order of
/// search. Null where there is none.
///
/// Null also where the first one is a stub of the program: one that is not position-independent,
/// and takes the function's address, has a stub of that name, which jumps to the next definition.
#[cfg(target_env = "gnu")]
pub fn first_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let is_stub =
        symbol::is_stub(found.addr(), name.to_bytes()).unwrap_or_else(|| is_stub_slow(found));
    if is_stub { core::ptr::null_mut() } else { found }
}

/// True if an address is that of a stub, where the object has no hash table of the new form.
#[cfg(target_env = "gnu")]
#[cold]
fn is_stub_slow(found: *const c_void) -> bool {
    /// From `<dlfcn.h>`: asks for the entry of the symbol table.
    const RTLD_DL_SYMENT: c_int = 1;
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let mut entry = core::ptr::null_mut();
    // SAFETY: `info` and `entry` are valid for the call to fill, for any address.
    unsafe { libc::dladdr1(found, info.as_mut_ptr(), &raw mut entry, RTLD_DL_SYMENT) };
    let entry = entry.cast_const().cast::<libc::Elf64_Sym>();
    // SAFETY: null, or the entry, of a 64-bit object, which stays while that is loaded.
    unsafe { entry.as_ref() }.is_some_and(|entry| entry.st_shndx == 0)
}
