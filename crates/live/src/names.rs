//! DNS lookups in a separate thread.

use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{TokioResolver, system_conf};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::{fmt, io, thread};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

/// Name servers for DNS lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameServers {
    /// The servers in /etc/resolv.conf.
    #[default]
    System,
    /// The servers in another file with this format.
    File(PathBuf),
    /// Servers at these addresses.
    At(Vec<SocketAddr>),
}

/// A DNS lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Looks up the addresses of a host name.
    Addresses(String),
    /// Looks up the host name of an address.
    Name(IpAddr),
}

/// The result of a lookup. The number says how long the result may be cached [s].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// At least one address, in the order of the DNS answer.
    Addresses(Vec<IpAddr>, u32),
    /// A host name.
    Name(String, u32),
    /// The name or address does not exist.
    Nothing,
    /// The lookup failed. A later lookup may succeed.
    Later,
}

enum Ask {
    LookUp(u64, Question),
    Cancel(u64),
}

/// The handle of the lookup thread.
pub struct Names {
    asks: UnboundedSender<Ask>,
    answers: Receiver<(u64, Found)>,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

impl Names {
    /// Starts the lookup thread. It calls `wake` after each answer.
    ///
    /// # Errors
    ///
    /// If no name server is known, or the system allows no more threads.
    pub fn start(servers: &NameServers, wake: impl Fn() + Clone + Send + 'static) -> io::Result<Self> {
        let (config, options) = settings(servers)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (asks, asked) = unbounded_channel();
        let (answer, answers) = channel();
        thread::Builder::new().name("names".into()).spawn(move || {
            runtime.block_on(async {
                let provider = TokioRuntimeProvider::default();
                let builder = TokioResolver::builder_with_config(config, provider).with_options(options);
                match builder.build() {
                    Ok(resolver) => serve(&resolver, asked, &answer, wake).await,
                    Err(_) => refuse(asked, &answer, wake).await,
                }
            });
        })?;
        Ok(Names { asks, answers })
    }

    /// Starts a lookup. The answer will have the same number.
    pub fn ask(&self, number: u64, question: Question) {
        // If the thread has ended, no answer arrives, and the client's timeout ends the stream.
        let _ = self.asks.send(Ask::LookUp(number, question));
    }

    /// Cancels a lookup. The answer arrives immediately. It is [`Found::Later`], unless the lookup has already ended.
    pub fn cancel(&self, number: u64) {
        let _ = self.asks.send(Ask::Cancel(number));
    }

    /// The next answer, if there is one.
    pub fn answer(&self) -> Option<(u64, Found)> {
        self.answers.try_recv().ok()
    }
}

/// Maximum number of lookups at the same time [1].
pub const MAX_LOOKUPS: usize = 2048;
/// Maximum number of sockets of one lookup [1]: for each address family, a UDP request and its two retransmissions, each
/// on a new port. One name server is asked at a time.
pub const SOCKETS_PER_LOOKUP: usize = 6;
/// Maximum number of requests on one TCP connection to a name server [1]. Further requests fail. A lookup of a host name
/// makes two requests, for IPv4 and IPv6 addresses.
const MAX_REQUESTS: usize = 2 * MAX_LOOKUPS;

fn settings(servers: &NameServers) -> io::Result<(ResolverConfig, ResolverOpts)> {
    let (config, mut options) = servers_and_options(servers)?;
    options.max_active_requests = MAX_REQUESTS;
    // Answers in a cache would be memory that no limit counts, up to 64 kB for each name. The name server has a cache.
    options.cache_size = 0;
    // Like C tor's resolver, which asks the next server after a timeout.
    options.num_concurrent_reqs = 1;
    Ok((config, options))
}

fn servers_and_options(servers: &NameServers) -> io::Result<(ResolverConfig, ResolverOpts)> {
    match servers {
        NameServers::System => system_conf::read_system_conf().map_err(io::Error::other),
        NameServers::File(path) => {
            system_conf::parse_resolv_conf(std::fs::read(path)?).map_err(io::Error::other)
        }
        NameServers::At(addresses) => {
            let at = |address: &SocketAddr| {
                let mut server = NameServerConfig::udp_and_tcp(address.ip());
                server.connections.iter_mut().for_each(|connection| connection.port = address.port());
                server
            };
            let config = ResolverConfig::from_parts(None, Vec::new(), addresses.iter().map(at).collect());
            Ok((config, ResolverOpts::default()))
        }
    }
}

type Tasks = Arc<Mutex<BTreeMap<u64, AbortHandle>>>;

fn tasks(tasks: &Tasks) -> MutexGuard<'_, BTreeMap<u64, AbortHandle>> {
    tasks.lock().expect("no code panics while it holds the lock")
}

/// The answer of a lookup. Dropping it sends the answer, so each lookup gets an answer, even a cancelled one.
struct Reply<W: Fn()> {
    number: u64,
    found: Found,
    answer: Sender<(u64, Found)>,
    wake: W,
    running: Tasks,
}

