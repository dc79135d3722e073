//! Network namespaces.

use crate::Error;
use crate::error::machine;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getgid, getuid};
use std::fs::{self, File};
use std::process::{Command, Stdio};

/// A network namespace. The namespace exists while a process, a socket or this value uses it.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// The network namespace of the calling thread.
    pub fn here() -> Result<Namespace, Error> {
        File::open("/proc/thread-self/ns/net").map(Namespace).map_err(|error| machine!("{error}"))
    }

    /// Creates a network namespace. The calling thread enters it, and must be root of its user namespace ([`isolate`]).
    pub fn create() -> Result<Namespace, Error> {
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|error| machine!("no network namespace can be made here: {error}"))?;
        Namespace::here()
    }

    /// Moves the calling thread into the namespace, for sockets, devices and child processes that it creates later.
    ///
    /// # Panics
    ///
    /// If the thread is not root of the namespace's user namespace.
    pub fn enter(&self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("root may enter what it made");
    }

    /// A file with which other programs can find the namespace.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

/// Moves the process into a new user namespace, where it is root. The process must have only the calling thread.
pub fn isolate() -> Result<(), Error> {
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| {
        machine!("no user namespace can be made here: {error}; allow unprivileged user namespaces")
    })?;
    let map = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| machine!("/proc/self/{file}: {error}"))
    };
    map("setgroups", "deny".to_owned())?;
    map("uid_map", format!("0 {user} 1"))?;
    map("gid_map", format!("0 {group} 1"))
}

/// Runs iproute2's `ip` in the network namespace of the calling thread.
pub fn ip(arguments: &str) -> Result<(), Error> {
    run("ip", arguments).map(drop)
}

/// Runs iproute2's `tc`, and returns its output.
pub fn tc(arguments: &str) -> Result<String, Error> {
    run("tc", arguments)
}

fn run(program: &str, arguments: &str) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).stdin(Stdio::null()).stderr(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(machine!("{program} {arguments}: {}", output.status)),
        Err(error) => Err(machine!("{program} of iproute2 is needed: {error}")),
    }
}

/// Sets a value in `/proc/sys/net/ipv4`, for the network namespace of the calling thread.
pub fn sysctl(name: &str, value: &str) -> Result<(), Error> {
    fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
        .map_err(|error| machine!("net.ipv4.{name} cannot be set to {value:?}: {error}"))
}
