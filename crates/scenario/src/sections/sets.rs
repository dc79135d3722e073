//! Sections that set keys of other sections: `[[variants]]`, `[[deployments]]` and `[[changes]]`.

use crate::keys::section;
use crate::model::ShareOf;
use crate::tree::Table;
use crate::values::{Choice, Fraction, NAME, Or, Overrides, TEXT, TIME, Texts};
use penstock_units::Duration;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct VariantKeys("[[variants]]") {
        /// The name in output and on the command line.
        name: String = NAME, Required;
        /// The name in figures.
        label: String = TEXT, As("name");
        /// The keys that the variant overrides, with dots, like "relay.link".
        set: Table = Overrides, Is("{}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Any,
    Guard,
    Middle,
    Exit,
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct DeploymentKeys("[[deployments]]") {
        /// Relays or groups of relays; "any" is all.
        relays: Vec<String> = Texts, Is("any");
        /// Selects relays by their flags. "exit" selects relays with the flag exit. "guard" selects relays with the
        /// flag guard only. "middle" selects relays without flags.
        position: Position = Choice(&[
            ("any", Position::Any),
            ("guard", Position::Guard),
            ("middle", Position::Middle),
            ("exit", Position::Exit),
        ]), Is("any");
        /// The share of the selected relays that get the new software. Each network draws these relays. A larger share
        /// contains all relays of a smaller share.
        share: Option<f64> = Or("all", Fraction), Is("all");
        /// With "relays", the share is of the number of relays. With "weight", it is of the weight by which clients
        /// choose relays.
        share_of: ShareOf = Choice(&[("relays", ShareOf::Relays), ("weight", ShareOf::Weight)]), Is("relays");
        /// The keys of [relay] that these relays get, like { scheduler = "kist" }.
        set: Table = Overrides, Required;
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct ChangeKeys("[[changes]]") {
        /// The time of the change, from the beginning of the run.
        at: Duration = TIME, Required;
        /// The new values of bandwidth_rate, bandwidth_burst, circuit_policy or throttle of relays and clients, like
        /// "relays.middle.circuit_policy.half_life".
        set: Table = Overrides, Required;
    }
}
