//! Small text files whose last line guards the others: `sum` and their CRC-32C.

/// The text with its last line.
#[must_use]
pub fn with_sum(mut text: String) -> String {
    let line = sum_of(&text);
    text.push_str(&line);
    text
}

/// What the last line guards.
///
/// # Errors
/// What is wrong, in a few words.
pub fn without_sum(text: &str) -> Result<&str, &'static str> {
    let cut = text.rfind("sum ").ok_or("its last line is missing")?;
    let (body, sum) = text.split_at(cut);
    if sum == sum_of(body) { Ok(body) } else { Err("its sum is wrong") }
}

fn sum_of(text: &str) -> String {
    format!("sum {:08x}\n", crc_fast::crc32_iscsi(text.as_bytes()))
}
