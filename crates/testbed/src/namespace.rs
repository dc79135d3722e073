//! Places with a network of their own.

use crate::Error;
use crate::error::machine;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getgid, getuid};
use std::fs::{self, File};
use std::process::{Command, Stdio};

/// A network namespace. It lasts as long as a process, a socket or this value is in it.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// The one that the calling thread is in.
    pub fn here() -> Result<Namespace, Error> {
        File::open("/proc/thread-self/ns/net").map(Namespace).map_err(|error| machine!("{error}"))
    }

    /// A new one, which the calling thread enters. It must be root of its user namespace ([`isolate`]).
    pub fn create() -> Result<Namespace, Error> {
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|error| machine!("no network namespace can be made here: {error}"))?;
        Namespace::here()
    }

    /// The calling thread makes its next sockets, devices and child processes here.
    ///
    /// # Panics
    ///
    /// If the thread is not root of the user namespace that this one belongs to.
    pub fn enter(&self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("root may enter what it made");
    }

    /// What names it to other programs, as long as it is open.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

/// Moves the process into a user namespace of its own, of which it is root. Its only thread must be the calling one.
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

/// Runs `ip` of iproute2 in the namespace that the calling thread is in.
pub fn ip(arguments: &str) -> Result<(), Error> {
    run("ip", arguments).map(drop)
}

/// The same for `tc`; what it prints.
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

/// Sets what `/proc/sys/net/ipv4` has of the namespace that the calling thread is in.
pub fn sysctl(name: &str, value: &str) -> Result<(), Error> {
    fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
        .map_err(|error| machine!("net.ipv4.{name} cannot be set to {value:?}: {error}"))
}
