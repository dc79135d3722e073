//! Target `torrc`: parses the operator's settings.

use penstock_live::torrc::check_text;

/// Parses any text as a torrc, without opening other files or looking up names. Returns whether the torrc is valid.
///
/// # Panics
///
/// If an error message is not one sentence with its line.
pub fn torrc(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    match check_text(&text) {
        None => false,
        Some(Ok(())) => true,
        Some(Err(error)) => {
            let message = error.to_string();
            assert!(
                !message.contains('\n') && message.len() < 4096 + 4 * text.len(),
                "one sentence: {message:?}"
            );
            assert!(
                message.starts_with("torrc:") || message.starts_with("command line:"),
                "with the place of the error: {message:?}"
            );
            false
        }
    }
}
