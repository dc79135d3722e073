//! The option `MetricsPort`: metrics for Prometheus. A separate thread serves them, so that a slow client does not
//! delay cells.
//!
//! Source: OpenMetrics 1.0.0, with Prometheus' conventions for names and units.

use crate::clock::Clock;
use crate::node::Observation;
use crate::torrc::Metrics;
use penstock_link::descriptor::ExitPolicy;
use penstock_units::Instant;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time limit for a request and its response together.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of a request [B].
const LONGEST: usize = 8192;

#[derive(Debug)]
pub(super) struct Server {
    page: Arc<Mutex<String>>,
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    ///
    /// If the server cannot listen on the address.
    pub(super) fn start(metrics: &Metrics) -> io::Result<Self> {
        let listener = TcpListener::bind(metrics.listen)?;
        let address = listener.local_addr()?;
        let page = Arc::new(Mutex::new(String::new()));
        let (shared, policy) = (page.clone(), metrics.policy.clone());
        std::thread::Builder::new().name("metrics".into()).spawn(move || {
            for socket in listener.incoming() {
                match socket {
                    // A malformed request, or a client that the policy forbids, gets no answer.
                    Ok(socket) => drop(answer(socket, policy.as_ref(), &shared)),
                    // The process ran out of file descriptors.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        })?;
        Ok(Server { page, address })
    }

    pub(super) fn show(&self, observation: &Observation) {
        let page = page(observation);
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

/// Whether a client may read the metrics. Without a policy, only clients on this machine may.
fn may_ask(policy: Option<&ExitPolicy>, from: IpAddr) -> bool {
    policy.map_or(from.is_loopback(), |policy| policy.allows(from, 1))
}

fn answer(mut socket: TcpStream, policy: Option<&ExitPolicy>, page: &Mutex<String>) -> io::Result<()> {
    if !may_ask(policy, socket.peer_addr()?.ip()) {
        return Ok(());
    }
    let clock = Clock::start();
    // The limit covers the whole exchange, so a client that sends or reads single bytes gets no more time.
    let left = || {
        let left = TIMEOUT.checked_sub(clock.now().since(Instant::ZERO)).filter(|left| !left.is_zero());
        left.ok_or(io::ErrorKind::TimedOut)
    };
    let mut question = Vec::new();
    while !question.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let mut bytes = [0; 1024];
        socket.set_read_timeout(Some(left()?))?;
        let read = socket.read(&mut bytes)?;
        if read == 0 || question.len() + read > LONGEST {
            return Ok(());
        }
        question.extend_from_slice(&bytes[..read]);
    }
    let page = page.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let response = response(&question, &page);
    let mut rest = response.as_bytes();
    while !rest.is_empty() {
        socket.set_write_timeout(Some(left()?))?;
        let written = socket.write(rest)?;
        rest = &rest[written..];
    }
    Ok(())
}

fn response(question: &[u8], page: &str) -> String {
    let line = question.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", page)
        }
        (Some("GET"), _) => ("404 Not Found", "text/plain", "the metrics are at /metrics\n"),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is answered\n"),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

struct Encoder<'a>(DescriptorEncoder<'a>);

impl Encoder<'_> {
    /// Writes a counter. OpenMetrics appends `_total` to the name.
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, help, None, counter.metric_type())?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = ConstGauge::new(value);
        gauge.encode(self.0.encode_descriptor(name, help, None, gauge.metric_type())?)
    }

    /// Writes a counter with one value for each set of labels.
    fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'l str, &'l str)>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        samples
            .into_iter()
            .try_for_each(|(labels, value)| ConstCounter::new(value).encode(family.encode_family(&labels)?))
    }
}

