//! Measures the CPU time of a relay in the middle: `penstock-relay`, C tor, and a ceiling. The ceiling is a loop with
//! TLS, AES and sockets, without Tor.
//!
//! Each program carries the same load, over loopback and over a virtual Ethernet between two network namespaces. The
//! programs take turns. The load runs on another processor. The result is the CPU time of the program. The
//! environment variables `TOR` and `PENSTOCK_RELAY` name the programs.
//!
//! ```console
//! $ cargo bench --package penstock-live --bench middle -- [--seconds S] [--rounds N] [--only NAME] [--place NAME]
//! ```

mod ceiling;
mod load;
mod place;
#[path = "../shared/mod.rs"]
mod shared;
mod subject;
mod wire;

use lexopt::ValueExt;
use load::Load;
use penstock_link::cell::CELL_LEN;
use penstock_testbed::namespace::isolate;
use place::Place;
use shared::cpu::Cpu;
use shared::median::median;
use shared::{Options, has_tor};
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use subject::{Kind, Subject};

/// Time until congestion windows and buffers have grown.
const WARMING: Duration = Duration::from_secs(1);

/// The command line.
struct Asked {
    options: Options,
    span: Duration,
    ceiling: Option<SocketAddr>,
}

#[derive(Clone, Copy)]
struct Measured {
    kind: Kind,
    place: &'static str,
    /// Size of all carried cells [MB].
    megabytes: f64,
    /// Duration, CPU time in user mode, and CPU time in the kernel [s].
    span: f64,
    user: f64,
    system: f64,
}

impl Measured {
    /// Carried cells per CPU time in user mode [MB/s].
    fn per_user(&self) -> f64 {
        self.megabytes / self.user
    }

    /// Carried cells per CPU time in user mode and in the kernel [MB/s].
    fn per_both(&self) -> f64 {
        self.megabytes / (self.user + self.system)
    }
}

fn main() -> ExitCode {
    let result = parse().map_err(|error| error.to_string());
    shared::exit("middle", result.and_then(|asked| run(&asked).map_err(|error| error.to_string())))
}

fn parse() -> Result<Asked, lexopt::Error> {
    let (mut span, mut ceiling) = (Duration::from_secs(5), None);
    let options = Options::parse(5, |name, parser| {
        match name {
            "seconds" => span = Duration::from_secs(parser.value()?.parse()?),
            "ceiling" => ceiling = Some(parser.value()?.parse()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Asked { options, span, ceiling })
}

fn run(asked: &Asked) -> Result<(), Box<dyn Error>> {
    if let Some(address) = asked.ceiling {
        return Ok(ceiling::run(address)?);
    }
    let options = &asked.options;
    let mut kinds: Vec<_> = Kind::ALL.into_iter().filter(|kind| options.allows(kind.name())).collect();
    if kinds.contains(&Kind::CTor) && !has_tor() {
        return Ok(());
    }
    isolate()?;
    let processors = place::processors();
    let places = [Place::loopback(processors)?, Place::veth(processors)?];
    let places: Vec<_> = places.iter().filter(|place| options.allows_place(place.name)).collect();
    let mut all = Vec::new();
    for round in 0..options.rounds {
        for place in &places {
            for kind in &kinds {
                let measured = measure(*kind, place, 9001 + all.len() as u16, asked.span);
                print(round, &measured);
                all.push(measured);
            }
        }
        // The order changes in each round, so that no program always runs first.
        let first = 1.min(kinds.len());
        kinds.rotate_left(first);
    }
    places.iter().for_each(|place| print_summary(place, &all));
    Ok(())
}

/// Measures the CPU time that one program needs for the load.
fn measure(kind: Kind, place: &Place, port: u16, span: Duration) -> Measured {
    place.enter();
    let subject = Subject::start(kind, place, port);
    let mut load = Load::open(&subject, place.load_at.into());
    assert_eq!(load.ciphers(), ["TLS13_AES_256_GCM_SHA384"], "all programs use the same cipher suite");
    load.run(WARMING);
    let (cells, before) = (load.cells(), Cpu::of(subject.process()));
    let span = load.run(span);
    let (cells, cpu) = (load.cells() - cells, Cpu::of(subject.process()) - before);
    let [user, system] = cpu.seconds();
    let megabytes = (cells * CELL_LEN as u64) as f64 / 1e6;
    Measured { kind, place: place.name, megabytes, span: span.as_secs_f64(), user, system }
}

fn print(round: usize, it: &Measured) {
    println!(
        "{:2} {:8} {:8} {:6.0} MB at {:4.0} MB/s, {:3.0} % of a processor: {:4.0} MB a user second, {:4.0} a second of both",
        round + 1,
        it.place,
        it.kind.name(),
        it.megabytes,
        it.megabytes / it.span,
        100.0 * (it.user + it.system) / it.span,
        it.per_user(),
        it.per_both()
    );
}

fn print_summary(place: &Place, all: &[Measured]) {
    let of = |kind: Kind, value: fn(&Measured) -> f64| {
        let here = all.iter().filter(|it| it.place == place.name && it.kind == kind);
        median(here.map(value).collect())
    };
    println!("\n{}, MTU {}, medians [MB/s]:", place.name, place.mtu);
    for (what, value) in [("user", Measured::per_user as fn(&_) -> _), ("both", Measured::per_both)] {
        let [ceiling, ours, theirs] = Kind::ALL.map(|kind| of(kind, value));
        println!(
            "{what}: ceiling {ceiling:.0}, Penstock {ours:.0}, C tor {theirs:.0}; {:.2} times C tor, {:.0} % of the ceiling",
            ours / theirs,
            100.0 * ours / ceiling
        );
    }
}
