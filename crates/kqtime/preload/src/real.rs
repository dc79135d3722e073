//! The wrapped functions.

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::ffi::CStr;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next function of this name after this library.
fn find(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // SAFETY: abort(3) has no conditions. Without libc's function the program cannot go on.
        unsafe { libc::abort() };
    }
    cache.store(found, Ordering::Relaxed);
    found
}

/// Defines a function for each real function, which returns it.
macro_rules! functions {
    ($($name:ident $text:literal: fn($($argument:ty),*);)*) => {
        $(pub(crate) fn $name() -> unsafe extern "C" fn($($argument),*) -> ssize_t {
            static CACHE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            // SAFETY: libc's function of this name has this type.
            unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> ssize_t>(find(&CACHE, $text)) }
        })*

        /// Finds all functions. Before `main`, because dlsym(3) must not run in a signal handler.
        pub(crate) fn find_all() {
            $($name();)*
        }
    };
}

functions! {
    write c"write": fn(c_int, *const c_void, size_t);
    send c"send": fn(c_int, *const c_void, size_t, c_int);
    sendto c"sendto": fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t);
    writev c"writev": fn(c_int, *const iovec, c_int);
    sendmsg c"sendmsg": fn(c_int, *const msghdr, c_int);
    read c"read": fn(c_int, *mut c_void, size_t);
    recv c"recv": fn(c_int, *mut c_void, size_t, c_int);
    recvfrom c"recvfrom": fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t);
    readv c"readv": fn(c_int, *const iovec, c_int);
    recvmsg c"recvmsg": fn(c_int, *mut msghdr, c_int);
}
