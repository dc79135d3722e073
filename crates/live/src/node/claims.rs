//! Connections to other relays that circuits of several hosts need. Each one counts in the share of one of these hosts.

use super::shares::{Holder, Host, Shares};

/// Maximum number of further hosts that a claim keeps [1]. They have different networks, so one network does not replace
/// all others.
const MAX_OTHERS: usize = 4;

/// The entry of a connection in a table of shares. A table identifies a connection by a `T`, such as its channel.
///
/// The connection belongs to one host. If this host loses it, the connection moves to another host that needs it. A host
/// that asks first for a connection can therefore not end it for others.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) host: Host,
    number: u64,
    /// Further hosts that need the connection, the newest last.
    others: Vec<Host>,
}

impl Claim {
    pub(super) fn new<T: Copy>(shares: &mut Shares<Holder, T>, host: Host, connection: T) -> Self {
        Claim { host, number: shares.add(&host.path(), connection), others: Vec::new() }
    }

    /// Adds the connection to another table, after [`end`](Self::end).
    pub(super) fn enter<T: Copy>(&mut self, shares: &mut Shares<Holder, T>, connection: T) {
        self.number = shares.add(&self.host.path(), connection);
    }

    /// A further host needs the connection.
    pub(super) fn join(&mut self, host: Host) {
        let network = host.path()[0];
        if self.host.path()[0] == network || self.others.iter().any(|other| other.path()[0] == network) {
            return;
        }
        if self.others.len() == MAX_OTHERS {
            self.others.remove(0);
        }
        self.others.push(host);
    }

    /// The host loses the connection, which moves to the smallest share of the further hosts. Returns false if no other
    /// host needs it.
    pub(super) fn pass_on<T: Copy>(&mut self, shares: &mut Shares<Holder, T>, connection: T) -> bool {
        let count = |host: &Host| {
            let path = host.path();
            (shares.count(&path[..1]), shares.count(&path))
        };
        let next = self.others.iter().enumerate().min_by_key(|(_, host)| count(host));
        let Some((place, _)) = next else { return false };
        self.end(shares);
        self.host = self.others.remove(place);
        self.number = shares.add(&self.host.path(), connection);
        true
    }

    /// Removes the connection from its table.
    pub(super) fn end<T: Copy>(&self, shares: &mut Shares<Holder, T>) {
        shares.remove(&self.host.path(), self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_a_host_loses_moves_to_the_smallest_share_of_the_others() {
        let host = |last: u8| Host::of([192, 0, 2, last].into());
        let mut shares = Shares::new();
        shares.add(&host(2).path(), 'x');
        let mut claim = Claim::new(&mut shares, host(1), 'a');
        [1, 2, 2, 3].into_iter().for_each(|last| claim.join(host(last)));
        let of = |shares: &Shares<Holder, char>| [1, 2, 3].map(|last| shares.count(&host(last).path()));
        assert_eq!(of(&shares), [1, 1, 0]);
        assert!(claim.pass_on(&mut shares, 'a'));
        assert_eq!((of(&shares), claim.host), ([0, 1, 1], host(3)));
        assert!(claim.pass_on(&mut shares, 'a') && !claim.pass_on(&mut shares, 'a'));
        assert_eq!(of(&shares), [0, 2, 0]);
        claim.end(&mut shares);
        assert_eq!(of(&shares), [0, 1, 0]);
    }

    #[test]
    fn one_network_does_not_replace_the_other_hosts_of_a_claim() {
        let host = |address: String| Host::of(address.parse().unwrap());
        let mut shares = Shares::new();
        let mut claim = Claim::new(&mut shares, host("192.0.2.1".into()), 'a');
        claim.join(host("192.0.2.2".into()));
        (0..9).for_each(|number| claim.join(host(format!("2001:db8:7:{number}::1"))));
        assert_eq!(claim.others.len(), 2);
        (0..9).for_each(|number| claim.join(host(format!("2001:db8:{number}::1"))));
        assert_eq!(claim.others.len(), MAX_OTHERS);
    }
}
