//! A directory cache with the sample documents.

use crate::samples;
use penstock_live::directory::{Answer, Consensus, Documents, Flavour, Question};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Empty,
    Found,
}

#[derive(Debug)]
pub(super) struct SampleDirectory(Documents);

impl SampleDirectory {
    pub(super) fn new() -> Self {
        SampleDirectory(Documents::new(samples::authorities()))
    }

    pub(super) fn text(&self, number: u8) -> &'static str {
        match number % 5 {
            0 => samples::CERTIFICATES,
            1 => samples::PLAIN,
            2 => samples::MICRO,
            3 => samples::MICRODESCRIPTORS,
            _ => samples::DESCRIPTORS,
        }
    }

    /// Gives `text` to the cache in place of a sample document. The time is `hours` after the consensus's valid-after
    /// time. Returns the number of accepted documents.
    pub(super) fn give(&mut self, number: u8, text: &str, hours: u8) -> u32 {
        let head = "HTTP/1.0 200 OK\r\nContent-Encoding: identity\r\n\r\n";
        let answer = Answer::read([head, text].concat().into_bytes()).expect("the answer is complete");
        assert_eq!(answer.body, text.as_bytes(), "the body follows the head");
        let _ = Answer::read(text.into());
        let now = samples::at(5) + Duration::from_secs(3600) * u32::from(hours & 7);
        match number % 5 {
            0 => {
                let before = self.0.certs().len();
                self.0.take_certs(now, text);
                (self.0.certs().len() - before.min(self.0.certs().len())) as u32
            }
            1 | 2 => self.consensus(text, now),
            3 => self.0.take_microdescriptors(now, text) as u32,
            _ => self.0.take_descriptors(now, text) as u32,
        }
    }

    fn consensus(&mut self, text: &str, now: std::time::SystemTime) -> u32 {
        let Ok(consensus) = Consensus::read(text) else { return 0 };
        let _ = (consensus.signers().count(), consensus.params.half_life(), consensus.params.onion_keys());
        let taken = self.0.take_consensus(now, consensus).is_ok();
        let signed = |text: &str| text.split("directory-signature ").next().map(str::to_owned);
        let is_signed = [samples::PLAIN, samples::MICRO].into_iter().any(|good| signed(good) == signed(text));
        assert!(!taken || is_signed, "the cache accepts only signed consensuses");
        u32::from(taken)
    }

    pub(super) fn ask(&self, request: &[u8]) -> Asked {
        let Some(question) = Question::read(request) else { return Asked::Nothing };
        let pieces = self.0.answer(&question, samples::at(5));
        let status = pieces[0].get(9..12).unwrap_or_default();
        let body: usize = pieces[1..].iter().map(|piece| piece.len()).sum();
        assert!(["200", "304", "400", "404"].contains(&status), "{status}");
        assert_eq!(status == "200", body > 0, "status 200 has a body, other statuses have none");
        for flavour in Flavour::ALL {
            let there = self.0.consensus(flavour).map(|consensus| consensus.text.len());
            assert!(there.is_none_or(|len| len > 0));
        }
        if body > 0 { Asked::Found } else { Asked::Empty }
    }
}
