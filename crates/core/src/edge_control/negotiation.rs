use super::EdgeControlConfig;
use crate::error::Violation;
use std::num::NonZeroU8;

/// The handshake field in which the two ends of a circuit negotiate congestion control and end-to-end windows.
///
/// The client requests its congestion control from the last hop. A relay that supports the same algorithm answers with
/// the number of cells per SENDME; any other relay sends no answer. If each hop of the path has credits, the client can
/// instead request to use no end-to-end windows. The relay agrees if it has the same setting. Before this request, the
/// client asks each relay between the first and the last whether its link towards the client has hop control.
///
/// Source: proposal 324 §10.3; C tor `congestion_control_build_ext_request()`,
/// `congestion_control_build_ext_response()` (extensions 1 and 2 of ntor-v3).
/// Deviation: the extension does not change the cell size, because all cells have the same size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negotiation {
    /// No request, or no answer. The circuit then uses SENDME windows.
    #[default]
    Nothing,
    /// The client requests this congestion control.
    Asked(Congestion),
    /// The relay agrees on this congestion control, with this number of cells per SENDME.
    Agreed(Congestion, NonZeroU8),
    /// The client requests to use no end-to-end windows.
    OpenEndsAsked,
    /// The relay agrees to use no end-to-end windows.
    OpenEndsAgreed,
    /// The client asks whether the relay's link towards the client has hop control.
    HopAsked,
    /// The relay's link towards the client has hop control.
    HopAgreed,
}

/// A congestion control algorithm. C tor knows only Vegas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// [`VegasWindow`](super::VegasWindow).
    Vegas,
    /// [`DctcpWindow`](super::DctcpWindow).
    Dctcp,
    /// [`TimelyWindow`](super::TimelyWindow).
    Timely,
}

/// The result of the negotiation between the two ends of a circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// Both ends use fixed windows.
    #[default]
    Nothing,
    /// Both ends use the negotiated congestion control, with this number of cells per SENDME.
    Congestion(NonZeroU8),
    /// Only hop credits limit the cells in flight ([`Ends`](super::Ends)).
    OpenEnds,
}

impl Negotiation {
    pub(crate) fn agreement(self) -> Agreement {
        match self {
            Negotiation::Agreed(_, inc) => Agreement::Congestion(inc),
            Negotiation::OpenEndsAgreed => Agreement::OpenEnds,
            Negotiation::Nothing
            | Negotiation::Asked(_)
            | Negotiation::OpenEndsAsked
            | Negotiation::HopAsked
            | Negotiation::HopAgreed => Agreement::Nothing,
        }
    }
}

impl EdgeControlConfig {
    /// A client's request in the handshake with hop number `hop`, from 0. The last hop negotiates congestion control and
    /// windows. Without windows, the client also asks each hop between the first and the last whether its link has hop
    /// control. `controlled`: every node of the path offers hop control.
    pub fn ask_hop(&self, hop: usize, is_last: bool, controlled: bool) -> Negotiation {
        match self.ask(controlled) {
            ask if is_last => ask,
            Negotiation::OpenEndsAsked if hop > 0 => Negotiation::HopAsked,
            _ => Negotiation::Nothing,
        }
    }

    /// A client's request to the last hop of a circuit. `controlled`: all hops of the circuit have hop control.
    fn ask(&self, controlled: bool) -> Negotiation {
        if let Some((congestion, _)) = self.congestion() {
            Negotiation::Asked(congestion)
        } else if controlled && self.opens_ends() {
            Negotiation::OpenEndsAsked
        } else {
            Negotiation::Nothing
        }
    }

    /// A relay's answer to the request `asked`. `controlled`: the relay's hop towards the client has hop control.
    pub(crate) fn answer(&self, asked: Negotiation, controlled: bool) -> Negotiation {
        match (asked, self.congestion()) {
            (Negotiation::Asked(theirs), Some((ours, inc))) if theirs == ours => {
                Negotiation::Agreed(ours, inc)
            }
            (Negotiation::OpenEndsAsked, _) if controlled && self.opens_ends() => Negotiation::OpenEndsAgreed,
            (Negotiation::HopAsked, _) if controlled => Negotiation::HopAgreed,
            _ => Negotiation::Nothing,
        }
    }