impl<W: Fn()> Reply<W> {
    fn say(&mut self, found: Found) {
        self.found = found;
    }
}

impl<W: Fn()> Drop for Reply<W> {
    fn drop(&mut self) {
        tasks(&self.running).remove(&self.number);
        // The node may have ended.
        let _ = self.answer.send((self.number, std::mem::replace(&mut self.found, Found::Later)));
        (self.wake)();
    }
}

async fn serve(
    resolver: &TokioResolver,
    mut asked: UnboundedReceiver<Ask>,
    answer: &Sender<(u64, Found)>,
    wake: impl Fn() + Clone + Send + 'static,
) {
    let running = Tasks::default();
    while let Some(ask) = asked.recv().await {
        let (number, question) = match ask {
            Ask::LookUp(number, question) => (number, question),
            Ask::Cancel(number) => {
                let task = tasks(&running).remove(&number);
                // Aborting drops the task's reply, either here or when the runtime continues.
                task.inspect(AbortHandle::abort);
                continue;
            }
        };
        let resolver = resolver.clone();
        let (answer, wake, running_too) = (answer.clone(), wake.clone(), running.clone());
        let mut reply = Reply { number, found: Found::Later, answer, wake, running: running_too };
        let task = tokio::spawn(async move {
            let found = look_up(&resolver, question).await;
            reply.say(found.unwrap_or_else(|error| failure(&error)));
        });
        // The runtime has one thread, so the task has not started yet.
        tasks(&running).insert(number, task.abort_handle());
    }
}

/// Answers every lookup with a failure, because there is no resolver.
async fn refuse(mut asked: UnboundedReceiver<Ask>, answer: &Sender<(u64, Found)>, wake: impl Fn()) {
    while let Some(ask) = asked.recv().await {
        if let Ask::LookUp(number, _) = ask {
            let _ = answer.send((number, Found::Later));
            wake();
        }
    }
}

async fn look_up(resolver: &TokioResolver, question: Question) -> Result<Found, NetError> {
    Ok(match question {
        Question::Addresses(name) => {
            // The final dot prevents lookups in the search domains of this machine.
            let name = if name.ends_with('.') { name } else { format!("{name}.") };
            let found = resolver.lookup_ip(name).await?;
            let ttl = found.as_lookup().answers().iter().map(|record| record.ttl).min().unwrap_or(0);
            let addresses: Vec<IpAddr> = found.iter().collect();
            if addresses.is_empty() { Found::Nothing } else { Found::Addresses(addresses, ttl) }
        }
        Question::Name(address) => {
            let found = resolver.reverse_lookup(address).await?;
            let name = found.answers().iter().find_map(|record| match &record.data {
                RData::PTR(name) => Some((name.0.to_utf8(), record.ttl)),
                _ => None,
            });
            name.map_or(Found::Nothing, |(name, ttl)| Found::Name(name.trim_end_matches('.').to_owned(), ttl))
        }
    })
}

fn failure(error: &NetError) -> Found {
    if error.is_no_records_found() || error.is_nx_domain() { Found::Nothing } else { Found::Later }
}

/// The address in a name of a reverse lookup (RFC 1035 section 3.5, RFC 3596 section 2.5).
pub fn arpa(name: &str) -> Option<IpAddr> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if let Some(octets) = name.strip_suffix(".in-addr.arpa") {
        let octets: Vec<u8> = octets.rsplit('.').map(|octet| octet.parse().ok()).collect::<Option<_>>()?;
        return <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    }
    let digit = |text: &str| (text.len() == 1).then(|| u8::from_str_radix(text, 16).ok()).flatten();
    let digits: Vec<u8> =
        name.strip_suffix(".ip6.arpa")?.rsplit('.').map(digit).collect::<Option<Vec<u8>>>()?;
    let octets: Vec<u8> = digits.chunks(2).filter_map(|pair| Some(pair[0] << 4 | *pair.get(1)?)).collect();
    let whole = digits.len() == 32;
    <[u8; 16]>::try_from(octets).ok().filter(|_| whole).map(IpAddr::from)
}

