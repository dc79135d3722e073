//! A Tor network on loopback with C tor authorities, relays and clients, which Penstock relays
//! join.
//!
//! All files are in one temporary folder. All processes end with the test, also if it panics.

pub(crate) mod penstock_relay;
pub(crate) mod place;
pub(crate) mod tor;

use penstock_live::clock::Clock;
use place::Place;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};
use tor::{Role, Tor, wait};

/// The file of measured bandwidths.
const BANDWIDTHS: &str = "bandwidths";

/// The voting interval [s]. C tor allows no shorter interval.
const VOTES: u32 = 10;

/// With this option, C tor requests congestion control, and accepts every request for it.
pub(crate) const CONTROLLED: &str = "__AlwaysCongestionControl 1\n";

/// The timeout for all waits [s]. It is long because a machine may be busy.
pub(crate) const TIMEOUT: u32 = 240;

/// A C tor node of a network.
#[derive(Debug)]
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) place: Place,
    /// Additional lines of its torrc.
    pub(crate) options: &'static str,
    /// The program that starts the node, with its arguments; empty if none does.
    pub(crate) starter: Vec<String>,
}

/// The network.
pub(crate) struct Network {
    folder: PathBuf,
    pub(crate) tors: Vec<Tor>,
    /// The `ConsensusParams` of the authorities.
    parameters: &'static str,
    /// Only one network runs at a time, because a machine may have only two cores.
    _alone: MutexGuard<'static, ()>,
}

impl Network {
    /// Describes a C tor network on loopback. No process starts.
    ///
    /// The consensus disables congestion control. C tor relays accept any client's request for
    /// congestion control, so [`CONTROLLED`] in a client's torrc decides.
    pub(crate) fn new(authorities: usize, relays: usize, exits: usize) -> Self {
        Network::with_parameters(authorities, relays, exits, "cc_alg=0 KISTSchedRunInterval=2")
    }

    /// Describes a C tor network with these `ConsensusParams`.
    pub(crate) fn with_parameters(
        authorities: usize,
        relays: usize,
        exits: usize,
        parameters: &'static str,
    ) -> Self {
        let kinds = [
            ("auth", Role::Authority, authorities),
            ("relay", Role::Relay, relays),
            ("exit", Role::Exit, exits),
        ];
        let place = Place::loopback();
        let nodes = kinds
            .into_iter()
            .flat_map(|(name, role, count)| (0..count).map(move |number| (format!("{name}{number}"), role)));
        let nodes = nodes.map(|(name, role)| NodeSpec {
            name,
            role,
            place: place.clone(),
            options: "",
            starter: Vec::new(),
        });
        Network::with(nodes.collect(), parameters)
    }

    /// Describes a network of these C tor nodes with these `ConsensusParams`. No process starts.
    pub(crate) fn with(nodes: Vec<NodeSpec>, parameters: &'static str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("penstock-testnet-{}-{number}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        // Generating the keys of an authority takes a second.
        let root = &folder;
        let tors = std::thread::scope(|scope| {
            let made: Vec<_> = nodes.iter().map(|node| scope.spawn(move || Tor::new(root, node))).collect();
            made.into_iter().map(|made| made.join().unwrap()).collect()
        });
        Network { folder, tors, parameters, _alone: alone }
    }

