//! Limits the rights of a relay before it serves peers: core dumps, user, files (Landlock), system calls (seccomp).
//!
//! An attacker who exploits the relay can then start no program, and access no files except the relay's and the
//! system's. The relay leaves no memory dump on the disk.

use crate::Error;
use crate::torrc::{Options, Sink, User};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    path_beneath_rules,
};
use nix::libc;
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Uid, chown, initgroups, setgid, setuid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Forbids core dumps. Other processes of the same user can no longer read the relay's memory.
///
/// Source: C tor `tor_disable_debugger_attach()`, with the default of `DisableDebuggerAttachment`.
pub(super) fn forbid_dumps(options: &Options) {
    if options.allow_debugger {
        return;
    }
    // Keys would be in a dump. If Linux refuses, the relay is no less safe than before.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = set_dumpable(false);
}

/// Switches permanently to the user in the torrc. Creates the relay's missing folders for this user.
///
/// Source: C tor `switch_id()`.
/// Deviation: the relay keeps no capabilities. A change of its ports therefore needs a restart.
pub(super) fn become_user(options: &Options) -> Result<(), Error> {
    let Some(User { name, uid, gid }) = &options.user else { return Ok(()) };
    if Uid::effective() == *uid && Uid::current() == *uid {
        return Ok(());
    }
    let fail = |why: &dyn std::fmt::Display| Error::operator(format!("User {name}: {why}"));
    if !Uid::effective().is_root() {
        return Err(fail(&"only root can change the user; start the relay as root, or remove this line"));
    }
    for folder in [&options.data_directory, &options.key_directory] {
        match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => chown(folder, Some(*uid), Some(*gid)).map_err(|error| fail(&error))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::file(folder, error)),
        }
    }
    let text = CString::new(name.as_str()).map_err(|error| fail(&error))?;
    initgroups(&text, *gid)
        .and_then(|()| setgid(*gid))
        .and_then(|()| setuid(*uid))
        .map_err(|error| fail(&error))?;
    if setuid(Uid::from_raw(0)).is_ok() && !uid.is_root() {
        return Err(fail(&"Linux still lets the relay be root"));
    }
    Ok(())
}

/// Restricts this thread, and all threads that it starts, to the relay's files and to files of the system. Returns
/// whether this kernel supports it.
///
/// # Errors
///
/// If the kernel refuses a rule.
pub(super) fn restrict_files(
    options: &Options,
    tables: Option<&Path>,
    torrc: Option<&Path>,
) -> Result<bool, Error> {
    let abi = ABI::V5;
    let fail = |error: landlock::RulesetError| Error::operator(format!("Sandbox: Landlock: {error}"));
    let (read, write) = paths(options, tables, torrc);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(read, AccessFs::ReadFile | AccessFs::ReadDir)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(write, writing(abi))))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(fail)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// The rights in the relay's folders: all except starting programs and creating devices, pipes, sockets and symlinks.
fn writing(abi: ABI) -> landlock::BitFlags<AccessFs> {
    let never = AccessFs::Execute
        | AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeFifo
        | AccessFs::MakeSock
        | AccessFs::MakeSym;
    AccessFs::from_all(abi) & !never
}

/// The folders that the relay reads, and the ones that it also writes.
fn paths(options: &Options, tables: Option<&Path>, torrc: Option<&Path>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let folder_of = |path: &Path| {
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        whole.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned)
    };
    // Name servers, time zones, libraries of the name service switch, and the number of processors.
    let mut read: Vec<PathBuf> =
        ["/etc", "/usr", "/lib", "/lib64", "/proc", "/sys", "/dev"].map(PathBuf::from).into();
    read.push(folder_of(options.resolv_conf.as_deref().unwrap_or(Path::new("/etc/resolv.conf"))));
    // An editor replaces a torrc, so the relay needs the folder at SIGHUP.
    read.extend(torrc.map(folder_of));
    let mut write = vec![options.data_directory.clone(), options.key_directory.clone()];
    write.extend(tables.map(Path::to_owned));
    write.extend(options.pid_file.as_deref().map(folder_of));
    write.extend(options.logs.iter().filter_map(|log| match &log.sink {
        Sink::File(path) => Some(folder_of(path)),
        Sink::Stdout | Sink::Stderr => None,
    }));
    (read, write)
}

