//! Wraps the calls that write and read sockets. Of each TCP socket and direction, at most one call in an interval is reported
//! to penstock-kqtime. All other calls cost one look at the clock.
//!
//! Source: KIST paper, section 4.1 (libkqtime, which wraps the same calls).

#![allow(unsafe_code, reason = "the wrapped calls have C interfaces")]

mod real;
mod socket;

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use penstock_kqtime::mark::{Direction, TAG_LEN, TAG_OFFSET, Tag};
use socket::Sample;

/// Prepares this library before `main`, because neither dlsym(3) nor the environment may be used in a signal handler.
extern "C" fn prepare() {
    real::find_all();
    socket::read_settings();
}

// SAFETY: the section has pointers to functions without arguments; the loader calls them after libc's.
#[unsafe(link_section = ".init_array")]
#[used]
static PREPARE: extern "C" fn() = prepare;

/// Reads with these flags take no bytes from the stream, or return another length than that of the bytes.
const OTHER_READS: c_int = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_ERRQUEUE;

/// The bytes of the tag in a buffer.
///
/// # Safety
///
/// `buffer` has `len` readable bytes.
unsafe fn tag(buffer: *const c_void, len: usize) -> Option<Tag> {
    (len >= TAG_OFFSET + TAG_LEN).then(|| {
        // SAFETY: these bytes are within the buffer, and a tag has no alignment.
        unsafe { buffer.cast::<u8>().add(TAG_OFFSET).cast::<Tag>().read_unaligned() }
    })
}

/// The bytes of the tag in several buffers, if one of them has it whole.
///
/// # Safety
///
/// `parts` has `count` elements, whose buffers are readable up to `len` bytes together.
unsafe fn tag_of(parts: *const iovec, count: usize, len: usize) -> Option<Tag> {
    if parts.is_null() || len < TAG_OFFSET + TAG_LEN {
        return None;
    }
    let mut before = 0;
    for number in 0..count {
        // SAFETY: the caller's promise.
        let part = unsafe { &*parts.add(number) };
        let at = TAG_OFFSET.checked_sub(before)?;
        if at + TAG_LEN <= part.iov_len {
            // SAFETY: these bytes are within this buffer.
            return Some(unsafe { part.iov_base.cast::<u8>().add(at).cast::<Tag>().read_unaligned() });
        }
        before += part.iov_len;
    }
    None
}

/// Calls the real function, and reports the write if it is due and took the whole tag.
fn writing(fd: c_int, tag: Option<Tag>, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let sample = tag.and_then(|tag| Some((Sample::due(fd, Direction::Out)?, tag)));
    let result = call();
    if let Some((sample, tag)) = sample
        && result >= (TAG_OFFSET + TAG_LEN) as ssize_t
    {
        sample.send(tag);
    }
    result
}

/// Calls the real function, and reports the read if it is due and gave the whole tag.
fn reading(
    fd: c_int,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
    tag: impl FnOnce(usize) -> Option<Tag>,
) -> ssize_t {
    let result = call();
    if flags & OTHER_READS == 0
        && result >= (TAG_OFFSET + TAG_LEN) as ssize_t
        && let Some(tag) = tag(result as usize)
        && let Some(sample) = Sample::due(fd, Direction::In)
    {
        sample.send(tag);
    }
    result
}

/// write(2)
///
/// # Safety
///
/// As write(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    let call = real::write();
    // SAFETY: the caller's promise.
    unsafe { writing(fd, tag(buffer, len), || call(fd, buffer, len)) }
}

/// send(2)
///
/// # Safety
///
/// As send(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let call = real::send();
    // SAFETY: the caller's promise.
    unsafe { writing(fd, tag(buffer, len), || call(fd, buffer, len, flags)) }
}

/// sendto(2)
///
/// # Safety
///
/// As sendto(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    let call = real::sendto();
    // SAFETY: the caller's promise.
    unsafe { writing(fd, tag(buffer, len), || call(fd, buffer, len, flags, to, to_len)) }
}

/// writev(2)
///
/// # Safety
///
/// As writev(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let call = real::writev();
    // SAFETY: the caller's promise.
    unsafe { writing(fd, tag_of(parts, count.max(0) as usize, usize::MAX), || call(fd, parts, count)) }
}

/// sendmsg(2)
///
/// # Safety
///
/// As sendmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let call = real::sendmsg();
    // SAFETY: the caller's promise.
    unsafe {
        let tag =
            message.as_ref().and_then(|message| tag_of(message.msg_iov, message.msg_iovlen, usize::MAX));
        writing(fd, tag, || call(fd, message, flags))
    }
}

/// read(2)
///
/// # Safety
///
/// As read(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    let call = real::read();
    // SAFETY: the caller's promise.
    unsafe { reading(fd, 0, || call(fd, buffer, len), |got| tag(buffer, got.min(len))) }
}

/// recv(2)
///
/// # Safety
///
/// As recv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let call = real::recv();
    // SAFETY: the caller's promise.
    unsafe { reading(fd, flags, || call(fd, buffer, len, flags), |got| tag(buffer, got.min(len))) }
}

/// recvfrom(2)
///
/// # Safety
///
/// As recvfrom(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    let call = real::recvfrom();
    // SAFETY: the caller's promise.
    unsafe {
        reading(fd, flags, || call(fd, buffer, len, flags, from, from_len), |got| tag(buffer, got.min(len)))
    }
}

/// readv(2)
///
/// # Safety
///
/// As readv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let call = real::readv();
    // SAFETY: the caller's promise.
    unsafe { reading(fd, 0, || call(fd, parts, count), |len| tag_of(parts, count.max(0) as usize, len)) }
}

/// recvmsg(2)
///
/// # Safety
///
/// As recvmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let call = real::recvmsg();
    // SAFETY: the caller's promise.
    unsafe {
        reading(
            fd,
            flags,
            || call(fd, message, flags),
            |len| message.as_ref().and_then(|message| tag_of(message.msg_iov, message.msg_iovlen, len)),
        )
    }
}
