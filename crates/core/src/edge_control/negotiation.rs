//! How the two ends of a circuit agree on congestion control.

use super::EdgeControlConfig;
use crate::error::Violation;
use std::num::NonZeroU8;

/// What a handshake says of congestion control, beside its keys.
///
/// The client asks the last hop that it adds; a relay that knows congestion control answers how many cells
/// each SENDME acknowledges, and one that does not says nothing.
///
/// Source: proposal 324 §10.3; C tor `congestion_control_build_ext_request()`,
/// `congestion_control_build_ext_response()` (extensions 1 and 2 of ntor-v3).
/// Deviation: what the extension adds to the cell's content costs nothing, as all cells have one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negotiation {
    /// Nothing: the circuit has SENDME windows.
    #[default]
    Nothing,
    /// The client asks for it.
    Asked,
    /// The relay answers: one SENDME for so many cells.
    Agreed(NonZeroU8),
}

impl EdgeControlConfig {
    /// What a client says to the last hop of a circuit.
    pub(crate) fn ask(&self) -> Negotiation {
        self.sendme_inc().map_or(Negotiation::Nothing, |_| Negotiation::Asked)
    }

    /// What a relay answers to `asked`.
    pub(crate) fn answer(&self, asked: Negotiation) -> Negotiation {
        match (asked, self.sendme_inc()) {
            (Negotiation::Asked, Some(inc)) => Negotiation::Agreed(inc),
            _ => Negotiation::Nothing,
        }
    }

    /// What a client that said `asked` makes of the relay's answer.
    ///
    /// Source: C tor `congestion_control_validate_sendme_increment()`.
    pub(crate) fn accept(
        &self,
        asked: Negotiation,
        answer: Negotiation,
    ) -> Result<Option<NonZeroU8>, Violation> {
        match (asked, answer, self.sendme_inc()) {
            (_, Negotiation::Nothing, _) => Ok(None),
            (Negotiation::Asked, Negotiation::Agreed(theirs), Some(ours))
                if theirs.get().abs_diff(ours.get()) <= 1 =>
            {
                Ok(Some(theirs))
            }
            _ => Err(Violation::UnwantedAgreement),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::VegasConfig;
    use super::*;

    fn vegas(sendme_inc: u8) -> EdgeControlConfig {
        let sendme_inc = NonZeroU8::new(sendme_inc).unwrap();
        EdgeControlConfig::Vegas(VegasConfig { sendme_inc, ..VegasConfig::default() })
    }

    fn outcome(client: &EdgeControlConfig, relay: &EdgeControlConfig) -> Result<Option<u8>, Violation> {
        let asked = client.ask();
        client.accept(asked, relay.answer(asked)).map(|agreed| agreed.map(NonZeroU8::get))
    }

    #[test]
    fn both_ends_must_know_congestion_control() {
        let windows = EdgeControlConfig::default();
        assert_eq!(outcome(&vegas(31), &vegas(31)), Ok(Some(31)));
        assert_eq!(outcome(&vegas(31), &windows), Ok(None));
        assert_eq!(outcome(&windows, &vegas(31)), Ok(None));
        assert_eq!(outcome(&windows, &windows), Ok(None));
    }

    #[test]
    fn the_relay_chooses_the_increment_within_one_of_the_clients() {
        assert_eq!(outcome(&vegas(31), &vegas(30)), Ok(Some(30)));
        assert_eq!(outcome(&vegas(31), &vegas(32)), Ok(Some(32)));
        assert_eq!(outcome(&vegas(31), &vegas(29)), Err(Violation::UnwantedAgreement));
        assert_eq!(outcome(&vegas(31), &vegas(33)), Err(Violation::UnwantedAgreement));
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_refused() {
        let agreed = Negotiation::Agreed(NonZeroU8::new(31).unwrap());
        assert_eq!(
            vegas(31).accept(Negotiation::Nothing, agreed),
            Err(Violation::UnwantedAgreement),
            "of a hop before the last"
        );
        assert_eq!(
            EdgeControlConfig::default().accept(Negotiation::Asked, agreed),
            Err(Violation::UnwantedAgreement)
        );
        assert_eq!(
            vegas(31).accept(Negotiation::Asked, Negotiation::Asked),
            Err(Violation::UnwantedAgreement)
        );
    }
}
