//! The summary of a relay's exit policy in its microdescriptor.
//!
//! Source: dir-spec, "Computing microdescriptors" (`p` line).

use penstock_network::document::Malformed;
use std::ops::RangeInclusive;

/// The ports to which a relay allows exit streams, on most public addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortSummary {
    /// Whether the policy accepts the ports of the list, or the other ports.
    accepts: bool,
    list: Vec<RangeInclusive<u16>>,
}

impl PortSummary {
    /// The summary of a relay that allows no exit streams. A microdescriptor without `p` line means this.
    pub(crate) fn none() -> Self {
        PortSummary { accepts: true, list: Vec::new() }
    }

    /// Parses the arguments of a `p` line, such as `accept 80,443,8000-9000`.
    pub(crate) fn read(arguments: &str) -> Result<Self, Malformed> {
        let (rule, list) = arguments.split_once(' ').ok_or(Malformed)?;
        let accepts = match rule {
            "accept" => true,
            "reject" => false,
            _ => return Err(Malformed),
        };
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let [first, last] = [first, last].map(|port| port.parse::<u16>().map_err(|_| Malformed));
            let (first, last) = (first?, last?);
            if first <= last { Ok(first..=last) } else { Err(Malformed) }
        };
        let list = list.trim().split(',').map(range).collect::<Result<_, _>>()?;
        Ok(PortSummary { accepts, list })
    }

    /// Whether the policy accepts a port.
    pub(crate) fn allows(&self, port: u16) -> bool {
        self.list.iter().any(|range| range.contains(&port)) == self.accepts
    }

    /// Whether the policy accepts any port.
    pub(crate) fn allows_some(&self) -> bool {
        if self.accepts { !self.list.is_empty() } else { (1..=u16::MAX).any(|port| self.allows(port)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_summary_accepts_or_rejects_its_list() {
        let accept = PortSummary::read("accept 80,443,8000-9000").unwrap();
        assert_eq!(
            [79, 80, 443, 7999, 8000, 8500, 9000].map(|port| accept.allows(port)),
            [false, true, true, false, true, true, true]
        );
        let reject = PortSummary::read("reject 25,119").unwrap();
        assert_eq!([25, 80, 119].map(|port| reject.allows(port)), [false, true, false]);
        assert!(accept.allows_some() && reject.allows_some());
        let none = PortSummary::read("reject 1-65535").unwrap();
        assert!(!none.allows_some() && !PortSummary::none().allows_some() && !PortSummary::none().allows(80));
    }

    #[test]
    fn malformed_summaries_are_rejected() {
        for text in ["", "accept", "accept ", "accept 80-70", "allow 80", "accept 80,,443", "accept 65536"] {
            assert_eq!(PortSummary::read(text), Err(Malformed), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "(accept|reject)? ?[0-9,-]{0,40}") {
            if let Ok(summary) = PortSummary::read(&text) {
                summary.allows(80);
            }
        }
    }
}
