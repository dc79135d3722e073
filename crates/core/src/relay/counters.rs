use penstock_units::Bytes;

/// Counters since the start of a relay.
///
/// `received + made = sent + consumed + dropped + waiting`. `waiting` cells are in circuit queues and output buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Cells read from channels.
    pub received: u64,
    /// Cells that this relay created: DATA, SENDME, CREATE and others.
    pub made: u64,
    /// Cells written to channels.
    pub sent: u64,
    /// Cells that were addressed to this relay.
    pub consumed: u64,
    /// Cells dropped because their circuit closed.
    pub dropped: u64,
    /// Bytes read from channels (with TLS) and from streams [B].
    pub read_bytes: Bytes,
    /// Bytes written to channels (with TLS) and to streams [B].
    pub written_bytes: Bytes,
    /// Circuit SENDMEs that this relay sent.
    pub sendmes: u64,
    /// Stream SENDMEs that this relay sent.
    pub stream_sendmes: u64,
    /// XOFFs that this relay sent.
    pub xoffs: u64,
    /// XONs that this relay sent.
    pub xons: u64,
    /// Hop-control feedback cells that this relay sent, for example credits.
    pub credits: u64,
    /// The length of the longest circuit queue so far, in one direction [cell].
    pub longest_queue: u64,
    /// Circuits that joined a set of linked circuits at this relay, which is one end of them.
    pub linked: u64,
    /// SWITCH cells that this relay sent on linked circuits.
    pub switches: u64,
    /// The maximum number of messages of one set of linked circuits that waited for earlier ones [1].
    pub longest_reordering: u64,
    /// DATA cells delivered at this relay.
    pub data_delivered: u64,
    /// DATA cells packaged at this relay.
    pub data_packaged: u64,
    /// Circuits that circuit policies examined to make choices
    /// ([`CircuitPolicy::scans`](crate::circuit_policy::CircuitPolicy::scans)).
    pub scans: u64,
    /// Circuits that the out-of-memory handler closed ([`Limits::memory`](crate::config::Limits)).
    pub oom_closed: u64,
    /// Channels that the out-of-memory handler closed [1].
    pub oom_channels: u64,
}

impl Counters {
    /// Circuit and stream SENDMEs that this relay sent.
    pub fn all_sendmes(&self) -> u64 {
        self.sendmes + self.stream_sendmes
    }
}
