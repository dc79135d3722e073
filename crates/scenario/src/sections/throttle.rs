//! `throttle`: the rate at which a relay serves each client.

use crate::error::ConfigError;
use crate::keys::{NoKeys, PartnerInfo, Read, algorithm, keys};
use crate::values::{Choice, Flag, Fraction, FractionOrOne, RATE, Size, TIME};
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
        /// The connections that share one pair of buckets. With "connection", each connection has its own pair. With
        /// "address", all connections from one address share a pair (throttling section 5.3).
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
        /// The open connections that the relay counts to compute a fair share: all, or only those to clients.
        count = COUNT, Is("all");
    }
}

keys! {
    FlaggingConfig("flagging") {
        /// The refill rate of a flagged client's buckets (flagRate).
        rate = RATE, Is("5 KiB/s");
        /// P: the relay removes a client's flag when the client's count falls below P times the fair count. With 0, it
        /// removes no flag.
        penalty = FractionOrOne, Is("0.5");
        /// The half-life of sent bytes in a client's count.
        half_life = TIME, Is("30 s");
        /// The fair count for removing flags. "current" is the fair count of this refill. "frozen", as in the authors'
        /// prototype, is the fair count at the last refill at which the client was above it.
        unflag = Choice(&[("current", Unflag::Current), ("frozen", Unflag::Frozen)]), Is("current");
        /// The open connections that the relay counts to compute a fair share: all, or only those to clients.
        count = COUNT, Is("all");
    }
}

keys! {
    ThresholdConfig("threshold") {
        /// The share of clients that the relay throttles (T).
        fraction = Fraction, Is("0.1");
        /// The interval at which the relay chooses the throttled clients. Throughput is measured over the same interval
        /// (R).
        refresh = TIME, Is("60 s");
        /// The lowest rate of a throttled client (F).
        floor = RATE, Is("5 KiB/s");
        /// The half-life of sent bytes in a client's average throughput.
        half_life = TIME, Is("30 s");
        /// The bytes that count as throughput. "written" counts written bytes. "mean" is the mean of written and read
        /// bytes, as in the authors' prototype.
        throughput = Choice(&[("mean", Throughput::Mean), ("written", Throughput::Written)]), Is("mean");
        /// "descending" throttles the share fraction (T) of clients with the highest throughput. "ascending", as in the
        /// authors' prototype, throttles all except the share T with the lowest throughput. The rate is the lowest
        /// throughput of a throttled client.
        order = Choice(&[("descending", Order::Descending), ("ascending", Order::Ascending)]), Is("descending");
        /// With true, floor also raises a rate of zero. In the authors' prototype it does not.
        lift_zero = Flag, Is("true");
    }
}

const NEEDS_A_RATE: PartnerInfo = PartnerInfo {
    key: "bandwidth_rate",
    not: "none",
    refused: true,
    why: "needs a rate to divide; set bandwidth_rate",
};

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum Throttle("Throttle", throttle: ThrottleConfig) {
        /// No client is throttled.
        None("none"): NoKeys, "C tor", &[];
        /// Every client has the same rate.
        Static("static"): (StaticRateConfig, ClientBuckets),
            "throttling section 3.1; C tor connection_or_update_token_buckets_helper()", &[];
        /// The relay divides its bandwidth_rate equally among its clients.
        BitSplitting("bit-splitting"): (BitSplittingConfig, ClientBuckets), "throttling section 3.2, algorithm 1", &[NEEDS_A_RATE];
        /// The relay gives the same low rate to every client that recently received more than its fair share.
        Flagging("flagging"): (FlaggingConfig, ClientBuckets), "throttling section 3.2, algorithm 2", &[NEEDS_A_RATE];
        /// The relay throttles the clients that received the most bytes. Each gets the lowest recent throughput among
        /// them.
        Threshold("threshold"): (ThresholdConfig, ClientBuckets), "throttling section 3.2, algorithm 3", &[];
    }
}

impl Throttle {
    /// The throttle, and the token buckets of throttled clients. `refill` is the refill interval. `longest` is the
    /// longest time for which one refill may add tokens.
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
            Throttle::Plugin(chosen) => {
                return Ok((chosen.config(node, "throttle")?, ClientBuckets::default()));
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
