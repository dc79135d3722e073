//! What an operator says.

use penstock_live::torrc::check_text;

/// Any text as a torrc: whether it was taken. Files that it includes are left alone, and names are not looked up.
///
/// # Panics
///
/// If a mistake is not one sentence with the line.
pub fn torrc(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    match check_text(&text) {
        None => false,
        Some(Ok(())) => true,
        Some(Err(mistake)) => {
            let said = mistake.to_string();
            assert!(!said.contains('\n') && said.len() < 4096 + 4 * text.len(), "one sentence: {said:?}");
            assert!(
                said.starts_with("torrc:") || said.starts_with("command line:"),
                "with its place: {said:?}"
            );
            false
        }
    }
}
