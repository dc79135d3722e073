//! The command line: pairs of `--key value`. Each error message shows the correct form.

use crate::Error;
use crate::error::usage;
use crate::link::LinkConfig;
use crate::socket::Congestion;
use crate::tcp::Kind;
use crate::{limits, sndbuf, tcp};
use penstock_units::parse::duration;
use penstock_units::time::nanos;
use penstock_units::{Bytes, DataRate, Duration};
use std::fmt::Display;
use std::str::FromStr;
use strum::VariantNames;

/// A parsed command line.
#[derive(Debug)]
pub enum Command {
    /// Prints the help text.
    Help,
    /// Runs the experiment `tcp`.
    Tcp(tcp::Experiment),
    /// Runs the experiment `sndbuf`.
    Sndbuf(sndbuf::Experiment),
    /// Runs the experiment `limits`.
    Limits(limits::Experiment),
    /// Runs a scenario, with the arguments after `world`.
    World(Vec<String>),
}

/// The help text.
pub const USAGE: &str = r#"penstock-testbed: emulated links between real kernels on one machine

penstock-testbed tcp goodput|window|download [OPTION]...   one flow over one link
penstock-testbed sndbuf [OPTION]...                        how the send buffer of a socket is tuned
penstock-testbed limits [OPTION]...                        how much of KIST's writes leaves at once
penstock-testbed world SCENARIO [OPTION]...                a scenario on live relays (built with --features relays)

Each command prints one row: a JSON object on a line. Options, with their defaults:
  --rate "10 MiB/s"    rate of the link each way, counting IP packets (window: 100 Mbit/s; sndbuf: 128 KiB/s;
                       limits: 1 MiB/s)
  --rtt "10 ms"        twice the delay of the link (sndbuf, limits: 80 ms)
  --queue SIZE         drop-tail queue each way (goodput, download: rate × rtt, at least 100 packets of 1500 B;
                       window, limits: rate × rtt; sndbuf: 75 kB)
  --spin "0 s"         busy wait before each packet is due
  --seconds "60 s"     not for limits: duration of counting (window, download: time limit, 3600 s)
only tcp:
  --congestion cubic   cubic or reno
  --loss 0             probability that a packet is lost, each way
  --repeat 1           seed of the losses
  --warmup "5 s"       goodput: before counting begins
  --bytes "100 MiB"    window, download: length of the download
  --recovery rack      rack, no-probes (no tail loss probes), or sack (no RACK either; Linux before 6.17)
only sndbuf:
  --writes RATE        rate of the application's writes; without it, whenever the socket is writable
  --every "100 ms"     interval of samples
only limits:
  --every "10 ms"      interval of writes
  --writes 110         number of writes
  --excess 10          every n-th write is twice as large; 0: none
  --loss 0             as above
only world, which takes no other options:
  --world testbed      testbed, or sim: the same scenario in the simulator
  --variant NAME       variant of the scenario (default: the first)
  --seed 1             seed of starts, pauses, sizes and losses, the same in both worlds
  --set KEY=VALUE      sets a value over the file; may be repeated
  --network FILE       takes relays and [network] from a network file
  --out DIR            also writes the five tables to this folder
"#;

impl Command {
    /// Parses the arguments of the program.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, Error> {
        let mut arguments = arguments.into_iter();
        let command = arguments.next().unwrap_or_default();
        match command.as_str() {
            "help" | "--help" | "-h" => Ok(Command::Help),
            "tcp" => {
                let kind = word("tcp", &arguments.next().unwrap_or_default())?;
                tcp_experiment(kind, Options::read(arguments)?).map(Command::Tcp)
            }
            "sndbuf" => sndbuf_experiment(Options::read(arguments)?).map(Command::Sndbuf),
            "limits" => limits_experiment(Options::read(arguments)?).map(Command::Limits),
            "world" => Ok(Command::World(arguments.collect())),
            _ => Err(usage!("{command:?} is not a command: write tcp, sndbuf, limits, world or help")),
        }
    }
}

