//! Target `consensus`: reads a consensus and server descriptors, and builds relays and circuits from them.

use penstock_network::{Consensus, Descriptors, Error, Imported, Sampler, Selector};
use penstock_units::Seed;

/// Parses a consensus, and server descriptors after a line `@@`. Returns the number of relays, and the number of relays
/// that Penstock can simulate; `None` if the consensus is invalid.
///
/// # Panics
///
/// If an error message is not one sentence with its place, or if a valid document gives no path.
pub fn consensus(input: &[u8]) -> Option<[usize; 2]> {
    let mark = b"\n@@\n";
    let cut = input.windows(mark.len()).position(|window| window == mark);
    let (text, more) = cut.map_or((input, None), |at| (&input[..at + 1], Some(&input[at + mark.len()..])));
    let mut descriptors = Descriptors::default();
    let described = more.is_some_and(|more| checked(descriptors.read(more, "descriptors")).is_some());
    let mut consensus = checked(Consensus::parse(text, "consensus"))?;
    assert_eq!(consensus.relays.len(), consensus.lines.len(), "each relay has its line");
    checked(Consensus::period(text, "consensus"));
    if described {
        checked(descriptors.connect(&mut consensus, "consensus"));
    }
    let given = checked(Imported::new(&consensus, described.then_some(&descriptors), "consensus"));
    let selector = checked(Selector::new(&consensus.relays, &consensus.weights, "consensus"));
    if let Some(selector) = selector {
        let mut rng = Seed(1).stream("paths");
        if let Some([guard, middle, exit]) = selector.draw(&mut rng, &[]) {
            assert!(guard != middle && middle != exit && guard != exit, "each relay is on a path once");
            let in_family = |relay: usize| consensus.relays[relay].family.contains(&(middle as u32));
            assert!(!in_family(guard) && !in_family(exit), "no path has two relays of a family");
        }
        let mut sampler = Sampler::new(selector, Seed(2));
        if checked(sampler.advance(20, "consensus")).is_some() {
            assert_eq!(sampler.pairs().sampled, 20);
        }
    }
    Some([consensus.relays.len(), given.map_or(0, |given| given.relays.len())])
}

fn checked<T>(result: Result<T, Error>) -> Option<T> {
    result
        .inspect_err(|error| {
            let message = error.to_string();
            assert_eq!(message.lines().count(), 1, "one sentence: {message:?}");
            assert!(
                message.len() < 300 && message.contains(": "),
                "with the place of the error: {message:?}"
            );
        })
        .ok()
}
