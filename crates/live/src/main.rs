//! `penstock-relay`: see [`penstock_live::program`].

use std::process::ExitCode;

fn main() -> ExitCode {
    penstock_live::program::run(std::env::args_os().skip(1))
}
