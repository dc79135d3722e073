//! Scenario files: the only parser, for every world.
//!
//! Layers, in order: [`error`] (one sentence for each mistake), `tree` (TOML whose values know
//! their line), `form` (what a value may look like), `schema` (every key, its default and its
//! meaning), `overrides` (what goes over what), `network_file` (relays from elsewhere), `presets` (versions of Tor), `resolve` (fills defaults in), [`partners`] (which algorithms go
//! together), `build` and `tor` (from the tree to the types, and how keys fit each other), `alone` (one relay without a scenario), `changes` (what is different later), [`deploy`] (what some relays have and others do not), [`era`] (relays as they were), [`drawn`] (what chance decides), [`ways`] (round trips by country), [`model`] (what every world runs), [`markov`] (traffic that models draw),
//! `print`, [`reference`](mod@reference) and `describe` (what a user reads).
//!
//! ```
//! use penstock_scenario::Document;
//!
//! let text = r#"
//!     [scenario]
//!     title = "One client, one path"
//!     [run]
//!     duration = "1 min"
//!     [relays.entry]
//!     [relays.middle]
//!     link = "128 KiB/s"
//!     [relays.exit]
//!     [servers.destination]
//!     [workloads.web]
//!     size = "300 KiB"
//!     [clients.web]
//!     workload = "web"
//!     path = ["entry", "middle", "exit"]
//! "#;
//! let document = Document::parse(text, "one.toml", &["run.duration=10 s".to_owned()]).unwrap();
//! let scenario = document.scenario("default").unwrap();
//! assert_eq!(scenario.run.duration.as_secs(), 10);
//!
//! let mistake = Document::parse(&text.replace("128 KiB/s", "128"), "one.toml", &[]).unwrap_err();
//! assert!(mistake.to_string().starts_with("one.toml:8: relays.middle.link: \"128\" is no rate"));
//! ```

mod alone;
mod build;
mod changes;
mod closed;
pub mod deploy;
mod describe;
mod document;
pub mod drawn;
pub mod era;
pub mod error;
mod estimate;
mod form;
pub mod markov;
pub mod model;
mod network_file;
mod overrides;
pub mod partners;
mod presets;
mod print;
pub mod reference;
mod resolve;
mod schema;
mod tor;
mod tree;
pub mod ways;

pub use alone::{RelayMistake, relay_config};
pub use document::{Document, Point};
pub use error::ScenarioError;
pub use estimate::Estimate;
pub use model::Scenario;
pub use network_file::NetworkFile;
pub use reference::{algorithms, presets, sections, workload_kinds, workload_presets};
