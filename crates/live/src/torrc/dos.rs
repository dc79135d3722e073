//! C tor's defences against denial of service: `DoSConnectionEnabled` and similar options.

use super::reader::Reader;
use super::values::{auto_flag, seconds, whole};
use super::{TorrcError, ValueError, invalid};
use crate::node::{DOS_OPTIONS, DosOption, DosOptions};

/// The operator's values. As in C tor, `auto` and 0 stand for the consensus's value.
pub(super) fn options(read: &mut Reader) -> Result<DosOptions, TorrcError> {
    let mut options = DosOptions::default();
    for (option, value) in DOS_OPTIONS.iter().zip(&mut options.0) {
        *value = read.one(option.name, |text| parse(option, text))?.flatten();
    }
    Ok(options)
}

fn parse(option: &DosOption, text: &str) -> Result<Option<u32>, ValueError> {
    if (option.least, option.most) == (0, 1) {
        return Ok(auto_flag(text)?.map(u32::from));
    }
    let value = if option.name.ends_with("TimePeriod") {
        u32::try_from(seconds(text)?.as_secs()).unwrap_or(u32::MAX)
    } else {
        whole(text)?
    };
    if value == 0 {
        return Ok(None);
    }
    let (least, most) = (option.least.unsigned_abs(), option.most.unsigned_abs());
    if (least..=most).contains(&value) {
        Ok(Some(value))
    } else {
        Err(invalid!("{text:?} is out of range; it must be 0, or {least} to {most}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_auto_leave_the_value_to_the_consensus() {
        let of = |name: &str, text: &str| {
            let option = DOS_OPTIONS.iter().find(|option| option.name == name).unwrap();
            parse(option, text).map_err(|ValueError(why)| why)
        };
        assert_eq!(of("DoSConnectionEnabled", "auto"), Ok(None));
        assert_eq!(of("DoSConnectionEnabled", "0"), Ok(Some(0)));
        assert_eq!(of("DoSConnectionMaxConcurrentCount", "0"), Ok(None));
        assert_eq!(of("DoSConnectionConnectDefenseTimePeriod", "2 hours"), Ok(Some(7200)));
        assert!(of("DoSConnectionConnectDefenseTimePeriod", "5").is_err());
        assert_eq!(of("DoSStreamCreationDefenseType", "3"), Ok(Some(3)));
        let why = of("DoSCircuitCreationDefenseType", "3").unwrap_err();
        assert_eq!(why, "\"3\" is out of range; it must be 0, or 1 to 2");
    }
}
