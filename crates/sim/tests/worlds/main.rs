//! Tests of whole networks: scenarios run from their text, and their tables are checked.

mod buckets;
mod changes;
mod choices;
mod clients;
mod comparators;
mod conservation;
mod credits;
mod datagrams;
mod defenestrator;
mod determinism;
mod links;
mod markov;
mod matrix;
mod modes;
mod networks;
mod places;
mod plain;
mod random;
mod replay;
mod sessions;
mod stations;
mod steps;
mod threads;
mod util;
mod vegas;
mod windows;