    /// Lets the authorities vote for these measured bandwidths [kB/s] of relays with these fingerprints. The first call must
    /// be before the start.
    ///
    /// Source: bandwidth-file-spec.
    pub(crate) fn set_bandwidths<'a>(&self, relays: impl IntoIterator<Item = (&'a str, u32)>) {
        let now = Clock::start().date().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
        let lines =
            relays.into_iter().map(|(fingerprint, rate)| format!("node_id=${fingerprint} bw={rate}\n"));
        let text = format!("{}\n{}", now.as_secs(), lines.collect::<String>());
        // An authority never reads half a file.
        fs::write(self.folder.join("new"), text).unwrap();
        fs::rename(self.folder.join("new"), self.folder.join(BANDWIDTHS)).unwrap();
    }

    /// A new folder for the files of a node.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.join(name);
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        folder
    }

    /// The C tor node with this name.
    pub(crate) fn tor(&self, name: &str) -> &Tor {
        self.tors.iter().find(|tor| tor.name == name).expect("the network has the node")
    }

    pub(crate) fn authorities(&self) -> impl Iterator<Item = &Tor> {
        self.tors.iter().filter(|tor| tor.role == Role::Authority)
    }

    /// Starts all C tor nodes of the network.
    pub(crate) fn start(&mut self) {
        for number in 0..self.tors.len() {
            self.restart(number);
        }
    }

    /// Starts or restarts one node.
    pub(crate) fn restart(&mut self, number: usize) {
        let torrc = self.torrc(&self.tors[number]);
        self.tors[number].start(&torrc);
    }

    /// Stops all nodes of a role.
    pub(crate) fn stop(&mut self, role: Role) {
        self.tors.iter_mut().filter(|tor| tor.role == role).for_each(Tor::stop);
    }

    /// Whether all authorities signed the consensus of the first authority.
    pub(crate) fn is_signed_by_all(&self) -> bool {
        let text = self.tors[0].read("cached-microdesc-consensus");
        text.matches("\ndirectory-signature ").count() == self.authorities().count()
    }

    /// The torrc lines with the authorities.
    fn directory(&self) -> String {
        let line = |tor: &Tor| {
            let Tor { name, or, dir, v3ident, fingerprint, .. } = tor;
            format!("DirAuthority {name} orport={} v3ident={v3ident} {dir} {fingerprint}\n", or.port())
        };
        self.authorities().map(line).collect()
    }

    fn torrc(&self, tor: &Tor) -> String {
        let Tor { name, or, dir, .. } = tor;
        let mut torrc = self.directory();
        let address = or.ip();
        torrc += &format!("Nickname {name}\nAddress {address}\nORPort {or}\nSocksPort 0\nContactInfo none\n");
        torrc += "AssumeReachable 1\nServerDNSDetectHijacking 0\nServerDNSTestAddresses\n\
                  ServerDNSAllowBrokenConfig 1\nDirCache 1\n";
        torrc += CONTROLLED;
        torrc += tor.options;
        let parameters = self.parameters;
        match tor.role {
            Role::Authority => {
                torrc += &format!(
                    "AuthoritativeDirectory 1\nV3AuthoritativeDirectory 1\nDirPort {dir}\nExitRelay 0\n\
                     V3AuthNIntervalsValid 2\nTestingV3AuthInitialVotingInterval {VOTES} seconds\n\
                     TestingV3AuthInitialVoteDelay 2 seconds\nTestingV3AuthInitialDistDelay 2 seconds\n\
                     V3AuthVotingInterval {VOTES} seconds\nV3AuthVoteDelay 2 seconds\nV3AuthDistDelay 2 seconds\n\
                     TestingDirAuthVoteGuard *\nAuthDirVoteStableGuaranteeMinUptime 0\n\
                     AuthDirVoteStableGuaranteeMTBF 0\nAuthDirFastGuarantee 1\nTestingMinFastFlagThreshold 0\n\
                     TestingMinExitFlagThreshold 0\nConsensusParams {parameters}\n"
                );
                let bandwidths = self.folder.join(BANDWIDTHS);
                if bandwidths.exists() {
                    torrc += &format!("V3BandwidthsFile {}\n", bandwidths.display());
                }
            }
            Role::Relay => torrc += "ExitRelay 0\n",
            Role::Exit => {
                torrc += "ExitRelay 1\nExitPolicy accept *:*\nExitPolicyRejectPrivate 0\n\
                          ExitPolicyRejectLocalInterfaces 0\n";
            }
            Role::Client => panic!("a client has other options"),
        }
        torrc
    }

    /// Starts a C tor client with additional options, such as `EntryNodes`.
    pub(crate) fn client(&self, name: &str, options: &str) -> Tor {
        self.client_at(&Place::loopback(), name, options)
    }

    /// Starts a C tor client at a place.
    pub(crate) fn client_at(&self, place: &Place, name: &str, options: &str) -> Tor {
        let (name, place) = (name.to_owned(), place.clone());
        let spec = NodeSpec { name, role: Role::Client, place, options: "", starter: Vec::new() };
        let mut tor = Tor::new(&self.folder, &spec);
        let directory = self.directory();
        let torrc =
            format!("{directory}SocksPort {}\nPathsNeededToBuildCircuits 0.25\n{options}\n", tor.socks);
        tor.start(&torrc);
        tor
    }

    /// Starts `penstock-relay` with a torrc.
    pub(crate) fn program(&self, nickname: &str) -> Program {
        self.program_at(&Place::loopback(), nickname, "")
    }

    /// Starts `penstock-relay` at a place, with additional torrc lines.
    pub(crate) fn program_at(&self, place: &Place, nickname: &str, options: &str) -> Program {
        self.program_by(&[], place, nickname, options)
    }

    /// As [`program_at`](Self::program_at), started by another program with its arguments.
    pub(crate) fn program_by(
        &self,
        starter: &[String],
        place: &Place,
        nickname: &str,
        options: &str,
    ) -> Program {
        let folder = self.folder.join(nickname);
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        let torrc = folder.join("torrc");
        let [or] = tor::free_addresses(place);
        let lines = format!(
            "TestingTorNetwork 1\nNickname {nickname}\nAddress {address}\nORPort {or}\nDataDirectory {folder}\n\
             ExitPolicy accept *:*\nExitPolicyRejectPrivate 0\nExitPolicyRejectLocalInterfaces 0\n\
             Log info file {folder}/log\n{directory}{options}",
            address = place.address,
            folder = folder.display(),
            directory = self.directory()
        );
        fs::write(&torrc, lines).unwrap();
        let mut command = command(starter, env!("CARGO_BIN_EXE_penstock-relay"));
        command.arg("-f").arg(&torrc).stdout(Stdio::null());
        let child = place.run(move || command.spawn()).unwrap();
        Program { folder, child }
    }

    /// Starts `penstock-relay` as a client, with additional torrc lines. It keeps its folder when it restarts.
    pub(crate) fn proxy(&self, name: &str, options: &str) -> Proxy {
        let folder = self.folder.join(name);
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder).unwrap();
        let torrc = folder.join("torrc");
        let [socks] = tor::free_addresses(&Place::loopback());
        let lines = format!(
            "TestingTorNetwork 1\nSocksPort {socks}\nDataDirectory {folder}\nLog debug file {folder}/log\n\
             {directory}{options}",
            folder = folder.display(),
            directory = self.directory()
        );
        fs::write(&torrc, lines).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_penstock-relay"));
        let child = command.arg("-f").arg(&torrc).stdout(Stdio::null()).spawn().unwrap();
        Proxy { socks, program: Program { folder, child } }
    }

    /// A line of a relay's consensus entry, by its keyword, such as `s` for the flags.
    pub(crate) fn entry(&self, nickname: &str, keyword: &str) -> Option<String> {
        let text = self.tors[0].read("cached-microdesc-consensus");
        let (_, entry) = text.split_once(&format!("\nr {nickname} "))?;
        let mut lines = entry.lines().skip(1).take_while(|line| !line.starts_with("r "));
        lines.find_map(|line| line.strip_prefix(&format!("{keyword} "))).map(ToOwned::to_owned)
    }

    /// Waits until the consensus gives a relay all these flags. Returns all its flags.
    pub(crate) fn await_flags(&self, nickname: &str, flags: &[&str]) -> String {
        let mut last = String::new();
        let agreed = wait(TIMEOUT, || {
            last = self.entry(nickname, "s").unwrap_or_default();
            flags.iter().all(|flag| last.split(' ').any(|has| has == *flag))
        });
        assert!(
            agreed,
            "{nickname} must have {flags:?}, and has {last:?}; logs are in {}",
            self.folder.display()
        );
        last
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.tors.clear();
        if std::thread::panicking() {
            eprintln!("logs are in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// A running `penstock-relay`. Dropping this value stops it.
pub(crate) struct Program {
    folder: PathBuf,
    child: Child,
}

impl Program {
    /// The process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The RSA identity in hexadecimal digits.
    pub(crate) fn fingerprint(&self) -> String {
        let said = fs::read_to_string(self.folder.join("fingerprint")).unwrap();
        said.split_whitespace().skip(1).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Penstock as a client. Dropping this value stops it.
pub(crate) struct Proxy {
    pub(crate) socks: SocketAddr,
    program: Program,
}

impl Proxy {
    /// The text of a file in the folder of the client.
    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.program.folder.join(file)).unwrap_or_default()
    }

    /// The path of a file or folder in the folder of the client.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.program.folder.join(name)
    }

    /// The circuit of each stream so far: its number and its relays.
    pub(crate) fn circuits(&self) -> Vec<String> {
        let log = self.read("log");
        let streams = log.lines().filter_map(|line| line.split_once("a stream uses circuit "));
        streams.map(|(_, circuit)| circuit.to_owned()).collect()
    }

    /// Ends the client with a signal, so that it writes its state.
    pub(crate) fn end(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.program.child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.program.child.wait().unwrap();
    }
}

/// A command that starts `program`, alone or by another program with its arguments.
fn command(starter: &[String], program: &str) -> Command {
    let Some((first, arguments)) = starter.split_first() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(arguments).arg(program);
    command
}

/// Opens a stream to `to` through a client's SOCKS port (RFC 1928, without authentication).
pub(crate) fn socks(client: &Tor, to: SocketAddr) -> std::io::Result<TcpStream> {
    socks_at(client.socks, to, None)
}

/// Opens a stream through the SOCKS port `at`, with this user and an empty password (RFC 1929) or without authentication.
pub(crate) fn socks_at(at: SocketAddr, to: SocketAddr, user: Option<&str>) -> std::io::Result<TcpStream> {
    let IpAddr::V4(address) = to.ip() else { panic!("servers of tests have IPv4 addresses") };
    socks_request(at, &[&[1][..], &address.octets()].concat(), to.port(), user)
}

/// As [`socks_at`], to a port of a host name or an onion service.
pub(crate) fn socks_to_name(at: SocketAddr, name: &str, port: u16, user: &str) -> std::io::Result<TcpStream> {
    socks_request(at, &[&[3, name.len() as u8][..], name.as_bytes()].concat(), port, Some(user))
}

/// `address` has its type first (RFC 1928, section 5).
fn socks_request(
    at: SocketAddr,
    address: &[u8],
    port: u16,
    user: Option<&str>,
) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let method = if user.is_some() { 2 } else { 0 };
    stream.write_all(&[5, 1, method])?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen)?;
    assert_eq!(chosen, [5, method], "the client accepts this authentication");
    if let Some(user) = user {
        stream.write_all(&[&[1, user.len() as u8][..], user.as_bytes(), &[0]].concat())?;
        let mut accepted = [0; 2];
        stream.read_exact(&mut accepted)?;
        assert_eq!(accepted, [1, 0], "the client accepts every user");
    }
    stream.write_all(&[&[5, 1, 0][..], address, &port.to_be_bytes()].concat())?;
    let mut reply = [0; 10];
    stream.read_exact(&mut reply)?;
    match reply[1] {
        0 => Ok(stream),
        why => Err(std::io::Error::other(format!("SOCKS error {why}"))),
    }
}

/// The positions of a circuit, first hop first.
pub(crate) const POSITIONS: [&str; 3] = ["Entry", "Middle", "Exit"];

/// The options of a client whose circuits have these relays: pairs of position and fingerprint.
pub(crate) fn pinned<'a>(positions: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let line = |(position, fingerprint): (&str, &str)| format!("{position}Nodes ${fingerprint}\n");
    positions.into_iter().map(line).collect::<String>() + "StrictNodes 1\n"
}