/// The name for a reverse lookup of an address: the inverse of [`arpa`].
pub fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let digits = format!("{:032x}", v6.to_bits());
            let digits: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::Duration;

    #[test]
    fn reverse_lookup_names_give_their_address() {
        assert_eq!(arpa("4.3.2.1.in-addr.arpa"), Some(Ipv4Addr::new(1, 2, 3, 4).into()));
        assert_eq!(arpa("4.3.2.1.IN-ADDR.ARPA."), Some(Ipv4Addr::new(1, 2, 3, 4).into()));
        for address in ["192.0.2.7", "2001:db8::567:89ab"].map(|text| text.parse().unwrap()) {
            assert_eq!(arpa(&reverse(address)), Some(address));
        }
        let six: Ipv6Addr = "2001:db8::567:89ab".parse().unwrap();
        let name = "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        assert_eq!(arpa(name), Some(six.into()));
        for bad in
            ["example.com", "3.2.1.in-addr.arpa", "4.3.2.256.in-addr.arpa", "1.ip6.arpa", "ip6.arpa", ""]
        {
            assert_eq!(arpa(bad), None, "{bad}");
        }
        let short = &name[2..];
        assert_eq!(arpa(short), None);
    }

    /// A server that answers by the first label of a name: `four`, `six`, `none` (no such name), `broken` (a
    /// failure) or `mute` (no answer). Every address has the name `found.example`.
    fn server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut packet) {
                if &packet[12..17] != b"\x04mute" {
                    socket.send_to(&reply(&packet[..len]), from).unwrap();
                }
            }
        });
        address
    }

    fn reply(query: &[u8]) -> Vec<u8> {
        let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
        let kind = u16::from_be_bytes([query[end], query[end + 1]]);
        let label = &query[13..13 + usize::from(query[12])];
        let record: Option<(u16, Vec<u8>)> = match (label, kind) {
            (b"four", 1) => Some((1, vec![192, 0, 2, 1])),
            (b"six", 28) => Some((28, Ipv6Addr::LOCALHOST.octets().to_vec())),
            (_, 12) => Some((12, b"\x05found\x07example\x00".to_vec())),
            _ => None,
        };
        let code = match label {
            b"none" => 3,
            b"broken" => 2,
            _ => 0,
        };
        let mut say = query[..2].to_vec();
        say.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(record.is_some()), 0, 0, 0, 0]);
        say.extend(&query[12..end + 4]);
        if let Some((kind, data)) = record {
            say.extend([0xC0, 12]);
            say.extend(kind.to_be_bytes());
            say.extend([0, 1, 0, 0, 0x0E, 0x10]);
            say.extend((data.len() as u16).to_be_bytes());
            say.extend(data);
        }
        say
    }

    #[test]
    fn answers_of_name_servers_are_parsed() {
        let (wake, woken) = channel();
        let names = Names::start(&NameServers::At(vec![server()]), move || wake.send(()).unwrap()).unwrap();
        let address = |name: &str| Question::Addresses(name.into());
        let questions = [
            (address("four.example"), Found::Addresses(vec![Ipv4Addr::new(192, 0, 2, 1).into()], 3600)),
            (address("six.example"), Found::Addresses(vec![Ipv6Addr::LOCALHOST.into()], 3600)),
            (address("none.example"), Found::Nothing),
            (address("broken.example"), Found::Later),
            (Question::Name(Ipv4Addr::new(192, 0, 2, 7).into()), Found::Name("found.example".into(), 3600)),
        ];
        for (number, (question, expected)) in questions.into_iter().enumerate() {
            names.ask(number as u64, question.clone());
            woken.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(names.answer(), Some((number as u64, expected)), "{question:?}");
        }
    }

    #[test]
    fn each_lookup_has_an_answer() {
        let (wake, woken) = channel();
        let names = Names::start(&NameServers::At(vec![server()]), move || wake.send(()).unwrap()).unwrap();
        let long = ["a".repeat(64), "a.".repeat(127), "a.".repeat(128)];
        let odd =
            ["127.1", "1", "127.0.0.1.", "256.1.1.1", "a..example", ".", "-", "_", "\\", "\\999.example"];
        for (number, name) in (0..).zip(odd.into_iter().chain(long.iter().map(String::as_str))) {
            names.ask(number, Question::Addresses(name.into()));
            woken.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("{name:?} has no answer"));
            assert_eq!(names.answer().map(|(answered, _)| answered), Some(number), "{name}");
        }
    }

    #[test]
    fn a_cancelled_lookup_ends_immediately_and_others_continue() {
        let (wake, woken) = channel();
        let names = Names::start(&NameServers::At(vec![server()]), move || wake.send(()).unwrap()).unwrap();
        names.ask(1, Question::Addresses("mute.example".into()));
        names.ask(2, Question::Addresses("mute.example".into()));
        names.cancel(1);
        // Less than the timeout of a name server.
        let soon = Duration::from_secs(4);
        woken.recv_timeout(soon).unwrap();
        assert_eq!(names.answer(), Some((1, Found::Later)));
        names.cancel(1);
        names.ask(3, Question::Addresses("four.example".into()));
        woken.recv_timeout(soon).unwrap();
        assert!(matches!(names.answer(), Some((3, Found::Addresses(..)))));
        assert_eq!(names.answer(), None);
    }

    #[test]
    fn one_connection_takes_the_requests_of_all_lookups() {
        let (_, options) = settings(&NameServers::At(vec![server()])).unwrap();
        assert!(options.max_active_requests >= 2 * MAX_LOOKUPS, "{}", options.max_active_requests);
    }

    #[test]
    fn no_name_server_is_an_error() {
        let missing = NameServers::File("/nowhere/resolv.conf".into());
        assert!(Names::start(&missing, || {}).is_err());
    }
}