/// Restricts the system calls of all threads. Returns false if there is no filter for this processor, or the kernel has
/// no filters. There are filters for x86_64, aarch64 and riscv64.
///
/// # Errors
///
/// If Linux refuses the filter.
pub(super) fn restrict_calls() -> Result<bool, Error> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(false) };
    for filter in filters(arch, UNEXPECTED).map_err(|error| Error::operator(format!("Sandbox: {error}")))? {
        match apply_filter_all_threads(&filter) {
            Ok(()) => {}
            Err(error) if is_missing(&error) => return Ok(false),
            Err(error) => {
                return Err(Error::operator(format!("Sandbox: {error}; write Sandbox 0 to run without it")));
            }
        }
    }
    Ok(true)
}

/// Whether the kernel was built without filters (prctl(2), seccomp(2)).
fn is_missing(error: &seccompiler::Error) -> bool {
    let (seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error)) = error else { return false };
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
}

/// The effect of a system call in neither list. In a build with debug assertions, it ends the process, so that tests
/// notice the call.
const UNEXPECTED: SeccompAction = if cfg!(debug_assertions) {
    SeccompAction::KillProcess
} else {
    SeccompAction::Errno(libc::EPERM as u32)
};

/// Two filters for system calls. If they disagree, the stricter one decides. The first one ends the process at a call
/// that only an attacker makes. The second one allows the calls of a relay, but not a further filter.
fn filters(
    arch: TargetArch,
    unexpected: SeccompAction,
) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let first = |allowed: &[libc::c_int]| -> Result<Vec<_>, _> {
        let rule = |value: &libc::c_int| {
            let (len, is_equal) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
            SeccompRule::new(vec![SeccompCondition::new(0, len, is_equal, *value as u64)?])
        };
        allowed.iter().map(rule).collect()
    };
    let domains = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_NETLINK];
    allowed.insert(libc::SYS_socket, first(&domains)?);
    // A new thread sets its name.
    allowed.insert(libc::SYS_prctl, first(&[libc::PR_SET_NAME])?);
    let fatal = FATAL.iter().map(|call| (*call, Vec::new())).collect();
    Ok([
        SeccompFilter::new(fatal, SeccompAction::Allow, SeccompAction::KillProcess, arch)?.try_into()?,
        SeccompFilter::new(allowed, unexpected, SeccompAction::Allow, arch)?.try_into()?,
    ])
}

/// Other processors have no filter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const CALLS: &[i64] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const FATAL: &[i64] = &[];

/// The system calls that a relay needs, including those of the C library and of a panic.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
const CALLS: &[i64] = &[
    // Files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_umask,
    // Sockets. `socket` has a rule of its own, and so has `prctl`.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    libc::SYS_ioctl,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads and signals.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    // Questions about this process and machine.
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Old forms that the C library uses on this processor only.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// System calls that only an attacker makes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
const FATAL: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_setns,
    libc::SYS_setresuid,
    libc::SYS_setuid,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_allowed_and_fatal() {
        assert!(FATAL.iter().all(|call| !CALLS.contains(call) && *call != libc::SYS_socket));
        for arch in [TargetArch::x86_64, TargetArch::aarch64, TargetArch::riscv64] {
            let filters = filters(arch, UNEXPECTED).unwrap();
            assert!(filters.iter().all(|filter| (10..4096).contains(&filter.len())));
        }
    }

    #[test]
    fn a_kernel_without_filters_is_no_error() {
        let of = |errno| seccompiler::Error::Seccomp(io::Error::from_raw_os_error(errno));
        assert!(is_missing(&of(libc::ENOSYS)) && is_missing(&of(libc::EINVAL)));
        assert!(!is_missing(&of(libc::EPERM)) && !is_missing(&seccompiler::Error::ThreadSync(7)));
    }

    #[test]
    fn a_filtered_thread_sets_its_name_and_no_other_attribute() {
        let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return };
        let filters = filters(arch, SeccompAction::Errno(libc::EPERM as u32)).unwrap();
        let outcome = std::thread::spawn(move || {
            for filter in &filters {
                seccompiler::apply_filter(filter).unwrap();
            }
            let other = nix::sys::prctl::get_dumpable();
            (nix::sys::prctl::set_name(c"filtered"), other)
        });
        assert_eq!(outcome.join().unwrap(), (Ok(()), Err(nix::errno::Errno::EPERM)));
    }
}
