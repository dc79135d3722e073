//! Target `credits`: the announcement of N23 in the link handshake, then cells that a hostile next hop sends to a node
//! with N23.

use super::choices::Choices;
use penstock_core::hop_control::{
    Feedback, HopControl, HopControlConfig, HopOffer, N23Config, Neighbour, Side, Source,
};
use penstock_core::{Cell, ChannelKey, Direction};
use penstock_link::cell::{CELL_LEN, Extended, Front, IdLen, Incoming, LiveCell, front};
use penstock_link::handshake::Extensions;
use penstock_units::Instant;

/// What an input reached: announcements with N23, accepted credits, and credits that are violations.
pub type Credited = [u32; 3];

/// Parses the input as an announcement and as cells.
///
/// # Panics
///
/// If an announcement changes when it is written and parsed again, or if a credit lets the node have more outstanding
/// cells than the peer announced.
pub fn credits(input: &[u8]) -> Credited {
    let mut choices = Choices::new(input);
    let mut reached = [0; 3];
    let announced = choices.bytes(64);
    let theirs = announcement(&[b"penstock", announced].concat());
    announcement(input);
    let HopOffer::Credits { most, .. } = theirs else { return reached };
    reached[0] += 1;
    let config = HopControlConfig::N23(N23Config::default());
    let mut control = config.build(None);
    let agreed = HopOffer::agree(config.offer(false), Some(theirs));
    let (direction, channel) = (Direction::Forward, ChannelKey::from_parts(0, 0));
    control.on_neighbour(Neighbour { side: Side::After, direction, channel, agreed });
    let (now, mut sent, mut forwarded) = (Instant::ZERO, 0u64, 0u64);
    while !choices.is_over() {
        if choices.flag() {
            for _ in 0..choices.byte() {
                if control.credit().get() == 0 {
                    break;
                }
                control.on_sent(now, Source::Here);
                sent += 1;
            }
        } else if let Some(feedback) = feedback(&mut choices) {
            let before = control.credit();
            match control.on_feedback(now, feedback) {
                Ok(()) if feedback.forwarded as u64 >= forwarded && u64::from(feedback.forwarded) <= sent => {
                    forwarded = feedback.forwarded.into();
                    reached[1] += 1;
                }
                Ok(()) => {}
                Err(_) => {
                    assert_eq!(control.credit(), before, "a violation gives no credit");
                    reached[2] += 1;
                }
            }
        }
        let outstanding = sent - forwarded;
        assert!(
            outstanding + control.credit().get() <= u64::from(most).max(outstanding),
            "{outstanding} outstanding, {} more allowed, {most} announced",
            control.credit().get()
        );
    }
    reached
}

/// The offer in an announcement; [`HopOffer::BackTap`] if it has no credits.
fn announcement(body: &[u8]) -> HopOffer {
    let Ok(Some(extensions)) = Extensions::read(body) else { return HopOffer::BackTap };
    if let Some(written) = extensions.write() {
        assert_eq!(Extensions::read(&written), Ok(Some(extensions)), "an announcement does not change");
    }
    let credits = [extensions.with_relay, extensions.with_client].into_iter().flatten();
    credits.into_iter().find(|offer| matches!(offer, HopOffer::Credits { .. })).unwrap_or(HopOffer::BackTap)
}

/// The feedback in a cell with these bytes.
fn feedback(choices: &mut Choices<'_>) -> Option<Feedback> {
    let mut bytes = [0; CELL_LEN];
    // A circuit id, and the command of feedback in most cells.
    bytes[..5].copy_from_slice(&[0, 0, 0, 1, if choices.byte() == 0 { choices.byte() } else { 100 }]);
    let body = choices.bytes(9);
    bytes[5..5 + body.len()].copy_from_slice(body);
    let Front::Cell(frame, _) = front(&bytes, IdLen::Four) else { return None };
    let Incoming::Cell(cell) = Incoming::of(&frame, Extended { feedback: true, class: false }) else {
        return None;
    };
    let feedback = cell.as_feedback()?;
    let again = LiveCell::feedback(cell.circ_id(), feedback);
    assert_eq!(again.as_feedback(), Some(feedback), "feedback does not change");
    Some(feedback)
}
