//! Parses scenario files, for the simulator, the testbed and live relays.
//!
//! The parser makes a model from a file in one pass. Each module uses only modules above it in this table:
//!
//! | layer | files |
//! |---|---|
//! | errors with file and line | [`error`] |
//! | TOML as a tree | `tree` |
//! | types of single values | `distribution`, `markov`, `values` |
//! | declarations of keys, algorithms of other crates | `keys`, [`plugin`] |
//! | the model | [`model`], `rtt_matrix`, `sampled` |
//! | presets | `presets` |
//! | sections: their keys and the model that they give | `sections` |
//! | layers of files, overrides, presets and inherited keys | `layers` |
//! | checks across sections | `build`, `deployments`, `changes`, `ineffective`, `lookahead` |
//! | files and lines | `document`, `single_relay` |
//! | output | `describe`, `estimate`, `queueing_model`, [`reference`](mod@reference) |
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
//! let error = Document::parse(&text.replace("128 KiB/s", "128"), "one.toml", &[]).unwrap_err();
//! assert!(error.to_string().starts_with("one.toml:8: relays.middle.link: \"128\" is no rate"));
//! ```

mod build;
mod changes;
mod deployments;
mod describe;
mod distribution;
mod document;
pub mod error;
mod estimate;
mod ineffective;
mod keys;
mod layers;
mod lookahead;
pub mod markov;
pub mod model;
pub mod plugin;
mod presets;
mod queueing_model;
pub mod reference;
mod rtt_matrix;
mod sampled;
mod sections;
mod single_relay;
mod tree;
mod values;

pub use document::{Document, Point};
pub use error::Error;
pub use estimate::Estimate;
pub use layers::NetworkFile;
pub use model::Scenario;
pub use reference::{algorithms, presets, sections, workload_kinds, workload_presets};
pub use rtt_matrix::RttMatrix;
pub use single_relay::{RelaySettings, relay_config};
