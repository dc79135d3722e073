//! The path test over real sockets.

use penstock_core::reason::DestroyReason;
use penstock_core::{Cell, ChannelKey, CircId, Kernel, SocketInfo};
use penstock_units::Bytes;
use penstock_worlds::linux::Linux;
use penstock_worlds::linux::cell::LinuxCell;
use penstock_worlds::linux::ground::Ground;
use penstock_worlds::linux::kernel::LinuxKernel;
use penstock_worlds::path_test;
use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::process::{Command, Stdio};

/// Marks the process that `unshare` started.
const INSIDE: &str = "PENSTOCK_WORLDS_INSIDE";

#[test]
fn the_path_test_passes_over_loopback() {
    path_test(&mut Linux { ground: Ground::Loopback });
}

#[test]
fn the_path_test_passes_over_two_namespaces() {
    if std::env::var_os(INSIDE).is_some() {
        match Ground::namespaces() {
            Ok(ground) => path_test(&mut Linux { ground }),
            Err(why) => println!("skipped: no pair of network namespaces here ({why}); loopback was tested"),
        }
        return;
    }
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("-Urn").args(arguments).stdin(Stdio::null()).env(INSIDE, "1");
        command
    };
    let probe = inside(&["true"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: `unshare -Urn` is refused here; loopback was tested");
        return;
    }
    let this = std::env::current_exe().expect("a test has a file");
    let this = this.to_str().expect("cargo names files in UTF-8");
    let mut child = inside(&[this, "--exact", "the_path_test_passes_over_two_namespaces", "--nocapture"]);
    assert!(child.status().expect("unshare starts").success(), "the path test inside the namespace fails");
}

/// Two kernels and a channel between them.
fn pair() -> [LinuxKernel; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let here = TcpStream::connect(listener.local_addr().expect("the listener is bound"))
        .expect("the listener accepts connections");
    let (there, _) = listener.accept().expect("a peer connected");
    [here, there].map(|socket| {
        let mut kernel = LinuxKernel::new();
        kernel.attach(CHANNEL, socket).expect("a socket can be non-blocking");
        kernel
    })
}

const CHANNEL: ChannelKey = ChannelKey::first(0);
const ALL: Bytes = Bytes::new(u64::MAX);

fn cells(from: u32, to: u32) -> VecDeque<LinuxCell> {
    (from..to)
        .map(|id| {
            LinuxCell::destroy(CircId(NonZeroU32::new(id).expect("ids count from one")), DestroyReason::NONE)
        })
        .collect()
}

/// The kernel keeps partial cells. The core sees whole cells, once and in order.
#[test]
fn cells_cross_whole_and_in_order_over_split_writes() {
    let [mut here, mut there] = pair();
    let (mut waiting, mut arrived) = (cells(1, 40_000), VecDeque::new());
    let mut refusals = 0;
    while arrived.len() < 39_999 {
        let before = waiting.len();
        let bytes = here.write(CHANNEL, &mut waiting, ALL);
        assert_eq!(bytes.get(), (before - waiting.len()) as u64 * 512);
        refusals += u32::from(!waiting.is_empty());
        let before = arrived.len();
        let bytes = there.read(CHANNEL, Bytes::new(16 << 10), &mut arrived);
        assert_eq!(bytes.get(), (arrived.len() - before) as u64 * 512);
        assert!(bytes <= Bytes::kib(16));
    }
    assert!(refusals > 0, "20 MB do not fit a socket");
    assert!(arrived.iter().map(|cell| cell.circ_id().0.get()).eq(1..40_000));
}

#[test]
fn a_limit_is_exceeded_by_less_than_a_cell() {
    let [mut here, mut there] = pair();
    let mut waiting = cells(1, 100);
    assert_eq!(here.write(CHANNEL, &mut waiting, Bytes::new(513)), Bytes::new(1024));
    assert_eq!(here.write(CHANNEL, &mut waiting, Bytes::ZERO), Bytes::ZERO);
    let mut arrived = VecDeque::new();
    while arrived.len() < 2 {
        assert!(there.read(CHANNEL, Bytes::new(1), &mut arrived) <= Bytes::new(512));
    }
}

#[test]
fn socket_info_matches_the_kernel() {
    let [mut here, mut there] = pair();
    let empty = here.socket_info(CHANNEL);
    if empty == SocketInfo::default() {
        println!("skipped: sock_diag is refused here");
        return;
    }
    assert_eq!((empty.queued, empty.not_sent, empty.unacked), (Bytes::ZERO, Bytes::ZERO, 0));
    assert!(empty.cwnd > 0 && empty.mss >= 500, "{empty:?}");
    let mut waiting = cells(1, 40_000);
    let taken = here.write(CHANNEL, &mut waiting, ALL);
    let full = here.socket_info(CHANNEL);
    assert!(full.not_sent > Bytes::ZERO && full.not_sent <= full.queued, "{full:?}");
    assert!(full.queued <= taken && full.queued <= full.capacity, "{full:?} of {taken:?}");
    // The reader takes all data.
    let mut arrived = VecDeque::new();
    while !waiting.is_empty() || arrived.len() < 39_999 {
        here.write(CHANNEL, &mut waiting, ALL);
        there.read(CHANNEL, ALL, &mut arrived);
    }
    let mut drained = here.socket_info(CHANNEL);
    for _ in 0..1000 {
        if drained.queued == Bytes::ZERO {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        drained = here.socket_info(CHANNEL);
    }
    assert_eq!((drained.queued, drained.not_sent), (Bytes::ZERO, Bytes::ZERO));
    assert!(drained.rtt > std::time::Duration::ZERO);
}
