//! The program `penstock-relay`. The module [`penstock_live::program`] contains the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    penstock_live::program::run(std::env::args_os().skip(1))
}