    /// The result of the negotiation at the client, which sent the request `asked` and received `answer`.
    /// Source: C tor `congestion_control_validate_sendme_increment()`.
    ///
    /// # Errors
    ///
    /// If the answer does not fit to the request.
    pub fn accept(&self, asked: Negotiation, answer: Negotiation) -> Result<Agreement, Violation> {
        match (asked, answer, self.congestion()) {
            (_, Negotiation::Nothing, _) | (Negotiation::HopAsked, Negotiation::HopAgreed, _) => {
                Ok(Agreement::Nothing)
            }
            (Negotiation::OpenEndsAsked, Negotiation::OpenEndsAgreed, _) => Ok(Agreement::OpenEnds),
            (Negotiation::Asked(_), Negotiation::Agreed(theirs, inc), Some((ours, own)))
                if theirs == ours && inc.get().abs_diff(own.get()) <= 1 =>
            {
                Ok(Agreement::Congestion(inc))
            }
            _ => Err(Violation::UnwantedAgreement),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CwndBounds, DctcpConfig, Ends, TimelyConfig, VegasConfig, WindowsConfig};
    use super::*;

    fn vegas(sendme_inc: u8) -> EdgeControlConfig {
        let sendme_inc = NonZeroU8::new(sendme_inc).unwrap();
        let bounds = CwndBounds { sendme_inc, ..VegasConfig::default().bounds };
        EdgeControlConfig::Vegas(VegasConfig { bounds, ..VegasConfig::default() })
    }

    fn outcome(client: &EdgeControlConfig, relay: &EdgeControlConfig) -> Result<Option<u8>, Violation> {
        let asked = client.ask(true);
        let agreed = client.accept(asked, relay.answer(asked, true))?;
        Ok(if let Agreement::Congestion(inc) = agreed { Some(inc.get()) } else { None })
    }

    fn ends(ends: Ends) -> EdgeControlConfig {
        EdgeControlConfig::Windows(WindowsConfig { ends, ..WindowsConfig::default() })
    }

    #[test]
    fn windows_are_off_if_both_ends_want_it_and_all_hops_have_control() {
        let open = |client: &EdgeControlConfig, path: bool, relay: &EdgeControlConfig, own: bool| {
            let asked = client.ask(path);
            let answer = relay.answer(asked, own);
            assert_eq!(
                client.accept(asked, answer),
                Ok(answer.agreement()),
                "both ends reach the same agreement"
            );
            answer.agreement() == Agreement::OpenEnds
        };
        let [enforced, ignored, suppressed] = [Ends::Enforced, Ends::Ignored, Ends::Suppressed].map(ends);
        assert!(open(&ignored, true, &ignored, true));
        assert!(open(&ignored, true, &suppressed, true), "each end decides which SENDMEs it sends");
        assert!(!open(&enforced, true, &ignored, true));
        assert!(!open(&ignored, true, &enforced, true));
        assert!(!open(&ignored, false, &ignored, true), "one relay of the path has no hop control");
        assert!(!open(&ignored, true, &ignored, false));
        assert!(!open(&vegas(31), true, &ignored, true));
        assert!(!open(&ignored, true, &vegas(31), true));
        let unwanted = enforced.accept(enforced.ask(true), Negotiation::OpenEndsAgreed);
        assert_eq!(unwanted, Err(Violation::UnwantedAgreement));
    }

    #[test]
    fn a_relay_confirms_only_a_controlled_hop() {
        let any = EdgeControlConfig::default();
        assert_eq!(any.answer(Negotiation::HopAsked, true), Negotiation::HopAgreed);
        assert_eq!(any.answer(Negotiation::HopAsked, false), Negotiation::Nothing);
        assert_eq!(any.accept(Negotiation::HopAsked, Negotiation::HopAgreed), Ok(Agreement::Nothing));
        assert_eq!(any.accept(Negotiation::HopAsked, Negotiation::Nothing), Ok(Agreement::Nothing));
        for asked in [Negotiation::Nothing, Negotiation::OpenEndsAsked] {
            let unwanted = any.accept(asked, Negotiation::HopAgreed);
            assert_eq!(unwanted, Err(Violation::UnwantedAgreement));
        }
    }

    #[test]
    fn congestion_control_needs_both_ends() {
        let windows = EdgeControlConfig::default();
        assert_eq!(outcome(&vegas(31), &vegas(31)), Ok(Some(31)));
        assert_eq!(outcome(&vegas(31), &windows), Ok(None));
        assert_eq!(outcome(&windows, &vegas(31)), Ok(None));
        assert_eq!(outcome(&windows, &windows), Ok(None));
    }

    #[test]
    fn both_ends_need_the_same_congestion_control() {
        let all = [
            (vegas(31), 31),
            (EdgeControlConfig::Dctcp(DctcpConfig::default()), 10),
            (EdgeControlConfig::Timely(TimelyConfig::default()), 31),
        ];
        for (client, inc) in &all {
            for (relay, _) in &all {
                let same = std::mem::discriminant(client) == std::mem::discriminant(relay);
                assert_eq!(outcome(client, relay), Ok(same.then_some(*inc)));
            }
        }
        let other = Negotiation::Agreed(Congestion::Timely, NonZeroU8::new(31).unwrap());
        let (asked, unwanted) = (Negotiation::Asked(Congestion::Vegas), Err(Violation::UnwantedAgreement));
        assert_eq!(
            vegas(31).accept(asked, other),
            unwanted,
            "the answer is not the requested congestion control"
        );
    }

    #[test]
    fn the_relay_chooses_an_increment_within_one_of_the_clients() {
        assert_eq!(outcome(&vegas(31), &vegas(30)), Ok(Some(30)));
        assert_eq!(outcome(&vegas(31), &vegas(32)), Ok(Some(32)));
        assert_eq!(outcome(&vegas(31), &vegas(29)), Err(Violation::UnwantedAgreement));
        assert_eq!(outcome(&vegas(31), &vegas(33)), Err(Violation::UnwantedAgreement));
    }

    #[test]
    fn an_unrequested_answer_is_rejected() {
        let agreed = Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(31).unwrap());
        let asked = Negotiation::Asked(Congestion::Vegas);
        assert_eq!(
            vegas(31).accept(Negotiation::Nothing, agreed),
            Err(Violation::UnwantedAgreement),
            "an answer of a hop before the last"
        );
        assert_eq!(EdgeControlConfig::default().accept(asked, agreed), Err(Violation::UnwantedAgreement));
        assert_eq!(vegas(31).accept(asked, asked), Err(Violation::UnwantedAgreement));
    }
}