impl Collector for Observation {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (core, node) = (&self.counters, &self.node_counters);
        let mut page = Encoder(encoder);
        let mut info =
            page.0.encode_descriptor("info", "The version and the platform.", None, MetricType::Gauge)?;
        let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        let labels = [("version", super::version()), ("platform", platform)];
        ConstGauge::new(1u64).encode(info.encode_family(&labels)?)?;
        let uptime = ConstGauge::new(self.at.since(penstock_units::Instant::ZERO).as_secs_f64());
        let help = "Time since the start.";
        uptime.encode(page.0.encode_descriptor("uptime_seconds", help, None, uptime.metric_type())?)?;
        page.counter(
            "read_bytes",
            "Bytes read from channels, TLS included, and from streams.",
            core.read_bytes.get(),
        )?;
        page.counter(
            "written_bytes",
            "Bytes written to channels, TLS included, and to streams.",
            core.written_bytes.get(),
        )?;
        page.counter("received_cells", "Cells taken from channels.", core.received)?;
        page.counter("made_cells", "Cells made here.", core.made)?;
        page.counter("sent_cells", "Cells written to channels.", core.sent)?;
        page.counter("consumed_cells", "Cells consumed here.", core.consumed)?;
        page.counter("dropped_cells", "Cells dropped with their circuits.", core.dropped)?;
        page.counter("packaged_data_cells", "DATA cells packaged from streams.", core.data_packaged)?;
        page.counter("delivered_data_cells", "DATA cells delivered to streams.", core.data_delivered)?;
        let sendmes = [("circuit", core.sendmes), ("stream", core.stream_sendmes)];
        page.counters("sendmes", "SENDMEs made here.", sendmes.map(|(of, count)| (vec![("of", of)], count)))?;
        page.counter("xoffs", "XOFFs made here.", core.xoffs)?;
        page.counter("xons", "XONs made here.", core.xons)?;
        page.counter("credits", "N23 credits made here.", core.credits)?;
        page.counter("linked_circuits", "Circuits that were linked here (Conflux).", core.linked)?;
        page.counter("switches", "SWITCH cells made here, on linked circuits.", core.switches)?;
        page.counter(
            "oom_closed_circuits",
            "Circuits that the out-of-memory handler closed.",
            core.oom_closed,
        )?;
        let [channels, circuits, streams] = self.population.map(|count| count as u64);
        page.gauge("channels", "Open channels.", channels)?;
        page.gauge("circuits", "Open circuits.", circuits)?;
        page.gauge("open_streams", "Open exit streams.", streams)?;
        page.gauge("opening_links", "Connections with an unfinished link handshake.", self.opening as u64)?;
        page.gauge("throttled_channels", "Channels that wait for a token bucket.", self.throttled.into())?;
        page.gauge("queued_cells", "Cells in all circuit queues.", self.queued.get())?;
        page.gauge(
            "longest_queue_cells",
            "The longest queue of one direction of a circuit so far.",
            core.longest_queue,
        )?;
        page.gauge(
            "longest_reordering_cells",
            "The longest queue of cells of linked circuits that waited for earlier ones so far.",
            core.longest_reordering,
        )?;
        page.gauge("outbuf_bytes", "Bytes in all output buffers.", self.outbuf.get())?;
        page.gauge(
            "kernel_out_bytes",
            "Bytes in the send queues of all channels' sockets.",
            self.kernel_out.get(),
        )?;
        let [links, streams] = self.descriptors.map(|count| count as u64);
        page.gauge("memory_bytes", "Memory that peers use, as MaxMemInQueues counts it.", self.memory.get())?;
        page.counter(
            "oom_closed_channels",
            "Channels that the out-of-memory handler closed.",
            core.oom_channels,
        )?;
        page.gauge("link_descriptors", "File descriptors of links.", links)?;
        page.gauge("stream_descriptors", "File descriptors of exit streams.", streams)?;
        let dos = &self.dos;
        let refusals = [
            ("connection_rate", dos.connections),
            ("concurrent_connections", dos.concurrent),
            ("circuit_creation", dos.circuits),
            ("stream_creation", dos.streams),
            ("single_hop_rendezvous", dos.single_hop),
        ];
        let refusals = refusals.map(|(defence, count)| (vec![("defence", defence)], count));
        page.counters("dos_refusals", "Refusals of C tor's defences (DoS options).", refusals)?;
        page.counter("dos_marked_clients", "Client addresses whose circuits were refused.", dos.marked)?;
        let links = ["relay", "client"]
            .into_iter()
            .zip(node.links)
            .map(|(peer, count)| (vec![("peer", peer)], count));
        page.counters("links", "Completed links.", links)?;
        let failures = node.link_failures.iter().map(|(reason, count)| (vec![("reason", *reason)], *count));
        page.counters("link_failures", "Failed links.", failures)?;
        let handshakes = node.handshakes.iter().map(|((kind, answered), count)| {
            let outcome = if *answered { "answered" } else { "refused" };
            (vec![("kind", *kind), ("outcome", outcome)], *count)
        });
        page.counters("circuit_handshakes", "Circuit handshakes.", handshakes)?;
        let violations = node.violations.iter().map(|(how, count)| (vec![("violation", &how[..])], *count));
        page.counters("violations", "Circuits closed because a peer broke the protocol.", violations)?;
        let outcomes = node.streams.iter().map(|(outcome, count)| (vec![("outcome", *outcome)], *count));
        page.counters("streams", "Requested exit streams.", outcomes)?;
        let effects = node.onion_services.iter().map(|(effect, count)| (vec![("effect", *effect)], *count));
        page.counters("onion_service_messages", "Messages to introduction and rendezvous points.", effects)?;
        let outcomes = node.paths.iter().map(|(outcome, count)| (vec![("outcome", *outcome)], *count));
        page.counters("datagram_paths", "Datagram paths of links to other Penstock nodes.", outcomes)?;
        Ok(())
    }
}

