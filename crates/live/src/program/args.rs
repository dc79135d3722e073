//! The command line, with the same form as C tor's. It may contain every option of a torrc.
//!
//! Source: C tor's manual, "Command-line options".

use crate::Error;
use lexopt::{Arg, Parser, ValueExt};
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
penstock-relay: a Tor relay for research, on the congestion management of Penstock

penstock-relay -f TORRC [OPTION VALUE]...

  -f, --torrc-file TORRC       the configuration, in C tor's syntax
  --verify-config              check the configuration, and exit
  --list-fingerprint [rsa|ed25519]
                               print the relay's fingerprint, and exit; makes missing keys
  --version                    print the version, and exit
  -h, --help                   print this help, and exit
  --OPTION VALUE               an option of the torrc, which replaces the torrc's values;
  OPTION VALUE                 +OPTION adds a value, /OPTION removes all values

Signals: TERM and INT end the relay when no circuit is left, or after ShutdownWaitLength; a second INT ends it at once.
HUP reads the torrc again. USR1 logs the state of the relay.
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Run,
    VerifyConfig,
    /// Prints the ed25519 identity, or the fingerprint of the RSA identity.
    ListFingerprint {
        ed25519: bool,
    },
    Version,
    Help,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Args {
    pub(super) ask: Ask,
    pub(super) torrc: Option<PathBuf>,
    pub(super) options: Vec<(String, String)>,
}

impl Args {
    pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let mut parser = Parser::from_args(words);
        let mut args = Args { ask: Ask::Run, torrc: None, options: Vec::new() };
        args.read(&mut parser).map_err(Error::operator)?;
        Ok(args)
    }

    fn read(&mut self, parser: &mut Parser) -> Result<(), lexopt::Error> {
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Short('f') | Arg::Long("torrc-file") => self.torrc = Some(parser.value()?.into()),
                Arg::Short('h') | Arg::Long("help") => self.ask = Ask::Help,
                Arg::Long("version") => self.ask = Ask::Version,
                Arg::Long("verify-config") => self.ask = Ask::VerifyConfig,
                Arg::Long("list-fingerprint") => {
                    let mut next = parser.try_raw_args();
                    let kind = next
                        .as_mut()
                        .and_then(|next| next.next_if(|word| word == "rsa" || word == "ed25519"));
                    self.ask = Ask::ListFingerprint { ed25519: kind.is_some_and(|kind| kind == "ed25519") };
                }
                Arg::Long(name) => {
                    let name = name.to_owned();
                    self.option(name, parser)?;
                }
                Arg::Value(name) => {
                    let name = name.string()?;
                    self.option(name, parser)?;
                }
                Arg::Short(_) => return Err(arg.unexpected()),
            }
        }
        Ok(())
    }

    fn option(&mut self, name: String, parser: &mut Parser) -> Result<(), lexopt::Error> {
        let value = if name.starts_with('/') { String::new() } else { parser.value()?.string()? };
        self.options.push((name, value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Args, Error> {
        Args::parse(words.split(' ').filter(|word| !word.is_empty()).map(OsString::from))
    }

    #[test]
    fn options_work_with_and_without_dashes() {
        let args = parse("-f x --ORPort 9001 Nickname gate +ExitPolicy accept --SocksPort -1 /Log").unwrap();
        assert_eq!((args.ask, args.torrc), (Ask::Run, Some("x".into())));
        let options: Vec<_> = args.options.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let expected = [
            ("ORPort", "9001"),
            ("Nickname", "gate"),
            ("+ExitPolicy", "accept"),
            ("SocksPort", "-1"),
            ("/Log", ""),
        ];
        assert_eq!(options, expected);
    }

    #[test]
    fn the_fingerprint_of_either_key_can_be_requested() {
        assert_eq!(parse("--list-fingerprint").unwrap().ask, Ask::ListFingerprint { ed25519: false });
        assert_eq!(
            parse("--list-fingerprint ed25519 -f x").unwrap().ask,
            Ask::ListFingerprint { ed25519: true }
        );
        assert_eq!(parse("--list-fingerprint Nickname x").unwrap().options.len(), 1);
    }

    #[test]
    fn an_option_without_its_value_is_an_error() {
        assert!(parse("-f").is_err() && parse("-x").is_err());
        assert_eq!(parse("--ORPort").unwrap_err().to_string(), "missing argument for option '--ORPort'");
    }
}
