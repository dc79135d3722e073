//! When onion keys and signing keys change.

use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(86_400);

/// How long onion keys live.
///
/// Source: dir-spec, "Consensus parameters" (`onion-key-rotation-days`, `onion-key-grace-period-days`); C tor
/// `get_onion_key_lifetime()`, `get_onion_key_grace_period()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// A key is in the descriptor for so long.
    pub lifetime: Duration,
    /// Then it is still answered for so long: clients may have an old descriptor.
    pub grace: Duration,
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation::of_days(28, 7)
    }
}

/// What is to be done about onion keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnionDue {
    /// Nothing until then.
    Wait(SystemTime),
    /// The key before the present one is to be forgotten.
    ForgetOld,
    /// A new key is to be made.
    Rotate,
}

impl Rotation {
    /// As the consensus says it, within its bounds: 1 to 90 days, and a grace of 1 day to a lifetime.
    pub fn of_days(lifetime: u32, grace: u32) -> Self {
        let lifetime = lifetime.clamp(1, 90);
        Rotation { lifetime: lifetime * DAY, grace: grace.clamp(1, lifetime) * DAY }
    }

    /// What is due at `now` if the present key was made at `made`, and another one before it is still answered if
    /// `has_old`. A clock that went back changes nothing.
    pub fn due(&self, now: SystemTime, made: SystemTime, has_old: bool) -> OnionDue {
        let (forget, rotate) = (made + self.grace, made + self.lifetime);
        if now >= rotate {
            OnionDue::Rotate
        } else if has_old && now >= forget {
            OnionDue::ForgetOld
        } else {
            OnionDue::Wait(if has_old { forget } else { rotate })
        }
    }
}

/// How long a signing key is certified (C tor `SigningKeyLifetime`).
pub const SIGNING_LIFETIME: Duration = Duration::from_secs(30 * 86_400);
/// It is replaced so long before its end (C tor `TestingSigningKeySlop`).
pub const SIGNING_SLOP: Duration = DAY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lives_four_weeks_and_is_answered_for_one_more() {
        let made = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        let rotation = Rotation::default();
        let due = |days: u32, has_old| rotation.due(made + days * DAY, made, has_old);
        assert_eq!(due(0, true), OnionDue::Wait(made + 7 * DAY));
        assert_eq!(due(7, true), OnionDue::ForgetOld);
        assert_eq!(due(7, false), OnionDue::Wait(made + 28 * DAY));
        assert_eq!((due(28, false), due(28, true)), (OnionDue::Rotate, OnionDue::Rotate));
        assert_eq!(
            rotation.due(made - DAY, made, false),
            OnionDue::Wait(made + 28 * DAY),
            "the clock went back"
        );
    }

    #[test]
    fn what_a_consensus_says_is_kept_within_bounds() {
        assert_eq!(Rotation::of_days(0, 0), Rotation { lifetime: DAY, grace: DAY });
        assert_eq!(Rotation::of_days(1000, 1000), Rotation { lifetime: 90 * DAY, grace: 90 * DAY });
    }
}