/// The page with all metrics at the time of the observation.
fn page(seen: &Observation) -> String {
    let mut registry = Registry::with_prefix("penstock_relay");
    registry.register_collector(Box::new(seen.clone()));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{DosCounters, NodeCounters};
    use penstock_core::Counters;
    use penstock_units::{Bytes, Cells};

    fn observation() -> Observation {
        Observation {
            at: Instant::ZERO + Duration::from_millis(1500),
            counters: Counters { sent: 7, ..Counters::default() },
            node_counters: NodeCounters { link_failures: [("not_tor", 2)].into(), ..NodeCounters::default() },
            population: [1, 2, 3],
            opening: 4,
            queued: Cells::new(5),
            outbuf: Bytes::new(6),
            kernel_out: Bytes::new(7),
            throttled: 8,
            memory: Bytes::new(12),
            descriptors: [9, 10],
            dos: DosCounters { circuits: 11, ..DosCounters::default() },
        }
    }

    #[test]
    fn every_metric_has_its_type_before_its_samples() {
        let page = page(&observation());
        assert!(page.contains("\npenstock_relay_uptime_seconds 1.5\n"));
        assert!(page.contains("\npenstock_relay_sent_cells_total 7\n"));
        assert!(page.contains("\npenstock_relay_link_failures_total{reason=\"not_tor\"} 2\n"));
        assert!(page.ends_with("# EOF\n"), "{page}");
        let (mut families, mut names) = (Vec::new(), Vec::new());
        for line in page.lines() {
            if let Some(about) = line.strip_prefix("# TYPE ") {
                let (name, kind) = about.split_once(' ').unwrap();
                assert!(!families.contains(&name), "{name} is there twice");
                families.push(name);
                // The samples of a counter end in `_total`.
                names.push(if kind == "counter" { format!("{name}_total") } else { name.to_owned() });
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(names.last().map(String::as_str), Some(name), "{line}");
                assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn only_get_metrics_returns_metrics() {
        let status = |question: &str| response(question.as_bytes(), "page")[9..12].to_owned();
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "200");
        assert_eq!(status("GET / HTTP/1.0\r\n\r\n"), "404");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("\r\n\r\n"), "405");
    }

    #[test]
    fn without_a_policy_only_this_machine_may_read_metrics() {
        assert!(may_ask(None, [127, 0, 0, 1].into()) && !may_ask(None, [192, 0, 2, 1].into()));
        let rules = vec!["accept 192.0.2.1".parse().unwrap()];
        let policy = ExitPolicy::new(rules, penstock_link::descriptor::Private::AsRules, Vec::new());
        assert!(
            may_ask(Some(&policy), [192, 0, 2, 1].into()) && !may_ask(Some(&policy), [127, 0, 0, 1].into())
        );
    }

    #[test]
    fn a_silent_scraper_delays_others_until_its_timeout() {
        let metrics = Metrics { listen: "127.0.0.1:0".parse().unwrap(), policy: None };
        let server = Server::start(&metrics).unwrap();
        server.show(&observation());
        let _silent = TcpStream::connect(server.address).unwrap();
        let mut scraper = TcpStream::connect(server.address).unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        scraper.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with('\n'), "{answer}");
    }

    #[test]
    fn a_client_that_sends_byte_by_byte_delays_others_for_the_time_limit_only() {
        let metrics = Metrics { listen: "127.0.0.1:0".parse().unwrap(), policy: None };
        let server = Server::start(&metrics).unwrap();
        let mut slow = TcpStream::connect(server.address).unwrap();
        let ends = std::thread::spawn(move || {
            // Without an end of the request, for longer than four time limits.
            for byte in b"GET / HTTP/1.1\r\nX".iter().cycle().take(90) {
                if slow.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        let clock = Clock::start();
        let mut scraper = TcpStream::connect(server.address).unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        scraper.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(clock.now().since(Instant::ZERO) < 2 * TIMEOUT);
        ends.join().unwrap();
    }
}