fn tcp_experiment(kind: Kind, mut options: Options) -> Result<tcp::Experiment, Error> {
    let rate = if kind == Kind::Window { DataRate::mbit(100) } else { DataRate::mib(10) };
    let seconds = if kind == Kind::Goodput { 60 } else { 3600 };
    let rate = options.take("rate", rate)?;
    let rtt = options.span("rtt", Duration::from_millis(10))?;
    let bdp = rate.bytes_in(rtt);
    let queue = if kind == Kind::Window { bdp } else { bdp.max(Bytes::new(100 * 1500)) };
    let loss = options.probability("loss")?;
    let experiment = tcp::Experiment {
        kind,
        congestion: options.word("congestion", Congestion::Cubic)?,
        link: LinkConfig { rate, delay: rtt / 2, loss, queue: options.take("queue", queue)? },
        repeat: options.take("repeat", 1)?,
        warmup: options.span("warmup", Duration::from_secs(5))?,
        seconds: options.positive("seconds", Duration::from_secs(seconds))?,
        bytes: options.take("bytes", Bytes::kib(100 << 10))?,
        recovery: options.word("recovery", tcp::Recovery::Rack)?,
        spin: options.span("spin", Duration::ZERO)?,
    };
    options.finish()?;
    Ok(experiment)
}

fn sndbuf_experiment(mut options: Options) -> Result<sndbuf::Experiment, Error> {
    let rtt = options.span("rtt", Duration::from_millis(80))?;
    let experiment = sndbuf::Experiment {
        link: LinkConfig {
            rate: options.take("rate", DataRate::kib(128))?,
            delay: rtt / 2,
            loss: 0.0,
            queue: options.take("queue", Bytes::new(75_000))?,
        },
        writes: options
            .0
            .iter()
            .any(|(key, _)| key == "writes")
            .then(|| options.take("writes", DataRate::kib(128)))
            .transpose()?,
        seconds: options.positive("seconds", Duration::from_secs(60))?,
        every: options.positive("every", Duration::from_millis(100))?,
        spin: options.span("spin", Duration::ZERO)?,
    };
    options.finish()?;
    Ok(experiment)
}

fn limits_experiment(mut options: Options) -> Result<limits::Experiment, Error> {
    let rate = options.take("rate", DataRate::mib(1))?;
    let rtt = options.span("rtt", Duration::from_millis(80))?;
    let queue = options.take("queue", rate.bytes_in(rtt))?;
    let experiment = limits::Experiment {
        link: LinkConfig { rate, delay: rtt / 2, loss: options.probability("loss")?, queue },
        every: options.positive("every", Duration::from_millis(10))?,
        writes: options.take("writes", 110)?,
        excess: options.take("excess", 10)?,
        spin: options.span("spin", Duration::ZERO)?,
    };
    options.finish()?;
    Ok(experiment)
}

/// Parses a value that must be one of several words.
pub(crate) fn word<T: FromStr + VariantNames>(key: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| {
        let (last, others) = T::VARIANTS.split_last().expect("there is a word");
        usage!("{key} {text:?} is unknown: write {} or {last}", others.join(", "))
    })
}

