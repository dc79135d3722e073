//! The wrapped functions.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next function of this name after this library, found at its first use.
pub(crate) fn find(cache: &AtomicPtr<libc::c_void>, name: &CStr) -> *mut libc::c_void {
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

/// The real function of a name, with its type.
macro_rules! real {
    ($name:ident: fn($($argument:ty),*) -> $result:ty) => {{
        static CACHE: std::sync::atomic::AtomicPtr<libc::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let name = const {
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has one zero byte, at its end"),
            }
        };
        // SAFETY: libc's function of this name has this type.
        unsafe {
            std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn($($argument),*) -> $result>(
                crate::real::find(&CACHE, name),
            )
        }
    }};
}
pub(crate) use real;
