//! `throttle`: the rate at which a relay serves each client.

use crate::error::ConfigError;
use crate::keys::{NoKeys, PartnerInfo, Read, algorithm, keys};
use crate::values::{Choice, Flag, Fraction, RATE, Size, TIME};
use penstock_core::throttle::{
    Aggregate, BitSplittingConfig, ClientBuckets, Count, FlaggingConfig, Order, StaticRateConfig,
    ThresholdConfig, ThrottleConfig, Throughput, Unflag,
};
use penstock_units::{Bytes, DataRate, Duration, parse::show_duration};

const COUNT: Choice<Count> = Choice(&[("all", Count::All), ("clients", Count::Clients)]);

keys! {
    ClientBuckets("") {
        /// The depth of each client's read and write buckets (torrc PerConnBWBurst).
        burst = Size::ANY, Is("2 MiB");
        /// The connections that count as one client and share a pair of buckets: each connection alone, or all of one
        /// address (throttling section 5.3).
        aggregate = Choice(&[
            ("connection", Aggregate::Connection),
            ("address", Aggregate::Address),
        ]), Is("connection");
    }
}

keys! {
    StaticRateConfig("static") {
        /// The refill rate of each client's buckets (torrc PerConnBWRate).
        rate = RATE, Required;
    }
}

keys! {
    BitSplittingConfig("bit-splitting") {
        /// The open connections among which the bandwidth is divided: all, or those to clients.
        count = COUNT, Is("all");
    }
}

keys! {
    FlaggingConfig("flagging") {
        /// The refill rate of a flagged client's buckets (flagRate).
        rate = RATE, Is("5 KiB/s");
        /// A client loses its flag when its count is below this part of the fair one (P); with 0 never.
        penalty = Fraction, Is("0.5");
        /// The time after which the bytes that a client was sent count half.
        half_life = TIME, Is("30 s");
        /// The fair count for that comparison: the current one, or the one when the client was last above it, as in the
        /// authors' prototype.
        unflag = Choice(&[("current", Unflag::Current), ("frozen", Unflag::Frozen)]), Is("current");
        /// The open connections among which the bandwidth is divided: all, or those to clients.
        count = COUNT, Is("all");
    }
}

keys! {
    ThresholdConfig("threshold") {
        /// The share of clients that is throttled (T).
        fraction = Fraction, Is("0.1");
        /// The time from one choice to the next, and the time over which throughput is measured (R).
        refresh = TIME, Is("60 s");
        /// The lowest rate of a throttled client (F).
        floor = RATE, Is("5 KiB/s");
        /// The time after which the bytes that a client was sent count half.
        half_life = TIME, Is("30 s");
        /// "mean" is half of the bytes that were written and read, as in the authors' prototype; "written" is the bytes
        /// that were written.
        throughput = Choice(&[("mean", Throughput::Mean), ("written", Throughput::Written)]), Is("mean");
        /// "ascending" throttles all clients but that share, at the rate of the quietest of them, as the authors'
        /// prototype does.
        order = Choice(&[("descending", Order::Descending), ("ascending", Order::Ascending)]), Is("descending");
        /// The floor also raises a throughput of zero; with false it does not, as in the authors' prototype.
        lift_zero = Flag, Is("true");
    }
}

const NEEDS_A_RATE: PartnerInfo = PartnerInfo {
    key: "bandwidth_rate",
    not: "none",
    refused: true,
    why: "divides the relay's bandwidth_rate, which is \"none\"; set bandwidth_rate",
};

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum Throttle("Throttle") {
        /// No client is throttled.
        None("none"): NoKeys, "C tor", &[];
        /// One rate for every client.
        Static("static"): (StaticRateConfig, ClientBuckets),
            "throttling section 3.1; C tor connection_or_update_token_buckets_helper()", &[];
        /// The relay's bandwidth_rate, divided equally.
        BitSplitting("bit-splitting"): (BitSplittingConfig, ClientBuckets), "throttling section 3.2, algorithm 1", &[NEEDS_A_RATE];
        /// A client that recently received more than the fair share is slowed down to one rate.
        Flagging("flagging"): (FlaggingConfig, ClientBuckets), "throttling section 3.2, algorithm 2", &[NEEDS_A_RATE];
        /// The loudest clients get the throughput of the last of them.
        Threshold("threshold"): (ThresholdConfig, ClientBuckets), "throttling section 3.2, algorithm 3", &[];
    }
}

impl Throttle {
    /// The throttle, and the token buckets of throttled clients. `refill` is the time between refills. `longest` is
    /// the longest time that one refill may cover.
    pub(crate) fn config<S>(
        &self,
        node: &Read<S>,
        refill: Duration,
        longest: Duration,
    ) -> Result<(ThrottleConfig, ClientBuckets), ConfigError> {
        let (config, buckets, rate) = match self {
            Throttle::None(_) => return Ok((ThrottleConfig::None, ClientBuckets::default())),
            Throttle::Static((config, buckets)) => {
                (ThrottleConfig::Static(*config), *buckets, Some(config.rate))
            }
            Throttle::BitSplitting((config, buckets)) => {
                (ThrottleConfig::BitSplitting(*config), *buckets, None)
            }
            Throttle::Flagging((config, buckets)) => {
                (ThrottleConfig::Flagging(*config), *buckets, Some(config.rate))
            }
            Throttle::Threshold((config, _)) if config.refresh < refill => {
                let message = "clients are chosen at refills, so it must be at least as long as refill";
                return Err(node.wrong("throttle.refresh", message));
            }
            Throttle::Threshold((config, buckets)) => {
                (ThrottleConfig::Threshold(*config), *buckets, Some(config.floor))
            }
        };
        if let Some(rate) = rate.filter(|rate| rate.bytes_in(longest) > buckets.burst) {
            return Err(node.wrong("throttle.burst", too_small(buckets.burst, rate, longest)));
        }
        Ok((config, buckets))
    }
}

/// The error for a bucket that cannot hold one refill. Such a bucket would reduce the configured rate.
pub(crate) fn too_small(burst: Bytes, rate: DataRate, refill: Duration) -> String {
    format!(
        "\"{burst}\" is less than one refill brings: \"{rate}\" in \"{}\"; it must be at least \"{}\"",
        show_duration(refill),
        rate.bytes_in(refill)
    )
}
