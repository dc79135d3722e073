//! The lifetimes of onion keys and signing keys.

use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(86_400);

/// How long onion keys are used.
///
/// Source: dir-spec, "Consensus parameters" (`onion-key-rotation-days`, `onion-key-grace-period-days`); C tor
/// `get_onion_key_lifetime()`, `get_onion_key_grace_period()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Time for which a key is in the descriptor.
    pub lifetime: Duration,
    /// Time for which the relay still accepts the previous key, for clients with an old descriptor.
    pub grace: Duration,
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation::of_days(28, 7)
    }
}

/// The next change of the onion keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnionDue {
    /// No change until this time.
    Wait(SystemTime),
    /// Delete the previous key.
    ForgetOld,
    /// Generate a new key.
    Rotate,
}

impl Rotation {
    /// Lifetime (clamped to 1 to 90) and grace period (1 to `lifetime`) of onion keys from the consensus [day].
    pub fn of_days(lifetime: u32, grace: u32) -> Self {
        let lifetime = lifetime.clamp(1, 90);
        Rotation { lifetime: lifetime * DAY, grace: grace.clamp(1, lifetime) * DAY }
    }

    /// The next change, if the time is `now`. The current key was generated at `made`. A previous key exists if
    /// `has_old`. If `now` is before `made`, no change is due.
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

/// Lifetime of a signing key's certificate (C tor `SigningKeyLifetime`).
pub const SIGNING_LIFETIME: Duration = Duration::from_secs(30 * 86_400);
/// The relay replaces its signing key this long before the certificate expires (C tor `TestingSigningKeySlop`).
pub const SIGNING_SLOP: Duration = DAY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_onion_key_is_published_for_four_weeks_and_answers_for_one_more() {
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
    fn consensus_lifetimes_of_keys_are_bounded() {
        assert_eq!(Rotation::of_days(0, 0), Rotation { lifetime: DAY, grace: DAY });
        assert_eq!(Rotation::of_days(1000, 1000), Rotation { lifetime: 90 * DAY, grace: 90 * DAY });
    }
}