/// Keys with their values. Parsing removes each known key, so the remaining keys are unknown.
struct Options(Vec<(String, String)>);

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, Error> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        while let Some(key) = arguments.next() {
            let Some(name) = key.strip_prefix("--") else {
                return Err(usage!("{key:?} is not an option: write --key value"));
            };
            let Some(value) = arguments.next() else { return Err(usage!("--{name} needs a value")) };
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(usage!("--{name} is given twice"));
            }
            pairs.push((name.to_owned(), value));
        }
        Ok(Options(pairs))
    }

    fn value(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    fn take<T: FromStr<Err: Display>>(&mut self, key: &str, otherwise: T) -> Result<T, Error> {
        match self.value(key) {
            Some(text) => text.parse().map_err(|error| usage!("--{key} {text:?}: {error}")),
            None => Ok(otherwise),
        }
    }

    fn word<T: FromStr + VariantNames>(&mut self, key: &str, otherwise: T) -> Result<T, Error> {
        self.value(key).map_or(Ok(otherwise), |text| word(&format!("--{key}"), &text))
    }

    fn probability(&mut self, key: &str) -> Result<f64, Error> {
        let value = self.take(key, 0.0)?;
        if !(0.0..=1.0).contains(&value) {
            return Err(usage!("--{key} {value} is not a probability: write a number from 0 to 1"));
        }
        Ok(value)
    }

    fn span(&mut self, key: &str, otherwise: Duration) -> Result<Duration, Error> {
        match self.value(key) {
            Some(text) => duration(&text).map_err(|error| usage!("--{key}: {error}")),
            None => Ok(otherwise),
        }
    }

    fn positive(&mut self, key: &str, otherwise: Duration) -> Result<Duration, Error> {
        let span = self.span(key, otherwise)?;
        if nanos(span) == 0 { Err(usage!("--{key} must be above 0 s")) } else { Ok(span) }
    }

    fn finish(self) -> Result<(), Error> {
        match self.0.first() {
            Some((key, _)) => {
                Err(usage!("--{key} is not an option of this command; `penstock-testbed help` lists them"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, Error> {
        Command::parse(line.split(',').map(str::to_owned))
    }

    #[test]
    fn missing_options_have_the_defaults_of_the_grid() {
        let Ok(Command::Tcp(goodput)) = parse("tcp,goodput,--rtt,100 ms,--loss,0.01") else {
            panic!("the arguments are valid")
        };
        assert_eq!(goodput.link.queue, Bytes::new(1_048_576));
        assert_eq!((goodput.link.delay, goodput.link.loss), (Duration::from_millis(50), 0.01));
        assert_eq!((goodput.warmup, goodput.seconds), (Duration::from_secs(5), Duration::from_secs(60)));
        let Ok(Command::Tcp(goodput)) = parse("tcp,goodput") else { panic!("the arguments are valid") };
        assert_eq!(goodput.link.queue, Bytes::new(150_000));
        let Ok(Command::Tcp(window)) = parse("tcp,window") else { panic!("the arguments are valid") };
        assert_eq!((window.link.rate, window.link.queue), (DataRate::mbit(100), Bytes::new(125_000)));
        let Ok(Command::Sndbuf(greedy)) = parse("sndbuf") else { panic!("the arguments are valid") };
        assert_eq!(greedy.writes, None);
        let Ok(Command::Sndbuf(paced)) = parse("sndbuf,--writes,64 KiB/s") else {
            panic!("the arguments are valid")
        };
        assert_eq!(paced.writes, Some(DataRate::kib(64)));
    }

    #[test]
    fn errors_name_a_correct_form() {
        let error = |line: &str| parse(line).unwrap_err().to_string();
        assert!(error("").contains("tcp, sndbuf, limits, world or help"));
        assert!(error("tcp,speed").contains("goodput, window or download"));
        assert!(error("tcp,goodput,--rate,10").contains("unit is missing"));
        assert!(error("tcp,goodput,--loss,2").contains("from 0 to 1"));
        assert!(error("tcp,goodput,--loss,NaN").contains("from 0 to 1"));
        assert!(error("tcp,goodput,--loss").contains("needs a value"));
        assert!(error("tcp,goodput,--lost,0").contains("--lost is not an option"));
        assert!(error("tcp,goodput,--loss,0,--loss,0").contains("twice"));
        assert!(error("tcp,goodput,loss").contains("write --key value"));
        assert!(error("tcp,goodput,--congestion,bbr").contains("cubic or reno"));
        assert!(error("tcp,goodput,--recovery,fack").contains("rack, no-probes or sack"));
        assert!(error("tcp,goodput,--seconds,0 s").contains("above 0 s"));
        assert!(error("limits,--seconds,1 s").contains("not an option of this command"));
        assert!(error("sndbuf,--loss,0.1").contains("not an option of this command"));
    }
}
