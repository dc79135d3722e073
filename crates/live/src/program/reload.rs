//! SIGHUP: reads the torrc again, and applies the settings that a running relay can change.

use super::{Program, load, logs, policy};
use crate::directory::OperatorOverrides;
use crate::torrc::Options;
use penstock_units::Instant;

impl Program {
    /// Applies a valid torrc, and warns about changes that need a restart. An invalid torrc changes nothing. Returns the
    /// outcome, which is also in the log.
    pub(super) fn reload(&mut self) -> String {
        let applied = load(&self.args).map_err(|failure| failure.to_string()).and_then(|new| self.apply(new));
        match applied {
            Ok(()) => {
                log::info!("the torrc was applied");
                "the torrc was applied".to_owned()
            }
            Err(failure) => {
                log::error!("the torrc was not applied: {failure}");
                format!("the torrc was not applied: {failure}")
            }
        }
    }

    fn apply(&mut self, new: Options) -> Result<(), String> {
        // Opens log files again, because the operator may have moved them.
        logs::set(&new.logs).map_err(|error| format!("Log: {error}"))?;
        new.warnings.iter().for_each(|warning| log::warn!("{warning}"));
        let waits = waits_for_a_restart(&self.options, &new);
        if !waits.is_empty() {
            log::warn!("these changes need a restart: {}", waits.join(", "));
        }
        let old = &mut self.options;
        // Changes of other settings need a restart.
        let overrides = OperatorOverrides {
            half_life: new.overrides.half_life,
            throttle: new.overrides.throttle,
            ..old.overrides
        };
        self.node.reconfigure((&old.relay, old.overrides), (&new.relay, overrides));
        (old.relay.circuit_policy, old.relay.bandwidth) = (new.relay.circuit_policy, new.relay.bandwidth);
        (old.relay.throttle, old.relay.client_buckets) = (new.relay.throttle, new.relay.client_buckets);
        (old.exit_rules, old.private, old.reject_local) = (new.exit_rules, new.private, new.reject_local);
        (old.outbound, old.shutdown_wait, old.dos) = (new.outbound, new.shutdown_wait, new.dos);
        (old.logs, old.warnings, old.heartbeat) = (new.logs, new.warnings, new.heartbeat);
        (old.overrides, old.advertised_bandwidth) = (overrides, new.advertised_bandwidth);
        let now = self.node.now();
        self.next_heartbeat = old.heartbeat.map_or(Instant::FAR_FUTURE, |period| now + period);
        let policy = policy(&self.options, self.address);
        self.node.set_outbound(self.options.outbound);
        self.node.set_dos(self.options.dos);
        self.node.set_policy(policy);
        self.update_description();
        Ok(())
    }
}

fn waits_for_a_restart(old: &Options, new: &Options) -> Vec<&'static str> {
    let core = |options: &Options| {
        let relay = &options.relay;
        [
            format!("{:?}", relay.scheduler),
            format!("{:?}", relay.edge_control),
            format!("{:?}", (relay.refill, &relay.channel_map, relay.priority_factor, relay.edge_queue)),
            format!("{:?}", (relay.authenticated_sendmes, relay.limits.max_circuit_queue)),
            format!("{:?}", relay.limits.memory),
            format!("{:?}", (relay.datagrams, &relay.hop_control)),
            format!("{:?}", (relay.conflux, options.overrides.conflux)),
        ]
    };
    let [scheduler, edge_control, rest, limits, memory, hop_control, conflux] = core(old);
    let new_core = core(new);
    let differs = [
        ("Nickname", old.nickname != new.nickname),
        ("ContactInfo", old.contact != new.contact),
        ("MyFamily", old.family != new.family),
        ("Address", old.address != new.address),
        ("ORPort", old.listen != new.listen || old.advertised_port != new.advertised_port),
        ("SocksPort and other options of the onion proxy", old.proxy != new.proxy),
        ("DataDirectory", old.data_directory != new.data_directory),
        ("KeyDirectory", old.key_directory != new.key_directory),
        ("PidFile", old.pid_file != new.pid_file),
        ("DirAuthority", old.authorities != new.authorities),
        ("TestingTorNetwork", old.testing != new.testing),
        ("AssumeReachable", old.assume_reachable != new.assume_reachable),
        ("PublishServerDescriptor", old.publish != new.publish),
        ("DirCache", old.dir_cache != new.dir_cache),
        ("NumCPUs", old.num_cpus != new.num_cpus),
        ("MetricsPort", old.metrics != new.metrics),
        ("ServerDNSResolvConfFile", old.resolv_conf != new.resolv_conf),
        ("ExtendAllowPrivateAddresses", old.extend_to_private != new.extend_to_private),
        ("User", old.user != new.user),
        ("Sandbox", old.sandbox != new.sandbox),
        ("DisableDebuggerAttachment", old.allow_debugger != new.allow_debugger),
        ("Penstock record", old.record != new.record),
        ("Schedulers or Penstock scheduler", scheduler != new_core[0]),
        ("Penstock edge_control", edge_control != new_core[1]),
        ("TokenBucketRefillInterval and similar options", rest != new_core[2]),
        ("Penstock authenticated_sendmes and max_circuit_queue", limits != new_core[3]),
        ("MaxMemInQueues", memory != new_core[4]),
        ("Penstock transport and hop_control", hop_control != new_core[5]),
        ("ConfluxEnabled and ConfluxClientUX", conflux != new_core[6]),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}
