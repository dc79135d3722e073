//! The extensions of ntor-v3 messages: congestion control, and the end-to-end windows of circuits with hop control.
//!
//! C tor does not know the extensions about hop control. A client sends them only to relays that list the protocol `N23`.
//!
//! Source: tor-spec, "Handshake extensions"; proposal 324 §10.3; C tor `congestion_control_parse_ext_request()`,
//! `congestion_control_build_ext_response()`.

use crate::wire::{Malformed, Reader};
use penstock_core::edge_control::{Congestion, Negotiation};
use std::num::NonZeroU8;

/// The client requests congestion control. This extension has no content.
const CC_REQUEST: u8 = 1;
/// The relay grants congestion control. The content is one byte: the number of cells per SENDME.
const CC_RESPONSE: u8 = 2;
/// The client requests to use no end-to-end windows; the relay agrees. Both have no content.
const OPEN_ENDS: u8 = 240;
/// The client asks whether the relay's link towards the client has hop control; the relay confirms. Both have no content.
const HOP: u8 = 241;

fn read(message: &[u8]) -> Result<Vec<(u8, &[u8])>, Malformed> {
    // Clients without extensions may send an empty message, without a count.
    if message.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader::new(message);
    (0..reader.u8()?)
        .map(|_| {
            let (kind, len) = (reader.u8()?, reader.u8()?);
            Ok((kind, reader.take(len.into())?))
        })
        .collect()
}

/// Reads a client's request. If a message has several requests, congestion control has precedence.
pub fn asked(message: &[u8]) -> Result<Negotiation, Malformed> {
    let extensions = read(message)?;
    let has = |wanted| extensions.iter().any(|(kind, _)| *kind == wanted);
    let requests = [
        (CC_REQUEST, Negotiation::Asked(Congestion::Vegas)),
        (OPEN_ENDS, Negotiation::OpenEndsAsked),
        (HOP, Negotiation::HopAsked),
    ];
    let asked = requests.into_iter().find(|(kind, _)| has(*kind));
    Ok(asked.map_or(Negotiation::Nothing, |(_, asked)| asked))
}

/// Reads a relay's answer. Zero cells per SENDME are malformed.
pub fn granted(message: &[u8]) -> Result<Negotiation, Malformed> {
    for (kind, content) in read(message)? {
        if let (CC_RESPONSE, [increment]) = (kind, content) {
            let increment = NonZeroU8::new(*increment).ok_or(Malformed)?;
            return Ok(Negotiation::Agreed(Congestion::Vegas, increment));
        } else if kind == CC_RESPONSE {
            return Err(Malformed);
        } else if kind == OPEN_ENDS {
            return Ok(Negotiation::OpenEndsAgreed);
        } else if kind == HOP {
            return Ok(Negotiation::HopAgreed);
        }
    }
    Ok(Negotiation::Nothing)
}

/// Writes the extensions of a client or a relay. Other congestion control than Vegas is left out.
pub fn write(negotiation: Negotiation) -> Vec<u8> {
    match negotiation {
        Negotiation::Asked(Congestion::Vegas) => vec![1, CC_REQUEST, 0],
        Negotiation::Agreed(Congestion::Vegas, increment) => vec![1, CC_RESPONSE, 1, increment.get()],
        Negotiation::OpenEndsAsked | Negotiation::OpenEndsAgreed => vec![1, OPEN_ENDS, 0],
        Negotiation::HopAsked | Negotiation::HopAgreed => vec![1, HOP, 0],
        _ => vec![0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_written_negotiation_parses_to_the_same_negotiation() {
        let (ask, grant) = (
            Negotiation::Asked(Congestion::Vegas),
            Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(31).unwrap()),
        );
        let pairs = [
            (ask, grant),
            (Negotiation::OpenEndsAsked, Negotiation::OpenEndsAgreed),
            (Negotiation::HopAsked, Negotiation::HopAgreed),
        ];
        for (ask, grant) in pairs {
            assert_eq!(asked(&write(ask)), Ok(ask));
            assert_eq!(granted(&write(grant)), Ok(grant));
        }
        for nothing in [write(Negotiation::Nothing), write(Negotiation::Asked(Congestion::Dctcp)), Vec::new()]
        {
            assert_eq!(asked(&nothing), Ok(Negotiation::Nothing));
            assert_eq!(granted(&nothing), Ok(Negotiation::Nothing));
        }
    }

    #[test]
    fn unknown_extensions_are_skipped() {
        assert_eq!(asked(&[2, 77, 3, 1, 2, 3, 1, 0]), Ok(Negotiation::Asked(Congestion::Vegas)));
    }

    #[test]
    fn malformed_extensions_are_rejected() {
        assert_eq!(asked(&[1]), Err(Malformed));
        assert_eq!(asked(&[1, 1, 4, 0]), Err(Malformed));
        assert_eq!(granted(&[1, 2, 1, 0]), Err(Malformed));
        assert_eq!(granted(&[1, 2, 2, 31, 0]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(message in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (asked(&message), granted(&message));
        }
    }
}
